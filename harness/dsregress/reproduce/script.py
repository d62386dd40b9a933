"""A cell's parameters -> a script of twenty to sixty lines that needs the released packages alone. Pure.

Each feature of a workload is a fragment under ``templates/``, in plain Python; parameters that are not configured leave
nothing behind. A part without a fragment is an error: a script that leaves out a part of the cell would show something else.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dsregress.bisect.questions import Question
from dsregress.compare.metrics import BY_NAME as METRICS_BY_NAME
from dsregress.compare.metrics import CONFIGURATION, HOST_CALLS, OUTCOME
from dsregress.compare.outcomes import HUNG
from dsregress.probe.adapters import DEEPSPEED
from dsregress.probe.border.wire import REGULAR_PHASES
from dsregress.probe.factors import BY_NAME, FACTORS, accumulates_itself, simplest_values
from dsregress.reproduce.configuration import Optimizer, of_frozen, settings
from dsregress.reproduce.fragments import TEMPLATES, active_fragments, fragment_names, imported_names
from dsregress.reproduce.text import literal, packed, tidy

#: The model of a script: a few layers of torch's own, or the cell's model by transformers.
LAYERS, TRANSFORMERS = "layers", "transformers"

#: A larger difference from plain PyTorch is wrong: as a share of a loss or a gradient norm, and of the movement of the
#: weights. A sound release was seen at a tenth of it.
TOLERANCES = {"fp32": 0.001, "bf16": 0.02, "fp16": 0.02}
_TORCH_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_PARAMETER_TOLERANCES = {"fp32": 0.01, "bf16": 0.1, "fp16": 0.1}


#: Where updates are compared with plain PyTorch's: as wrong as the gradient is, and large against the rounding of weights
#: in half precision, of which those of transformers have far smaller gradients.
_SGD = {
    LAYERS: Optimizer(name="SGD", learning_rate=0.01),
    TRANSFORMERS: Optimizer(name="SGD", learning_rate=0.5),
}
#: The optimizer of all other scripts: it has state, which takes memory.
_ADAM = Optimizer(name="AdamW", learning_rate=0.001, options={"torch_adam": True})

#: A figure that exceeds the other release's by this factor is more, if that of the bad one is not known.
_MARGIN = 1.02

_STEPS = 2

#: Samples of a micro-batch in the fragments of the models.
_SAMPLES = {LAYERS: 8, TRANSFORMERS: 2}


class _Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The quantity that a script counts in a phase."""

    name: str  #: its name in the fragments
    template: str = ""  #: under ``counting/``; empty: a profiler of Python's or torch's own counts it


class _Ending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last part of a script."""

    kind: str  #: its template, under ``verdict/``
    says: str = ""  #: text of its line of output, and of no line of a framework's log
    figure: _Figure | None = None  #: the quantity it counts
    has_truth: bool = False  #: it trains in plain PyTorch as well


def read_endings(content: bytes) -> dict[str, _Ending]:
    """Return the endings of scripts by metric. Raise ValueError if an entry is none of a metric."""
    endings = msgspec.toml.decode(content, type=dict[str, _Ending])
    unknown = sorted(endings.keys() - METRICS_BY_NAME.keys())
    if unknown:
        raise ValueError(f"no such metric: {', '.join(unknown)}")
    return endings


_ENDINGS = read_endings(Path(__file__).with_name("endings.toml").read_bytes())

#: The ending for the gradient norm if a gradient is infinite: it has no finite truth.
_INFINITE = _Ending("infinite", "an infinite gradient: ")

#: The ending for a hang: ranks that wait for one another instead of a crash.
_HANG = _Ending("hang", "trains ")
#: The beginning of such a script's line if its ranks hang.
HANGS = "hangs: "

#: Seconds after which ranks that train nothing count as hung: a script trains for seconds.
_HANG_S = 60

#: Steps of a script; a warm-up begins to rise in the third.
_MORE_STEPS = 4

#: Parameters that are no factors and that a script leaves out: its own sizes are small.
_WITHOUT = {
    *("shape", "layers", "sequence_length", "micro_batch_size", "weight_decay", "learning_rate"),
    *("gpu", "expandable_segments", "gather_16bit_weights", "load_on_device"),
}

_OBJECTIVES = ("next_token", "fine_tuning", "two_runs", "two_backwards", "several_outputs", "no_head")


class NoFragment(Exception):
    """The workload, or the metric, has a part without a fragment; the message names it."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The finding that a script should show."""

    parameters: dict[str, Any]  #: of the cell
    defaults: Mapping[str, Any]  #: parameters that stand for nothing configured
    question: Question
    bad: Mapping[str, str]  #: package -> version, of the release that has the fault
    good: Mapping[str, str]  #: of the one that it is compared with
    package: str = "deepspeed"  #: in which they differ
    file: str = "reproduce.py"
    model: str = LAYERS
    expected: Any = msgspec.UNSET  #: the good release's count or setting; UNSET: not known yet
    shown: Any = msgspec.UNSET  #: the bad release's count
    is_sized: bool = False  #: with the cell's sizes of buckets, also where DeepSpeed's own would do


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """One Python file, and how to run and read it."""

    text: str
    file: str
    ranks: int
    says: str  #: text of its line of output
    has_truth: bool  #: it trains in plain PyTorch as well
    compares: bool  #: with a figure of the good release
    counts: bool  #: that figure is a number of bytes, calls or the like
    needs_expected: bool  #: it lacks that figure, and prints its own
    is_crash: bool  #: the fault ends it
    is_hang: bool = False  #: the fault keeps its ranks waiting, which it says
    model: str  #: `LAYERS` or `TRANSFORMERS`
    is_sized: bool = False  #: as its subject


