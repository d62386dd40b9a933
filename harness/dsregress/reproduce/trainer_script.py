"""A finding on transformers' Trainer as one short file, in which Trainer itself trains. Pure.

It is built like `dsregress.reproduce.script`, from the same parts. It trains one step on one step's samples, so that plain
PyTorch needs no order of them.
"""

from __future__ import annotations

from typing import Any

from dsregress.compare.metrics import GRADIENT_NORM_ERROR, LOSS_ERROR, OUTCOME
from dsregress.reproduce.configuration import settings
from dsregress.reproduce.script import (
    TEMPLATES,
    TOLERANCES,
    TRANSFORMERS,
    NoFragment,
    Script,
    Subject,
    literal,
    lora_arguments,
    packed,
    pip,
    tidy,
)

#: The ending of a script by metric: its template, and text of its line of output.
_VERDICTS = {
    GRADIENT_NORM_ERROR.name: ("gradient_norm", "plain PyTorch"),
    LOSS_ERROR.name: ("loss", "plain PyTorch"),
    OUTCOME.name: ("crash", "trains "),
}

#: Keys that transformers fills in from its own arguments, as in its users' configurations.
_AUTO = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")

#: Parameters that Trainer decides, or for which a script has a size of its own.
_WITHOUT = {
    *("model", "shape", "sequence_length", "micro_batch_size", "objective", "decay_groups", "weight_decay"),
    *("zero_init", "learning_rate"),
}

#: Parameters that the template covers besides the configuration.
_SAID = {
    *("zero_stage", "offload_optimizer", "world_size", "dtype", "gradient_accumulation_steps", "gradient_clipping"),
    *("gradient_accumulation_dtype", "gradient_checkpointing", "frozen", "lora_rank", "communication_dtype"),
    *("reduce_bucket_size", "persistence_threshold", "max_live_parameters", "max_reuse_distance", "overlap_comm"),
    *("round_robin_gradients", "contiguous_gradients", "reduce_scatter", "allgather_partitions"),
}


def compose(subject: Subject) -> Script:
    """Return the script. Raise NoFragment if a part of the subject has no fragment."""
    p = {**subject.defaults, **subject.parameters}
    if subject.question.metric not in _VERDICTS:
        raise NoFragment(f"the metric {subject.question.metric} of a job by Trainer")
    for name, value in p.items():
        if name not in _SAID | _WITHOUT and value != subject.defaults.get(name):
            raise NoFragment(f"{name}={value}")
    kind, says = _VERDICTS[subject.question.metric]
    lora = lora_arguments({"lora_modules_to_save": "", **p})
    names = dict.fromkeys(["torch", "transformers", "accelerate", *(["peft"] if lora else []), "deepspeed"])
    text = TEMPLATES.get_template("trainer.py.jinja").render(
        pip_bad=pip(names, subject.bad),
        pip_good=pip(names, subject.good),
        file=subject.file,
        ranks=p["world_size"],
        dtype=p["dtype"],
        micro_batches=p["gradient_accumulation_steps"],
        config=literal(_settings(p, is_sized=subject.is_sized or p["zero_stage"] == 3)),
        shape=packed({**p["shape"], "use_cache": False}),
        vocabulary=p["shape"]["vocab_size"],
        checkpointing=p["gradient_checkpointing"],
        clipping=p["gradient_clipping"],
        lora=lora,
        frozen=p["frozen"],
        kind=kind,
        tolerance=TOLERANCES[p["dtype"]],
    )
    return Script(
        text=tidy(text),
        file=subject.file,
        ranks=p["world_size"],
        says=says,
        has_truth=kind != "crash",
        compares=False,
        counts=False,
        needs_expected=False,
        is_crash=kind == "crash",
        model=TRANSFORMERS,
        is_sized=subject.is_sized,
    )


def _settings(p: dict[str, Any], *, is_sized: bool) -> dict[str, Any]:
    """Return the ``deepspeed`` argument of `TrainingArguments`."""
    unnamed = {"zero_init": False, "offload_param": False}
    found = settings({**unnamed, **p}, None, sized=is_sized)
    return {**found, **dict.fromkeys(_AUTO, "auto"), "bf16": {"enabled": "auto"}}
