"""The command that measures a finding again, as it can be run where the report is read."""

from __future__ import annotations

from dsregress.model import Finding, Stack
from dsregress.report.context import ReportContext
from dsregress.versions.commits import base_of, is_commit
from dsregress.wording import commands


def command_of_finding(context: ReportContext, finding: Finding) -> str:
    """Return the command that measures the cell of a finding again, together with the baseline's."""
    stack, baseline = context.stacks[finding.stack], context.stacks.get(context.comparison.baseline)
    base = next((sha for one in (baseline, stack) if one is not None and (sha := _base(one))), "")
    if not base:
        return commands.measure_again(stack, baseline, finding)
    package = next(name for name, version in stack.versions.items() if is_commit(version))
    return commands.measure_change(stack, package, finding, against=base, folder=context.comparison.checkout or ".")


def has_commits(*stacks: Stack | None) -> bool:
    """Return True if one of the stacks holds a commit, which no option of a command names."""
    return any(_base(one) for one in stacks if one is not None)


def _base(stack: Stack) -> str:
    """Return the hash of the commit that a stack holds, or that its change is upon; empty if it has releases alone."""
    return next((sha for version in stack.versions.values() if (sha := base_of(version))), "")