def compose(subject: Subject) -> Script:
    """Return the script. Raise NoFragment if a part of the subject has no fragment."""
    p = all_parameters(subject)
    ending = _ending(subject, p)
    _check_subject(subject, p)
    training = _training(subject, p, ending)
    parts = [p, msgspec.structs.asdict(training), msgspec.structs.asdict(_script_verdict(subject, p, ending))]
    text = TEMPLATES.get_template("script.py.jinja").render(collections.ChainMap(*reversed(parts)))
    kind = ending.kind
    return Script(
        text=tidy(text),
        file=subject.file,
        ranks=p["world_size"],
        says=ending.says or f"{subject.question.key} is ",
        has_truth=ending.has_truth,
        compares=kind in ("counted", "configuration"),
        counts=kind == "counted",
        needs_expected=kind in ("counted", "configuration") and subject.expected is msgspec.UNSET,
        is_crash=kind == "crash",
        is_hang=kind == _HANG.kind,
        model=subject.model,
        is_sized=subject.is_sized,
    )


def all_parameters(subject: Subject) -> dict[str, Any]:
    """Return the parameters of a subject, with the simplest value of each factor that it does not name."""
    return {**simplest_values(DEEPSPEED), **subject.defaults, **subject.parameters}


class _TrainingParts(msgspec.Struct, frozen=True, kw_only=True):
    """The variables of the training's templates, besides the cell's parameters."""

    form: str  #: `LAYERS` or `TRANSFORMERS`
    ranks: int
    micro_batches: int
    steps: int
    depth: int  #: of the model of layers
    shape_literal: str
    vocabulary: int | None
    torch_dtype: str
    config: str
    evaluating: str  #: the configuration of an engine that only evaluates
    optimizer_name: str
    rate: float  #: the learning rate
    has_truth: bool
    is_seeded: bool  #: it prints what depends on the batches
    has_seeded_batches: bool
    has_function: bool
    has_class: bool
    makes_several: bool
    is_one_call: bool
    several_outputs: bool
    inits_sharded: bool
    some_frozen: bool
    accumulates: bool
    starves: bool
    own_rank: str
    around_forward: str
    around_backward: str
    fragments: dict[str, list[str]]


