"""A cell's parameters -> a script of twenty to sixty lines that needs the released packages alone. Pure.

Each feature of a workload is a fragment under ``templates/``, in plain Python; parameters that are not configured leave
nothing behind. A part without a fragment is an error: a script that leaves out a part of the cell would show something else.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from dsregress.bisect.questions import Question
from dsregress.compare.metrics import (
    COLLECTIVE_BYTES,
    COLLECTIVE_COUNT,
    CONFIGURATION,
    DEVICE_EXCESS,
    DEVICE_PEAK,
    DEVICE_RETAINED,
    FLOPS,
    GRADIENT_NORM_ERROR,
    HOST_CALLS,
    LOSS_ERROR,
    OP_LAUNCHES,
    OUTCOME,
    PARAMETER_ERROR,
)
from dsregress.compare.outcomes import HUNG
from dsregress.probe.border.wire import REGULAR_PHASES
from dsregress.probe.factors import FACTORS
from dsregress.reproduce.configuration import (
    Optimizer,
    of_frozen,
    settings,
)

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

#: Columns of a JSON value, next to a short name.
_WIDTH = 110

#: Samples of a micro-batch in the fragments of the models.
_SAMPLES = {LAYERS: 8, TRANSFORMERS: 2}


class _Figure(msgspec.Struct, frozen=True):
    """The quantity that a script counts in a phase."""

    template: str  #: under ``counting/``; empty: a profiler of Python's or torch's own counts it
    name: str  #: its name in the fragments


class _Ending(msgspec.Struct, frozen=True):
    """The last part of a script."""

    kind: str  #: its template
    says: str  #: text of its line of output, and of no line of a framework's log
    figure: _Figure | None = None  #: the quantity it counts
    has_truth: bool = False  #: it trains in plain PyTorch as well


_ENDINGS = {
    GRADIENT_NORM_ERROR.name: _Ending("gradient_norm", "plain PyTorch", has_truth=True),
    LOSS_ERROR.name: _Ending("loss", "plain PyTorch", has_truth=True),
    PARAMETER_ERROR.name: _Ending("parameters", "plain PyTorch", has_truth=True),
    DEVICE_RETAINED.name: _Ending("counted", "bytes held after", _Figure("storages", "live_bytes")),
    DEVICE_EXCESS.name: _Ending("counted", "bytes held after", _Figure("storages", "live_bytes")),
    DEVICE_PEAK.name: _Ending("counted", "bytes at the peak of", _Figure("storages", "peak_bytes")),
    COLLECTIVE_COUNT.name: _Ending("counted", "collectives in", _Figure("", "collectives")),
    COLLECTIVE_BYTES.name: _Ending("counted", "bytes in collectives in", _Figure("operators", "moved_bytes")),
    OP_LAUNCHES.name: _Ending("counted", "operations in", _Figure("operators", "launches")),
    FLOPS.name: _Ending("counted", "floating-point operations in", _Figure("flops", "flops")),
    HOST_CALLS.name: _Ending("counted", "Python and C calls in", _Figure("", "calls")),
    CONFIGURATION.name: _Ending("configuration", ""),
    OUTCOME.name: _Ending("crash", "trains "),
}
#: The ending for the gradient norm if a gradient is infinite: it has no finite truth.
_INFINITE = _Ending("infinite", "an infinite gradient: ")

#: The ending for a hang: ranks that wait for one another instead of a crash.
_HANG = _Ending("hang", "trains ")
#: The beginning of such a script's line if its ranks hang.
HANGS = "hangs: "

#: Seconds after which ranks that train nothing count as hung: a script trains for seconds.
_HANG_S = 60

#: Calls around a micro-batch, and what is done with engines, that older results do not name.
_CALLS = (
    *("forward_between", "varying_length", "evaluate_within", "no_sync", "uneven_last", "uneven_ranks"),
    *("identical_micro_batches", "marks_boundary", "gather_weights", "empty_cache", "module_hooks", "leaf_modules"),
    *("destroyed_engine", "second_engine", "group_learning_rates", "warmup", "exported", "universal", "resume"),
    *("unwrapped", "zero_grad", "halved_gradients", "grouped_frozen", "reference", "schedule", "caller_autocast"),
)

#: Further parameters that the fragments cover.
_SAID = {
    *("zero_stage", "zero_init", "offload_optimizer", "offload_param", "world_size", "dtype", "model_outputs"),
    *("gradient_accumulation_steps", "gradient_accumulation_dtype", "gradient_clipping", "gradient_checkpointing"),
    *("objective", "frozen", "decay_groups", "learning_rate_decay", "lora_rank", "lora_modules_to_save"),
    *("compile_backend", "infinite_gradient_step", "checkpoint", "evaluate", "empty_groups"),
    *("communication_dtype", "prescale_gradients", "backward_on", "optimizer", "loss_scale", "torch_autocast"),
    *_CALLS,
}

#: Steps of a script; a warm-up begins to rise in the third.
_MORE_STEPS = 4

#: Parameters that a script leaves out: its own sizes are small, nothing completes its configuration, and adapters have
#: peft's default dtype.
_WITHOUT = {
    *("model", "shape", "layers", "sequence_length", "micro_batch_size"),
    *("gpu", "expandable_segments", "gather_16bit_weights", "load_on_device", "weight_decay", "learning_rate"),
    "lora_autocast",
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
    p = {**subject.defaults, **subject.parameters}
    ending = _ending(subject, p)
    kind, figure, has_truth = ending.kind, ending.figure, ending.has_truth
    hangs = kind == _HANG.kind
    is_seeded = has_truth or kind == _INFINITE.kind  # which print what depends on the batches
    _check(subject, p)
    uses_transformers = subject.model == TRANSFORMERS
    lora = lora_arguments(p)
    imported = ["torch", *(["transformers"] if uses_transformers else []), *(["peft"] if lora else []), "deepspeed"]
    names = dict.fromkeys([*imported, subject.package])
    shape = dict(p.get("shape", {}))
    is_sized = subject.is_sized or p["zero_stage"] == 3 or figure is not None
    optimizer = _SGD[subject.model] if has_truth and not p.get("universal") else _ADAM  # which has the moments it wants
    text = TEMPLATES.get_template("script.py.jinja").render(
        pip_bad=pip(names, subject.bad),
        pip_good=pip(names, subject.good),
        good_name=f"{subject.package} {subject.good[subject.package]}",
        file=subject.file,
        ranks=p["world_size"],
        dtype=p["dtype"],
        steps=_MORE_STEPS if p.get("warmup") or p.get("schedule") else _STEPS,
        micro_batches=p["gradient_accumulation_steps"],
        config=literal(settings(p, optimizer, sized=is_sized, samples=_SAMPLES[subject.model])),
        evaluating=literal(settings(of_frozen(p), None, sized=False, samples=_SAMPLES[subject.model])),
        is_known=subject.expected is not msgspec.UNSET,
        expected=subject.expected,
        model=subject.model,
        layers=4 if p.get("model") != "llama-many" else 16,
        shape=packed({**shape, "use_cache": False}),
        vocabulary=shape.get("vocab_size"),
        several_outputs=p["model_outputs"] != "loss" or p["objective"] in ("several_outputs", "no_head"),
        checkpointing=p["gradient_checkpointing"],
        objective=p["objective"],
        lora=lora,
        frozen=_frozen(p, subject.model),
        zero_init=p["zero_stage"] == 3 and p["zero_init"],
        decay_groups=p["decay_groups"],
        empty_groups=p.get("empty_groups", False),
        some_frozen=bool(p["frozen"] or lora) and not p.get("grouped_frozen"),
        decay=p["learning_rate_decay"],
        optimizer=optimizer.name,
        learning_rate=optimizer.learning_rate,
        optimizer_is_configured=p.get("optimizer") == "configured",
        first_rate=0.0002,
        accumulates=bool(p.get("no_sync") or p.get("marks_boundary")),
        clipping=p["gradient_clipping"],
        compile_backend=p["compile_backend"],
        infinite_step=p["infinite_gradient_step"],
        evaluate=p["evaluate"],
        checkpoint=p["checkpoint"],
        backward_on=p.get("backward_on", "engine"),
        **{name: p.get(name, False) for name in _CALLS},
        kind=kind,
        is_seeded=is_seeded,
        has_seeded_batches=is_seeded or p.get("identical_micro_batches", False),
        has_function=_has_function(p, subject.model, is_seeded=is_seeded),
        has_class=_has_class(p, subject.model),
        torch_dtype=_TORCH_DTYPES[p["dtype"]],
        is_one_call=_is_one_call(p, subject, kind),
        makes_several=_makes_several(p, has_truth=has_truth),
        own_rank=_own_rank(p, is_seeded=is_seeded or hangs),
        limit_s=_HANG_S,
        starves=hangs and shape.get("model_type") == "mixtral" and p["world_size"] > 1,
        counting=figure.template if figure is not None else "",
        figure=figure.name if figure is not None else "",
        unit=f"{ending.says} {subject.question.phase}",
        phase=subject.question.phase,
        has_truth=has_truth,
        tolerance=(_PARAMETER_TOLERANCES if kind == "parameters" else TOLERANCES)[p["dtype"]],
        bad_name=f"{subject.package} {subject.bad[subject.package]}",
        limit=_limit(subject),
        shown=subject.shown if subject.shown is not msgspec.UNSET else None,
        setting=subject.question.key,
        value_of=_setting(subject.question.key),
        imports=_imports(ending, uses_transformers, bool(lora), p),
    )
    return Script(
        text=tidy(text),
        file=subject.file,
        ranks=p["world_size"],
        says=ending.says or f"{subject.question.key} is ",
        has_truth=has_truth,
        compares=kind in ("counted", "configuration"),
        counts=kind == "counted",
        needs_expected=kind in ("counted", "configuration") and subject.expected is msgspec.UNSET,
        is_crash=kind == "crash",
        is_hang=kind == _HANG.kind,
        model=subject.model,
        is_sized=subject.is_sized,
    )


def _ending(subject: Subject, p: Mapping[str, Any]) -> _Ending:
    metric = subject.question.metric
    if metric not in _ENDINGS:
        raise NoFragment(f"the metric {metric}")
    if p["infinite_gradient_step"] is not None and _ENDINGS[metric].has_truth:
        return _INFINITE
    if metric == OUTCOME.name and HUNG in subject.question.key:
        return _HANG
    return _ENDINGS[metric]


def _check(subject: Subject, p: Mapping[str, Any]) -> None:
    known = {*_SAID, *(f.name for f in FACTORS if f.key), *_WITHOUT}
    for name, value in p.items():
        if name not in known and value != subject.defaults.get(name):
            raise NoFragment(f"{name}={value}")
    if p["objective"] not in _OBJECTIVES:
        raise NoFragment(f"objective={p['objective']}")
    if p["lora_rank"] and subject.model == LAYERS:
        raise NoFragment("adapters on layers of torch's own")
    if subject.question.phase and subject.question.phase not in REGULAR_PHASES:
        raise NoFragment(f"the phase {subject.question.phase}")
    if subject.question.metric == HOST_CALLS.name and subject.question.phase == "init":
        raise NoFragment("calls in init")
    if subject.model == TRANSFORMERS and "shape" not in p:
        raise NoFragment("a model without a shape")
    if subject.question.metric == CONFIGURATION.name and not _setting(subject.question.key):
        raise NoFragment(f"the setting {subject.question.key}")


def _limit(subject: Subject) -> int:
    """Return the largest count that is sound. It leaves room above the good release's count, since other releases have a
    little more for other reasons."""
    expected, shown = subject.expected, subject.shown
    if not isinstance(expected, int):
        return 0
    largest = int(_MARGIN * expected)
    return max(largest, (expected + shown) // 2) if isinstance(shown, int) else largest


def _has_function(p: Mapping[str, Any], model: str, *, is_seeded: bool) -> bool:
    """Return True if the script needs a function for the loss: it is computed in several places, or by more than an
    expression."""
    is_plain = p["objective"] in ("next_token", "fine_tuning", "two_backwards")
    varies = any(p.get(name) for name in ("varying_length", "uneven_last", "uneven_ranks", "identical_micro_batches"))
    others = ("forward_between", "evaluate", "evaluate_within", "second_engine", "unwrapped", "reference")
    is_elsewhere = model == TRANSFORMERS and any(p.get(name) for name in others)
    return is_seeded or varies or is_elsewhere or not is_plain


def _has_class(p: Mapping[str, Any], model: str) -> bool:
    """Return True if a model of layers does more than call them one after the other and leave the loss to the caller."""
    does_more = any(p.get(name) for name in ("torch_autocast", "caller_autocast", "leaf_modules"))
    is_plain = p["model_outputs"] == "loss" and p["objective"] not in ("several_outputs", "no_head")
    return model == LAYERS and (does_more or not is_plain or p["gradient_checkpointing"] != "none")


def _is_one_call(p: Mapping[str, Any], subject: Subject, kind: str) -> bool:
    """Return True if nothing is done between a forward and its backward, nor around either."""
    is_measured = subject.question.phase in ("forward", "backward") or kind == "loss"
    around = ("caller_autocast", "forward_between")
    is_between = (
        p["infinite_gradient_step"] is not None
        or any(map(p.get, around))
        or bool(p.get("no_sync") or p.get("marks_boundary"))
    )
    is_plain = p.get("backward_on", "engine") == "engine" and p["objective"] != "two_backwards"
    needs_line = subject.model == TRANSFORMERS and not _has_function(p, subject.model, is_seeded=False)
    return is_plain and not is_measured and not is_between and not needs_line


def _makes_several(p: Mapping[str, Any], *, has_truth: bool) -> bool:
    """Return True if more than one model is made, and not copied."""
    is_sharded = p["zero_stage"] == 3 and p["zero_init"]
    others = ("destroyed_engine", "second_engine", "resume", "reference")
    return any(p.get(name) for name in others) or (has_truth and is_sharded)


def _own_rank(p: Mapping[str, Any], *, is_seeded: bool) -> str:
    """Return the expression for a rank's number. It is a name if it is needed before the engine exists, or often."""
    others = ("uneven_ranks", "universal", "identical_micro_batches")
    is_named = is_seeded or p["infinite_gradient_step"] is not None or any(p.get(name) for name in others)
    return "RANK" if is_named else "engine.global_rank"


