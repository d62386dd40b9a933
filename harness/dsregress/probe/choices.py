"""The values of parameters that have few. Standard library only: the host refuses any other before a cell runs, whose
failure would be taken for the release's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsregress.probe import adapters

#: Parameters of this project's own adapters: name -> all values that they know.
CHOICES: Mapping[str, Sequence[Any]] = {
    "zero_stage": (0, 1, 2, 3),
    "dtype": ("fp32", "bf16", "fp16"),
    "gradient_accumulation_dtype": (None, "fp32", "bf16", "fp16"),
    "communication_dtype": (None, "fp32", "bf16", "fp16"),
    "gradient_checkpointing": ("none", "reentrant", "non_reentrant"),
    "model_outputs": ("all", "loss"),
    "integration": ("transformers", "accelerate", "none"),
    "optimizer": ("passed", "configured"),
    "backward_on": ("engine", "loss", "several", "divided"),
    "schedule": (None, "WarmupDecayLR", "WarmupCosineLR"),
    "reference": ("", "beside", "destroyed"),
    "halved_gradients": ("", "full", "local"),
    "exported": ("", "zero_to_fp32", "16bit"),
}

#: The adapters that take these parameters. A program's parameters of the same names are its own.
_TRAINING = (adapters.DEEPSPEED, adapters.DEEPSPEED_JOBS, adapters.TRAINER)


def refused(framework: str, parameters: Mapping[str, Any]) -> str:
    """Return a message on the first parameter with a value that the framework's adapter does not know; empty if all are
    known, or the adapter does not take them."""
    if framework in _TRAINING:
        for name, choices in CHOICES.items():
            if name in parameters and parameters[name] not in choices:
                known = ", ".join("none" if one is None else str(one) or "nothing" for one in choices)
                return f"{name}={parameters[name]}; known are: {known}"
    return ""
