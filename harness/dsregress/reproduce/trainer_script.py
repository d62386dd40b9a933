"""A finding on transformers' Trainer as one short file, in which Trainer itself trains. Pure.

It is built like `dsregress.reproduce.script`, from the same parts. It trains one step on one step's samples, so that plain
PyTorch needs no order of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dsregress.compare.metrics import GRADIENT_NORM_ERROR, LOSS_ERROR, OUTCOME
from dsregress.probe.factors import BY_NAME
from dsregress.reproduce.configuration import settings
from dsregress.reproduce.fragments import TEMPLATES, active_fragments, fragment_names, imported_names
from dsregress.reproduce.script import TOLERANCES, TRANSFORMERS, NoFragment, Script, Subject, all_parameters, pip
from dsregress.reproduce.text import literal, packed, tidy

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


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The variables of the template, besides the cell's parameters."""

    kind: str
    pip_bad: str
    pip_good: str
    file: str
    ranks: int
    micro_batches: int
    config: str
    shape_literal: str
    vocabulary: int
    imported: list[str]
    fragments: dict[str, list[str]]
    tolerance: float


def compose(subject: Subject) -> Script:
    """Return the script. Raise NoFragment if a part of the subject has no fragment."""
    p = all_parameters(subject)
    if subject.question.metric not in _VERDICTS:
        raise NoFragment(f"the metric {subject.question.metric} of a job by Trainer")
    for name, value in subject.parameters.items():
        is_said = name in _WITHOUT or (name in BY_NAME and BY_NAME[name].of_trainer)
        if not is_said and value != subject.defaults.get(name):
            raise NoFragment(f"{name}={value}")
    kind, says = _VERDICTS[subject.question.metric]
    packages = [one.package for one in active_fragments(p) if one.package]
    names = dict.fromkeys(["torch", "transformers", "accelerate", *packages, "deepspeed"])
    parts = _Parts(
        kind=kind,
        pip_bad=pip(names, subject.bad),
        pip_good=pip(names, subject.good),
        file=subject.file,
        ranks=p["world_size"],
        micro_batches=p["gradient_accumulation_steps"],
        config=literal(_settings(p, is_sized=subject.is_sized or p["zero_stage"] == 3)),
        shape_literal=packed({**p["shape"], "use_cache": False}),
        vocabulary=p["shape"]["vocab_size"],
        imported=imported_names(p),
        fragments=fragment_names(p),
        tolerance=TOLERANCES[p["dtype"]],
    )
    text = TEMPLATES.get_template("trainer.py.jinja").render({**p, **msgspec.structs.asdict(parts)})
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


def _settings(p: dict[str, object], *, is_sized: bool) -> dict[str, Any]:
    """Return the ``deepspeed`` argument of `TrainingArguments`."""
    found = settings(p, None, sized=is_sized)
    return {**found, **dict.fromkeys(_AUTO, "auto"), "bf16": {"enabled": "auto"}}