def _setting(key: str) -> str:
    """Return the expression that reads a setting after ``initialize``, by its name in the effective configuration."""
    if key == "engine.optimizer":
        return "type(engine.optimizer).__name__"
    path = key.removeprefix("deepspeed.")
    return f"engine._config.{path}" if key.startswith("deepspeed.") and path.replace(".", "").isidentifier() else ""


def _frozen(p: Mapping[str, Any], model: str) -> str:
    """Return the part of a parameter's name that marks it as frozen."""
    return p["frozen"] if model == TRANSFORMERS or not p["frozen"] else "layers.0."


def lora_arguments(p: Mapping[str, Any]) -> str:
    """Return the arguments of peft's LoraConfig; empty if the cell has no adapters."""
    if not p["lora_rank"]:
        return ""
    kept = p["lora_modules_to_save"].split()
    saved = f", modules_to_save={json.dumps(kept)}" if kept else ""
    return f'r={p["lora_rank"]}, target_modules="all-linear"{saved}'


def pip(names: Iterable[str], versions: Mapping[str, str]) -> str:
    """Return pip's requirements for the packages whose versions are known: ``torch==2.6.0 deepspeed==0.16.3``."""
    return " ".join(f"{name}=={versions[name]}" for name in names if name in versions)


def _imports(ending: _Ending, transformers: bool, lora: bool, p: Mapping[str, Any]) -> str:
    figure = ending.figure
    plain = ["os"]
    if p.get("no_sync"):
        plain.append("contextlib")
    if p.get("universal"):
        plain.append("argparse")
    if ending.has_truth and not (p["zero_stage"] == 3 and p["zero_init"]):
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
    if lora:
        lines.append("from peft import LoraConfig, get_peft_model")
    if transformers:
        lines.append("from transformers import AutoConfig, AutoModelForCausalLM")
    return "\n".join(lines)


