"""The commands that a person runs next, written out for one finding."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from harness.advice import attribution
from harness.bisect import questions
from harness.compare import Comparison, Group
from harness.compare.metrics import BY_NAME
from harness.errors import UsageError
from harness.model import Finding, Stack
from harness.report.html.words import Story
from harness.report.view import is_worse
from harness.wording.names import varied_axes, version

_HARNESS = ("python", "-m", "harness")


def commands(
    comparison: Comparison, groups: Sequence[Group], story: Story, parameters: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """``(what it is for, the command)``; none for what nobody has to act on. ``parameters`` are the workload's."""
    found = groups[0].headline
    if not is_worse(found):
        return []
    stacks = dict(zip(comparison.names, comparison.stacks, strict=True))  # made from a stack, ids take a while
    steps = []
    if attribution.moment_of(found.metric, found.phase) and found.stack != comparison.baseline:
        steps.append(("Which places in the code hold it", _explain(found, comparison.baseline)))
    for what, ends, fixed in (
        ("Which release and commit brought it", (story.before, story.first), False),
        ("Which release and commit ended it", (story.after, story.last), True),
    ):
        good, bad = (stacks.get(end) for end in ends)
        if good is not None and bad is not None and (command := _bisect(found, good, bad, fixed=fixed)):
            steps.append((what, command))
    own = stacks[found.stack]
    if BY_NAME[found.metric].fails == "memory" and found.device == "sim" and "deepspeed" in own.versions:
        what = "What each piece of advice buys in this release, where the scenario names some"
        steps.append((what, _remedies(found, own, parameters)))
    steps.append(("Which release to pin, from the stored results", _recommend(found, parameters)))
    return [(what, shlex.join([*_HARNESS, *words])) for what, words in steps]


def _explain(found: Finding, baseline: str) -> list[str]:
    workload = found.workload
    return ["explain", f"{found.stack}/{workload}", "--against", f"{baseline}/{workload}", "--svg", "step.svg"]


def _bisect(found: Finding, good: Stack, bad: Stack, *, fixed: bool) -> list[str]:
    """Empty where it cannot be asked: the stacks differ in more than one package, or the metric is no question."""
    axes = varied_axes([good, bad])
    if len(axes) != 1 or axes[0] == "python":
        return []
    metric = BY_NAME[found.metric].flat_name(found.phase)
    try:
        questions.parse(metric)
    except UsageError:
        return []
    words = ["bisect", *(() if axes[0] == "deepspeed" else ("--package", axes[0])), *_workload(found)]
    words += ["--good", version(good, axes[0]), "--bad", version(bad, axes[0]), "--metric", metric]
    return [*words, *(("--fixed",) if fixed else ())]


def _remedies(found: Finding, stack: Stack, parameters: Mapping[str, Any]) -> list[str]:
    words = ["remedies", found.scenario, "--variant", found.variant, "--device", found.device]
    return [*words, *_card(found, parameters), "--deepspeed", stack.versions["deepspeed"]]


def _recommend(found: Finding, parameters: Mapping[str, Any]) -> list[str]:
    return ["recommend", found.scenario, "--variant", found.variant, *_card(found, parameters)]


def _card(found: Finding, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The card that the workload names: only a simulation is of a real size."""
    card = parameters.get("gpu")
    return ("--gpu", str(card)) if found.device == "sim" and card else ()


def _workload(found: Finding) -> tuple[str, ...]:
    return ("--scenario", found.scenario, "--variant", found.variant, "--device", found.device)
