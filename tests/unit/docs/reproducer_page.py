"""The page about the published scripts, written from the answers of `reproduce` beside them and from ``titles.toml``."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from dsregress.model import variant_values
from dsregress.probe import scenario
from dsregress.probe.factors import FACTORS
from dsregress.probe.scenario import SHAPE
from dsregress.report.answer_matching import UNNAMED
from dsregress.report.known_answers import KnownAnswers, Title, known_answers
from dsregress.report.stored_answers import FurtherRuns, StoredReproduction
from dsregress.reproduce.cells import base_parameters
from dsregress.reproduce.composers import composer
from dsregress.reproduce.factors import SIMPLEST_OF
from dsregress.reproduce.script import LAYERS, TRANSFORMERS, Subject
from tests.paths import ROOT

FOLDER = ROOT / "results" / "reproducers"
PAGE = FOLDER / "README.md"
BY_HAND = FOLDER / "by_hand"

_HEAD = """# Reproducers: findings without the harness

Each script needs the released packages alone, prints one line and ends with exit code 1 if the fault is there; its first
comment has the two `pip install` lines. [reproduce](../../docs/reproduce.md) wrote them and ran them in the releases
below, on CPU. The `.json` beside each is the whole answer. *Needs* and *does not matter* are of the smallest cell, one
factor varied at a time; *goes away with* is a setting with which the script was run and passed.
"""


_HEAD_BY_HAND = """
What `reproduce` has no words for. These were written by hand, need the released packages alone as well, and are described in
[findings](../findings.md), with all releases that they were run in; here is what they print.
"""


@functools.cache
def known() -> KnownAnswers:
    """All that was published."""
    return known_answers(str(ROOT / "results"), str(FOLDER), lambda file, why: pytest.fail(f"{file}: {why}"))


def answers() -> dict[str, StoredReproduction]:
    """Those with a script beside them, by its name."""
    names = sorted(file.stem for file in FOLDER.glob("*.json"))
    found = {one.name: one for one in known().stored.reproductions}
    return {name: found[name] for name in names}


def written() -> str:
    """The whole page: scripts in the order of ``titles.toml``, which is that of gravity."""
    found = answers()
    sections = [_section(title, found[name]) for name, title in known().titles.items() if name in found]
    reasons = [f"- {one.problem}: {one.reason}" for one in known().without_script]
    last = ["## Problems without a script", "\n".join(reasons)] if reasons else []
    last += ["## Scripts by hand", _HEAD_BY_HAND.strip(), *map(_by_hand_section, by_hand().items())]
    return "\n\n".join([_HEAD.rstrip(), *sections, *last]) + "\n"


class ByHand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script that was written by hand."""

    about: str
    runs: tuple[FurtherRuns, ...] = ()


def by_hand() -> dict[str, ByHand]:
    """By the names of their files."""
    return msgspec.toml.decode((BY_HAND / "runs.toml").read_bytes(), type=dict[str, ByHand])


def _by_hand_section(one: tuple[str, ByHand]) -> str:
    name, script = one
    return "\n\n".join([f"[{name}](by_hand/{name}.py): {script.about}", *_further(script.runs)])


def _further(runs: Sequence[FurtherRuns]) -> list[str]:
    """What a script printed, as one block; none where it was not run."""
    lines = [f"    {', '.join(one.releases)}, exit code {one.exit_code}: {one.line}" for one in runs]
    return ["\n".join(lines)] if lines else []


def _section(title: Title, answer: StoredReproduction) -> str:
    blocks = [f"## {title.title}"]
    if title.what:
        blocks.append(title.what)
    outputs = [f"    {run.version}, exit code {run.exit_code}: {run.line}" for run in answer.runs]
    blocks += [f"[{answer.name}]({answer.name}.py), from", f"    {_command(answer)}", "prints", "\n".join(outputs)]
    if answer.further:
        blocks += ["and, run by hand,", *_further(answer.further)]
    blocks.append("\n".join(f"- {label}: {text}" for label, text in _facts(answer)))
    return "\n\n".join(blocks)


def _command(answer: StoredReproduction) -> str:
    cell = f"{answer.bad}/{_workload(answer.cell)}"
    metric = "outcome" if " " in answer.metric else answer.metric  # a whole error is that of the cell
    is_swept = bool(answer.releases) and answer.workload.scenario not in SIMPLEST_OF.values()
    sweep = " --results results/2026-11-21-sweep.jsonl.gz" if is_swept else ""
    around = "" if answer.package == "deepspeed" else f" --package {answer.package} --deepspeed {_deepspeed(answer)}"
    return f"dsregress reproduce {cell} --metric {metric} --against {answer.good}{around}{sweep}"


def _deepspeed(answer: StoredReproduction) -> str:
    return _versions(answer)["deepspeed"]


def _versions(answer: StoredReproduction) -> dict[str, str]:
    """Package -> version, in the release that has the fault."""
    return dict(re.findall(r"-([a-z]+)([0-9][^-/]*)", answer.cell.partition("/")[0]))


def composed(answer: StoredReproduction) -> str:
    """The script as it would be written now, with the figures that it printed."""
    simplest = scenario.load(ROOT / "scenarios" / f"{answer.smallest.scenario}.py")
    parameters = simplest.resolve(answer.smallest.variant, "cpu")
    bad = _versions(answer)
    subject = Subject(
        parameters=parameters,
        defaults={**base_parameters(simplest), SHAPE: parameters.get(SHAPE, {})},
        question=answer.question,
        bad=bad,
        good={**bad, answer.package: answer.good},
        package=answer.package,
        file=f"{answer.name}.py",
        model=TRANSFORMERS if "AutoModelForCausalLM" in str(answer.script) else LAYERS,
        is_sized=any(one.factor == "reduce_bucket_size" for one in answer.needs),
    )
    compose = composer(simplest.framework).compose
    if compose(subject).counts:
        shown, expected = (int(run.line.split()[0].replace(",", "")) for run in answer.runs[:2])
        subject = msgspec.structs.replace(subject, expected=expected, shown=shown)
    return compose(subject).text


def smallest_values(answer: StoredReproduction) -> dict[str, Any]:
    """Return the stage of the smallest cell, and its factors that are not the simplest."""
    simplest = scenario.load(ROOT / "scenarios" / f"{answer.smallest.scenario}.py")
    values = simplest.resolve(answer.smallest.variant, "cpu")
    named = {"zero_stage", *variant_values(answer.smallest.variant)}
    return {one.name: values[one.name] for one in FACTORS if one.name in values and one.name in named}


def all_values(answer: StoredReproduction) -> dict[str, Any]:
    """Return the parameters of the cell that the answer is about."""
    declared = scenario.load(ROOT / "scenarios" / f"{answer.workload.scenario}.py")
    return {**UNNAMED, **declared.resolve(answer.workload.variant, answer.workload.device)}


def _workload(cell: str) -> str:
    """Of a cell's id, what is not its stack."""
    return cell.partition("/")[2]


def _facts(answer: StoredReproduction) -> Iterator[tuple[str, str]]:
    yield "smallest cell", f"`{_workload(answer.smallest_cell)}`"
    if answer.needed:
        yield "needs", "; ".join(answer.needed)
    if answer.seen_with:
        yield "seen with", "; ".join(answer.seen_with)
    if answer.does_not_matter:
        yield "does not matter", ", ".join(answer.does_not_matter)
    if answer.open:
        yield "not known", "; ".join(answer.open)
    for remedy in answer.remedies:
        yield f"goes away with {remedy.text}", f"`{remedy.line}`"