def _counting_imports(figure: _Figure) -> list[str]:
    return ["from torch.utils.flop_counter import flop_registry"] if figure.template == "flops" else []


def literal(value: Any, margin: str = "") -> str:
    """Return a JSON value as Python: on one line if that is short, else as many entries to a line as are short together."""
    if not isinstance(value, Mapping):
        return json.dumps(value) if isinstance(value, str) else repr(value)
    entries = [f"{json.dumps(name)}: {literal(member, margin + '    ')}" for name, member in value.items()]
    line = "{" + ", ".join(entries) + "}"
    if len(margin) + len(line) <= _WIDTH and "\n" not in line:
        return line
    lines = [""]
    for entry in entries:
        together = f"{lines[-1]} {entry},".lstrip()
        if lines[-1] and ("\n" in together or len(margin) + len(together) > _WIDTH):
            lines.append(f"{entry},")
        else:
            lines[-1] = together
    return "{\n" + "".join(f"{margin}    {line}\n" for line in lines) + margin + "}"


def packed(value: Mapping[str, Any]) -> str:
    """Return a JSON object as Python, as many entries to a line as fit: for one that needs no reading."""
    entries = [f"{json.dumps(name)}: {literal(member)}," for name, member in value.items()]
    lines = textwrap.wrap(" ".join(entries), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "{\n" + "".join(f"    {line}\n" for line in lines) + "}"


def within(text: str, heads: Sequence[str]) -> str:
    """Return a block nested in the blocks that the heads open, the outermost first."""
    margins = ["    " * depth for depth in range(len(heads) + 1)]
    opened = [margin + head for margin, head in zip(margins, heads, strict=False)]
    return "\n".join([*opened, textwrap.indent(text.strip("\n"), margins[-1]), ""])


def tidy(text: str) -> str:
    """Return the script with the empty lines that a reader expects, whatever absent fragments leave: two around each
    definition, one before every method but the first, and one behind imports if there was any."""
    found: list[str] = []
    defines = has_gap = False
    for line in map(str.rstrip, text.splitlines()):
        if not line:
            has_gap = True
            continue
        last, is_definition = found[-1] if found else "", line.startswith(("class ", "def "))
        if is_definition or (defines and not line.startswith(" ")):
            found += ["", ""]
        elif (line.startswith("    def ") and not last.startswith("class ")) or (
            has_gap and last.startswith(("import ", "from "))
        ):
            found.append("")
        found.append(line)
        defines = is_definition or (defines and line.startswith(" "))
        has_gap = False
    return "\n".join(found) + "\n"


TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # Python, not HTML
)
TEMPLATES.filters.update(literal=literal, within=within)
