"""The comparison for a terminal, as the page results/accuracy.md, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import msgspec

from dsregress.advice.gpus import estimate
from dsregress.model import Passed
from dsregress.report.plain_text import aligned, markdown, markdown_table, plain
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import listing, plural
from tests.accuracy.points import (
    ALLOWED_BYTES,
    ALLOWED_SHARE,
    Calibration,
    Errors,
    PointAnswer,
    PredictedFigure,
    calibration,
    errors,
)

#: Of ``--json``. History: 1 first; 2 step times; 3 verdicts.
SCHEMA = 3

_GIB = 1 << 30

_COLUMNS = ("point", "at", "figure", "measured", "predicted", "error", "")

_STEP_COLUMNS = (
    "point", "measured", "lower bound", "products", "memory", "links", "sum", "measured / sum", "off by", "elsewhere",
)  # fmt: skip

_HEAD = """# Accuracy

This page compares what the simulation predicts with memory figures and [step times](#step-time) that others have
published from real GPUs. The predictions need no GPU, and nothing about memory is fitted to the measurements. Sizes of
tensors and the order of calls come from the real code of the release. The allocator's rules and the sizes of workspaces
come from PyTorch's sources (see [the allocator](../docs/allocator.md) and [the simulation](../docs/sim.md)).
"""

_STEPS = f"""## Step time

Published times of an optimizer step, in seconds, and two models of it.

The *lower bound*, which reports print, is FLOPs over the card's peak, or bytes over its links. No release can be faster
(`harness/dsregress/advice/gpus/step_time.py`).

The *estimate*, which `fit` and `show` also print, is what to expect (`harness/dsregress/advice/gpus/estimate.py`). It
is computed from

- *products*: FLOPs at the rate of the fastest matrix product measured on that card (78 to 87 % of its peak;
  `harness/dsregress/advice/gpus/matmul_shares.toml`),
- *memory*: bytes that all other kernels read and write, at {estimate.MEMORY_SHARE * 100:.0f} % of
  its bandwidth (an assumption),
- *links*: bytes of collectives at {estimate.LINK_SHARE * 100:.0f} % of their bandwidth (as others have measured).

Each phase takes products plus memory, or links if those take longer. The total is the *sum*. The estimate is the sum
times a factor: the median of *measured / sum* over the points of the card's architecture (compute capability). *Off by*
is the error of an estimate whose factor comes from the other points of its architecture. *Elsewhere* is the error if the
factor comes from the points of other architectures, as for a card that no point covers.

FLOPs, bytes and collectives are those of the simulated job in eager mode; a compiler fuses kernels, and moves fewer
bytes. FLOPs of attention count all scores, although a causal kernel skips half of them.

The host's own time is not modelled, so steps of few tokens take longer. With one token, the jobs of `qwen_llama_trainer`
took 0.11 to 0.15 s (Qwen1.5-0.5B, one rank) and 0.66 s (Llama-3-8B, 8 ranks), where the sums are 0.05 and 0.21 s."""

_CHOSEN_AGAIN = """If a source does not say which release or configuration its job ran with, we chose one. These choices
were changed after the first prediction had missed:"""

_READING = f"""    nox -s accuracy                               simulate every point; builds the releases that are missing
    nox -s accuracy -- --point 'gpt2_zero*'       some of them

*allocated* is `torch.cuda.memory_allocated`, *peak* is `max_memory_allocated` since its last reset, *reserved* is
`memory_reserved`; DeepSpeed prints them as MA, Max_MA and CA. They are read at the same place as in the source: where the
release calls `see_memory_usage`, or where the program calls `torch.cuda`. Figures are in GiB, or in bytes if the source
has bytes; most sources round to 0.01.

The goal: allocated and peak within {ALLOWED_SHARE["peak"] * 100:.1f} %, reserved within
{ALLOWED_SHARE["reserved"] * 100:.0f} %, or each within {ALLOWED_BYTES / _GIB} GiB.
If reserved bytes depend on the timing of streams, the prediction is a range ([streams](../docs/allocator.md#streams)), and
the error is measured from its nearer end.
For comparison: LLMem reports mean errors of 1.6 % and 3.0 %; FSDP's own test allows 10 %.

The points and their programs are in `tests/accuracy/measured/`, whose README says how to add one. Grade A:
everything that the figures depend on is known. Grade B: a detail is guessed; the last column of [the points](#points)
names it."""


_FIT_COLUMNS = ("point", "on the card", "verdict", "needs", "of", "")

_FIT = """## Fit or not

Runs whose source names the card, with those that ran out of memory, and the verdict of the simulation: the smallest card
that completes the step, and what is set aside for what is outside PyTorch ([fit](../docs/fit.md)). A verdict that is
*too close to call* is neither right nor wrong."""


def as_text(answers: Sequence[PointAnswer]) -> str:
    """Return the answer for a terminal, ending in a newline."""
    failed = [
        f"{found.point.name}: {outcome_text(found.outcome)}"
        for found in answers
        if not isinstance(found.outcome, Passed)
    ]
    blocks: list[str] = []
    if rows := [_row(figure) for found in answers for figure in found.figures]:
        blocks += [
            *aligned(_COLUMNS, rows),
            "",
            *aligned(_ERROR_COLUMNS, [_error_row(one) for one in errors(answers)]),
            "",
        ]
    calibrated = calibration(answers)
    if steps := _step_rows(answers, calibrated):
        blocks += [*aligned(_STEP_COLUMNS, steps), ""]
        blocks += [plain(_calibrated(calibrated)), ""] if calibrated else []
    if judged := _fit_rows(answers):
        blocks += [*aligned(_FIT_COLUMNS, judged), "", plain(_fit_summary(answers)), ""]
    return (
        "\n".join([*blocks, *(plain(line) for line in (*failed, *([_summary(answers)] if rows else [])))]).rstrip()
        + "\n"
    )


def as_markdown(answers: Sequence[PointAnswer]) -> str:
    """Return the page results/accuracy.md, ending in a newline."""
    lines = [
        *_head(answers),
        f"**{markdown(_summary(answers))}**",
        "",
        *markdown_table(_ERROR_COLUMNS, map(_error_row, errors(answers))),
        "",
        *markdown_table(_SOURCE_COLUMNS, _source_rows(answers)),
        *_chosen_again(answers),
    ]
    lines += ["", "## Figures", "", *markdown_table(_COLUMNS, [_row(f) for found in answers for f in found.figures])]
    figures = [f for found in answers for f in found.figures]
    reasons: dict[str, dict[str, None]] = {}
    for f in figures:
        if f.explained and f.error_bytes and not f.is_as_printed:
            reasons.setdefault(f.explained, {})[f"{f.point}, {f.at}"] = None
    if reasons:
        lines += ["", "## Why predictions differ", ""]
        lines += [f"- {markdown('; '.join(at))}: {markdown(why)}" for why, at in reasons.items()]
    calibrated = calibration(answers)
    if steps := _step_rows(answers, calibrated):
        lines += ["", *_STEPS.splitlines(), ""]
        lines += [f"**{_calibrated(calibrated)}**", ""] if calibrated else []
        lines += markdown_table(_STEP_COLUMNS, steps)
    if judged := _fit_rows(answers):
        lines += ["", *_FIT.splitlines(), "", f"**{_fit_summary(answers)}**", "", *markdown_table(_FIT_COLUMNS, judged)]
    columns = ("point", "source", "grade", "measured on", "DeepSpeed", "unknown")
    points = [
        (f.point.name, f.point.source, f.point.grade, f.point.measured_on, f.point.deepspeed, f.point.unknown)
        for f in answers
    ]
    lines += ["", "## Points", "", *markdown_table(columns, points)]
    return "\n".join(lines) + "\n"


def _head(answers: Sequence[PointAnswer]) -> list[str]:
    usual = [found for found in answers if not found.point.packages]
    torch = ", ".join(sorted({found.torch for found in usual or answers}))
    return [
        _HEAD,
        f"{_READING}\nPredictions use torch {torch}, unless a point names the packages that it was measured with.\n",
    ]


def _chosen_again(answers: Sequence[PointAnswer]) -> list[str]:
    """Return the list of releases that were chosen only after another one had missed; it precedes the figures that depend on
    them."""
    anew = [
        f"- {markdown(found.point.name)}: {markdown(found.point.chosen_again)}"
        for found in answers
        if found.point.chosen_again
    ]
    return ["", *_CHOSEN_AGAIN.splitlines(), "", *anew] if anew else []


def as_json(answers: Sequence[PointAnswer]) -> bytes:
    """Return everything as JSON, with a schema number; sizes are in bytes."""
    content = {
        "schema": SCHEMA,
        "points": [_as_dict(found) for found in answers],
        "errors": errors(answers),
        "calibration": calibration(answers),
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _as_dict(found: PointAnswer) -> dict[str, Any]:
    point = found.point
    return {
        "name": point.name,
        "source": point.source,
        "grade": point.grade,
        "cell": found.cell,
        "outcome": found.outcome,
        "figures": [
            {**msgspec.to_builtins(figure), "error_bytes": figure.error_bytes, "is_within": figure.is_within}
            for figure in found.figures
        ],
        "fit": None if found.fit is None else {**msgspec.to_builtins(found.fit), "is_right": found.fit.is_right},
        "step": None if found.step is None else {**msgspec.to_builtins(found.step), "ratio": found.step.ratio},
    }


def _row(figure: PredictedFigure) -> tuple[str, ...]:
    at = figure.at if figure.step is None else f"{figure.at}, step {figure.step}"
    error = figure.error_bytes
    verdict = "no prediction" if error is None else "misses" if not figure.is_within else ""

    def size(nbytes: int | None, sign: str = "") -> str:
        if nbytes is None:
            return "-"
        return f"{nbytes:{sign},}" if figure.rounding_bytes < 1 else f"{nbytes / _GIB:{sign}.3f}"

    predicted, most = size(figure.predicted_bytes), size(figure.most_predicted_bytes)
    return (
        figure.point,
        at,
        figure.quantity,
        size(figure.measured_bytes),
        predicted if most in ("-", predicted) else f"{predicted} to {most}",
        size(error, "+"),
        verdict,
    )


def _step_rows(answers: Sequence[PointAnswer], found: Calibration | None) -> list[tuple[str, ...]]:
    rows = []
    for answer in answers:
        step = answer.step
        if step is None:
            continue
        seconds = (step.bound_s, step.matmul_s, step.memory_s, step.communication_s, step.roofline_s)
        name = answer.point.name
        errors_of = ({}, {}) if found is None else (found.errors, found.errors_elsewhere)
        off = [f"{by[name] * 100:+.0f} %" if name in by else "-" for by in errors_of]
        shown = (f"{one:.3g}" for one in (step.measured_s, *seconds))
        rows.append((name, *shown, f"{step.ratio:.2f}", *off))
    return rows


def _fit_rows(answers: Sequence[PointAnswer]) -> list[tuple[str, ...]]:
    return [
        (
            answer.point.name,
            "ran" if fit.fitted else "ran out of memory",
            fit.words,
            f"{fit.needed_bytes / _GIB:.2f}",
            f"{fit.card_bytes / _GIB:.2f} GiB",
            "" if fit.is_right else "open" if fit.is_open else "wrong",
        )
        for answer in answers
        if (fit := answer.fit) is not None
    ]


def _fit_summary(answers: Sequence[PointAnswer]) -> str:
    judged = [found.fit for found in answers if found.fit is not None]
    wrong = sum(not fit.is_right and not fit.is_open for fit in judged)
    return (
        f"{sum(fit.is_right for fit in judged)} of {plural(len(judged), 'verdict')} are right, {wrong} wrong, "
        f"{sum(fit.is_open for fit in judged)} too close to call; {sum(not fit.fitted for fit in judged)} of the runs ran "
        "out of memory"
    )


def _calibrated(found: Calibration) -> str:
    here, elsewhere = ([abs(error) for error in by.values()] for by in (found.errors, found.errors_elsewhere))
    factors = listing([f"{factor:.2f} on {kind}" for kind, factor in found.factors.items()])
    return (
        f"{plural(len(here), 'published job')} take the sum times {factors} (medians, by compute capability), or times "
        f"{found.factor_elsewhere:.2f} over all; an estimate is off by {median(here) * 100:.0f} % in the median and "
        f"{max(here) * 100:.0f} % at most, elsewhere by {median(elsewhere) * 100:.0f} % and {max(elsewhere) * 100:.0f} %; "
        f"{found.above_twice_the_bound} of the jobs take more than twice their lower bound"
    )


_ERROR_COLUMNS = (
    "figures", "number", "to the last digit", "within the goal", "median error", "largest error", "mean, from 1 GiB on",
    "largest, from 1 GiB on",
)  # fmt: skip


def _error_row(one: Errors) -> tuple[str, ...]:
    return (
        one.quantity,
        str(one.figures),
        str(one.as_printed),
        str(one.within),
        f"{one.median_bytes / _GIB:.3f} GiB",
        f"{one.largest_bytes / _GIB:.3f} GiB",
        *("-" if share is None else f"{share * 100:.2f} %" for share in (one.mean_share, one.largest_share)),
    )


_SOURCE_COLUMNS = ("source", "runs", "figures", "to the last digit", "within the goal")


def _source_rows(answers: Sequence[PointAnswer]) -> list[tuple[str, ...]]:
    """Return a row for each source, by the number of its figures; a source is a repository, whichever of its files it is."""
    together: dict[str, list[PointAnswer]] = {}
    for found in answers:
        if found.figures:
            together.setdefault(found.point.source.partition(",")[0], []).append(found)
    rows = []
    for source, of_it in together.items():
        figures = [figure for found in of_it for figure in found.figures]
        equal, within = sum(one.is_as_printed for one in figures), sum(one.is_within for one in figures)
        rows.append((source, len(of_it), len(figures), equal, within))
    return [(row[0], *map(str, row[1:])) for row in sorted(rows, key=lambda row: -row[2])]


def _summary(answers: Sequence[PointAnswer]) -> str:
    figures = [figure for found in answers for figure in found.figures]
    within = sum(figure.is_within for figure in figures)
    equal = sum(figure.is_as_printed for figure in figures)
    runs = plural(sum(bool(found.figures) for found in answers), "published run")
    return f"{within} of {plural(len(figures), 'figure')} of {runs} meet the goal, {equal} are equal to the last digit"
