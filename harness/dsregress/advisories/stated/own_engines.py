"""Facts of frameworks that shard by their own means, without DeepSpeed, accelerate and Trainer: Megatron and torchtitan."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsregress.advisories.job_facts import Fact
from dsregress.advisories.stated.documents import Document
from dsregress.probe.launch_line import LaunchLine

#: Packages of such frameworks: ``-m verl.trainer.main_ppo``, ``torchtitan/train.py``, ``nemo llm pretrain``.
_PACKAGES = frozenset(("verl", "torchtitan", "nemo", "nemo_rl", "nemo_run", "nemo_automodel", "megatron"))

#: An option that every program of Megatron-LM has.
_OF_MEGATRON = "tensor_model_parallel_size"

_FACTS = ("deepspeed", "trainer", "accelerate_launch")


def facts_without_deepspeed(line: LaunchLine, options: Document) -> Iterator[Fact]:
    """Yield that neither DeepSpeed, accelerate nor Trainer trains; nothing for a program of no such framework. Megatron has
    a fork that takes DeepSpeed's options."""
    names = [one for one in re.split(r"[./\\]", line.program.lower()) if one]
    found = next((one for one in names if one in _PACKAGES), "")
    if not found and options.get(_OF_MEGATRON) is not None:
        found = "--tensor-model-parallel-size"
    if found and options.get("deepspeed") is None and options.get("deepspeed_config") is None:
        for name in _FACTS:
            yield Fact(name=name, value=False, source=f"{options.file}: {found}", yields=True)
