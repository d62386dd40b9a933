"""The commands to run next, written out for one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsregress.advice import attribution, gpus
from dsregress.bisect import questions
from dsregress.compare import Group
from dsregress.compare.metrics import BY_NAME
from dsregress.errors import UsageError
from dsregress.model import Finding, Stack
from dsregress.report.context import ReportContext
from dsregress.report.html.history import History
from dsregress.report.measuring_again import has_commits
from dsregress.report.rows import is_worse
from dsregress.wording import commands
from dsregress.wording.names import varied_axes


def next_steps(
    context: ReportContext, groups: Sequence[Group], history: History, parameters: Mapping[str, object]
) -> list[tuple[str, str]]:
    """Return ``(purpose, command)`` of each step; none for a finding that needs no action. ``parameters`` are those of the
    workload."""
    found = groups[0].headline
    stacks = context.stacks  # an id takes a while to make from a stack
    own = stacks[found.stack]
    if not is_worse(found) or has_commits(own, stacks.get(context.comparison.baseline)):
        return []
    known = gpus.named_card(parameters) if found.device == "sim" else None  # only a simulation is of the real size
    card = known.name if known is not None else ""
    steps = []
    if attribution.moment_of(found.metric, found.phase) and found.stack != context.comparison.baseline:
        baseline = f"{context.comparison.baseline}/{found.workload}"
        command = commands.explain(f"{found.stack}/{found.workload}", baseline, svg="step.svg")
        steps.append(("Which places in the code hold it", command))
    for what, ends, fixed in (
        ("Which release and commit brought it", (history.before, history.first), False),
        ("Which release and commit ended it", (history.after, history.last), True),
    ):
        good, bad = (stacks.get(end) for end in ends)
        if good is not None and bad is not None and (command := _bisect(found, good, bad, fixed=fixed)):
            steps.append((what, command))
    if BY_NAME[found.metric].fails == "memory" and found.device == "sim" and "deepspeed" in own.versions:
        what = "What each remedy buys in this release, where the scenario declares some"
        steps.append((what, commands.remedies(own, found, card=card)))
    steps.append(("Which release to pin, by the stored results", commands.recommend(found, card=card)))
    return steps


def _bisect(found: Finding, good: Stack, bad: Stack, *, fixed: bool) -> str:
    """Return the command; empty unless the stacks differ in one package only and the metric can be bisected."""
    axes = varied_axes([good, bad])
    if len(axes) != 1 or axes[0] == "python" or good.named != bad.named:
        return ""
    metric = BY_NAME[found.metric].flat_name(found.phase)
    try:
        questions.parse_question(metric)
    except UsageError:
        return ""
    return commands.bisect(axes[0], good, bad, found, metric, fixed=fixed)