def _training(subject: Subject, p: Mapping[str, Any], ending: _Ending) -> _TrainingParts:
    hangs, form = ending.kind == _HANG.kind, subject.model
    is_seeded = ending.has_truth or ending.kind == _INFINITE.kind
    active = active_fragments(p)
    needs_moments = any(one.needs_moments for one in active)
    optimizer = _SGD[form] if ending.has_truth and not needs_moments else _ADAM
    is_sized = subject.is_sized or p["zero_stage"] == 3 or ending.figure is not None
    shape = dict(p.get("shape", {}))
    is_mixture = shape.get("model_type") == "mixtral"
    return _TrainingParts(
        form=form,
        ranks=p["world_size"],
        micro_batches=p["gradient_accumulation_steps"],
        steps=_MORE_STEPS if any(one.needs_more_steps for one in active) else _STEPS,
        depth=4 if p["model"] != "llama-many" else 16,
        shape_literal=packed({**shape, "use_cache": False}),
        vocabulary=shape.get("vocab_size"),
        torch_dtype=_TORCH_DTYPES[p["dtype"]],
        config=literal(settings(p, optimizer, sized=is_sized, samples=_SAMPLES[form])),
        evaluating=literal(settings(of_frozen(p), None, sized=False, samples=_SAMPLES[form])),
        optimizer_name=optimizer.name,
        rate=optimizer.learning_rate,
        has_truth=ending.has_truth,
        is_seeded=is_seeded,
        has_seeded_batches=is_seeded or p["identical_micro_batches"],
        has_function=_has_function(p, form, is_seeded=is_seeded),
        has_class=_has_class(p, form),
        makes_several=any(one.makes_models for one in active) or (ending.has_truth and _inits_sharded(p)),
        is_one_call=_is_one_call(p, subject, ending.kind),
        several_outputs=p["model_outputs"] != "loss" or p["objective"] in ("several_outputs", "no_head"),
        inits_sharded=_inits_sharded(p),
        some_frozen=bool(p["frozen"] or p["lora_rank"]) and not p["grouped_frozen"],
        accumulates=accumulates_itself(p),
        starves=hangs and is_mixture and p["world_size"] > 1,
        own_rank="RANK" if is_seeded or hangs or any(one.names_rank for one in active) else "engine.global_rank",
        around_forward=", ".join(one.at["around_forward"] for one in active if "around_forward" in one.at),
        around_backward=", ".join(one.at["around_backward"] for one in active if "around_backward" in one.at),
        fragments=fragment_names(p),
    )


class _VerdictParts(msgspec.Struct, frozen=True, kw_only=True):
    """The variables of a script's head and of its last part."""

    kind: str
    pip_bad: str
    pip_good: str
    good_name: str
    bad_name: str
    file: str
    imports: str
    is_known: bool
    expected: Any
    shown: Any
    limit: int
    counting: str
    figure: str
    unit: str
    phase: str
    tolerance: float
    limit_s: int
    setting: str
    value_of: str


def _script_verdict(subject: Subject, p: Mapping[str, Any], ending: _Ending) -> _VerdictParts:
    figure, question = ending.figure, subject.question
    uses_transformers = subject.model == TRANSFORMERS
    further = ["transformers"] if uses_transformers else []
    imported = ["torch", *further, *(one.package for one in active_fragments(p) if one.package), "deepspeed"]
    names = dict.fromkeys([*imported, subject.package])
    return _VerdictParts(
        kind=ending.kind,
        pip_bad=pip(names, subject.bad),
        pip_good=pip(names, subject.good),
        good_name=f"{subject.package} {subject.good[subject.package]}",
        bad_name=f"{subject.package} {subject.bad[subject.package]}",
        file=subject.file,
        imports=_imports(ending, p, transformers=uses_transformers),
        is_known=subject.expected is not msgspec.UNSET,
        expected=subject.expected,
        shown=subject.shown if subject.shown is not msgspec.UNSET else None,
        limit=_sound_limit(subject),
        counting=figure.template if figure is not None else "",
        figure=figure.name if figure is not None else "",
        unit=f"{ending.says} {question.phase}",
        phase=question.phase,
        tolerance=(_PARAMETER_TOLERANCES if ending.kind == "parameters" else TOLERANCES)[p["dtype"]],
        limit_s=_HANG_S,
        setting=question.key,
        value_of=_setting(question.key),
    )


def _ending(subject: Subject, p: Mapping[str, object]) -> _Ending:
    metric = subject.question.metric
    if metric not in _ENDINGS:
        raise NoFragment(f"the metric {metric}")
    if p["infinite_gradient_step"] is not None and _ENDINGS[metric].has_truth:
        return _INFINITE
    if metric == OUTCOME.name and HUNG in subject.question.key:
        return _HANG
    return _ENDINGS[metric]


