"""A workload's parameters in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsregress.wording.quantities import plural

_DEVICES = {"sim": "simulated at full size, without a GPU", "cpu": "run on CPU ranks", "cuda": "run on GPUs"}

_PHRASES: dict[str, Callable[[Any], str]] = {
    "model": lambda value: f"model {value}",
    "world_size": lambda value: plural(value, "rank") if isinstance(value, int) else f"{value} ranks",
    "zero_stage": lambda value: f"ZeRO-{value}",
    "dtype": str,
    "gradient_checkpointing": lambda value: {
        None: "no gradient checkpointing",
        "none": "no gradient checkpointing",
        "non_reentrant": "non-reentrant gradient checkpointing",
        "reentrant": "reentrant gradient checkpointing",
    }.get(value, f"gradient checkpointing {value}"),
    "micro_batch_size": lambda value: f"micro-batch {value}",
    "sequence_length": lambda value: f"sequence {value}",
    "gradient_accumulation_steps": lambda value: f"{value} accumulation steps" if value != 1 else "",
    "gradient_clipping": lambda value: f"clipping {value}" if value else "no clipping",
    "offload_optimizer": lambda value: "optimizer offloaded" if value else "no offload",
    "gpu": lambda value: f"reported on {value}",
}


def job_words(parameters: Mapping[str, object], device: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a workload in words, and the names and values of the parameters that the words leave out."""
    phrases = [text for name, say in _PHRASES.items() if name in parameters and (text := say(parameters[name]))]
    rest = [(name, _spelled(value)) for name, value in sorted(parameters.items()) if name not in _PHRASES]
    return ", ".join([*phrases, _DEVICES.get(device, device)]), rest


def _spelled(value: object) -> str:
    """Return a value as text; a model's shape as its fields."""
    return ", ".join(f"{name} {field}" for name, field in value.items()) if isinstance(value, dict) else str(value)
