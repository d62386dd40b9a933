"""Facts by the settings of a DeepSpeed engine that ran, where what it was given was not recorded.

Only those of which the value in force is the answer: whether a value was given or is a default, they do not say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dsregress.advisories.job_facts import Fact

_PREFIX = "deepspeed."

#: Attributes of `deepspeed.runtime.config.DeepSpeedConfig`, by the fact that is their value.
_STEPS = "gradient_accumulation_steps"
_SAME = {"zero_stage": "zero_config.stage", _STEPS: _STEPS, "warmup_steps": "scheduler_params.warmup_num_steps"}

#: Switches of a dtype, as up to DeepSpeed 0.17.5 and since.
_BF16 = ("bfloat16_enabled", "bfloat16_config.enabled")
_FP16 = ("fp16_enabled", "float16_config.enabled")

_OFFLOADS = ("offload_optimizer", "offload_param")


def facts_of_engine(configuration: Mapping[str, object], where: str) -> Iterator[Fact]:
    """Yield the facts that an engine's settings show, by dotted keys that begin with ``deepspeed.``. ``where`` names them in
    sources."""
    found = {key.removeprefix(_PREFIX): value for key, value in configuration.items() if key.startswith(_PREFIX)}
    for fact, key in _SAME.items():
        if isinstance(value := found.get(key), int):
            yield Fact(name=fact, value=value, source=f"{where}: {key}")
    if "scheduler_name" in found:
        yield Fact(name="scheduler", value=found["scheduler_name"] or "none", source=f"{where}: scheduler_name")
    halves = (("bf16", _BF16), ("fp16", _FP16))
    on = [dtype for dtype, keys in halves if any(found.get(key) is True for key in keys)]
    if found:
        yield Fact(name="dtype", value=on[0] if on else "fp32", source=f"{where}: bf16 and fp16")
        yield Fact(name="fsdp", value=False, source=f"{where}: an engine of DeepSpeed's")
    for fact in _OFFLOADS:
        key = f"zero_config.{fact}"
        device = found.get(f"{key}.device", found.get(key, ""))
        if device in (None, "none", "cpu"):
            yield Fact(name=fact, value=device == "cpu", source=f"{where}: {key}")