def _check_subject(subject: Subject, p: Mapping[str, object]) -> None:
    for name, value in subject.parameters.items():
        is_said = BY_NAME[name].is_in_scripts if name in BY_NAME else name in _WITHOUT
        if not is_said and value != subject.defaults.get(name):
            raise NoFragment(f"{name}={value}")
    for factor in FACTORS:
        if subject.model == LAYERS and factor.is_active(p) and factor.script and "made" in factor.script.at:
            raise NoFragment(f"{factor.noun} on layers of torch's own")
    if p["objective"] not in _OBJECTIVES:
        raise NoFragment(f"objective={p['objective']}")
    if subject.question.phase and subject.question.phase not in REGULAR_PHASES:
        raise NoFragment(f"the phase {subject.question.phase}")
    if subject.question.metric == HOST_CALLS.name and subject.question.phase == "init":
        raise NoFragment("calls in init")
    if subject.model == TRANSFORMERS and "shape" not in p:
        raise NoFragment("a model without a shape")
    if subject.question.metric == CONFIGURATION.name and not _setting(subject.question.key):
        raise NoFragment(f"the setting {subject.question.key}")


def _sound_limit(subject: Subject) -> int:
    """Return the largest count that is sound. It leaves room above the good release's count, since other releases have a
    little more for other reasons."""
    expected, shown = subject.expected, subject.shown
    if not isinstance(expected, int):
        return 0
    largest = int(_MARGIN * expected)
    return max(largest, (expected + shown) // 2) if isinstance(shown, int) else largest


def _has_function(p: Mapping[str, object], model: str, *, is_seeded: bool) -> bool:
    """Return True if the script needs a function for the loss: it is computed in several places, or by more than an
    expression."""
    active = active_fragments(p)
    is_plain = p["objective"] in ("next_token", "fine_tuning", "two_backwards")
    varies = any(one.varies_batches for one in active)
    is_elsewhere = model == TRANSFORMERS and any(one.computes_losses for one in active)
    return is_seeded or varies or is_elsewhere or not is_plain


def _has_class(p: Mapping[str, object], model: str) -> bool:
    """Return True if a model of layers does more than call them one after the other and leave the loss to the caller."""
    does_more = any(one.needs_class for one in active_fragments(p))
    is_plain = p["model_outputs"] == "loss" and p["objective"] not in ("several_outputs", "no_head")
    return model == LAYERS and (does_more or not is_plain or p["gradient_checkpointing"] != "none")


def _is_one_call(p: Mapping[str, object], subject: Subject, kind: str) -> bool:
    """Return True if nothing is done between a forward and its backward, nor around either."""
    is_measured = subject.question.phase in ("forward", "backward") or kind == "loss"
    is_between = any(one.is_between for one in active_fragments(p))
    needs_line = subject.model == TRANSFORMERS and not _has_function(p, subject.model, is_seeded=False)
    return p["objective"] != "two_backwards" and not is_measured and not is_between and not needs_line


def _inits_sharded(p: Mapping[str, object]) -> bool:
    return bool(p["zero_stage"] == 3 and p["zero_init"])


def _setting(key: str) -> str:
    """Return the expression that reads a setting after ``initialize``, by its name in the effective configuration."""
    if key == "engine.optimizer":
        return "type(engine.optimizer).__name__"
    path = key.removeprefix("deepspeed.")
    return f"engine._config.{path}" if key.startswith("deepspeed.") and path.replace(".", "").isidentifier() else ""


def pip(names: Iterable[str], versions: Mapping[str, str]) -> str:
    """Return pip's requirements for the packages whose versions are known: ``torch==2.6.0 deepspeed==0.16.3``."""
    return " ".join(f"{name}=={versions[name]}" for name in names if name in versions)


def _imports(ending: _Ending, p: Mapping[str, object], *, transformers: bool) -> str:
    figure = ending.figure
    plain = ["os", *(name for one in active_fragments(p) for name in one.imports)]
    if ending.has_truth and not _inits_sharded(p):
        plain.append("copy")
    if figure is not None and figure.template == "storages":
        plain.append("gc")
    if figure is not None and figure.name == "calls":
        plain.append("cProfile")
    if ending.kind != "crash":
        plain.append("sys")
    if ending.kind == _HANG.kind:
        plain += ["threading", "traceback"]
    lines = [f"import {name}" for name in sorted(plain, key=str.lower)]
    lines += ["", "import torch"]
    lines += _counting_imports(figure) if figure is not None else []
    if p["gradient_checkpointing"] != "none" and not transformers:
        lines.append("from torch.utils.checkpoint import checkpoint")
    lines += imported_names(p)
    if transformers:
        lines.append("from transformers import AutoConfig, AutoModelForCausalLM")
    return "\n".join(lines)


def _counting_imports(figure: _Figure) -> list[str]:
    return ["from torch.utils.flop_counter import flop_registry"] if figure.template == "flops" else []
