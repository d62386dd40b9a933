"""The exit code of a comparison, for a CI job."""

from __future__ import annotations

from collections.abc import Collection

from dsregress.compare.comparison import Comparison, ProblemKind
from dsregress.compare.finding_groups import kind_of
from dsregress.compare.metrics import BY_NAME
from dsregress.compare.outcomes import is_out_of_memory
from dsregress.errors import EXIT_HARNESS, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from dsregress.model import Finding

#: The words of ``--fail-on``.
FAIL_ON = ("memory", "time", "numerics", "crash")

_CRASHES = (ProblemKind.CRASH, ProblemKind.OUT_OF_MEMORY)


def exit_code(comparison: Comparison, fail_on: Collection[str]) -> int:
    """Return 1 if a relevant finding matches ``fail_on``, or if there is nothing but crashes beside passes; 3 if a cell
    should have been measured but was not; 4 if nothing was measured or nothing could be compared, or if of lines that were
    to go on from another one's files none could; else 0. Changed defaults and warnings never fail."""
    if any(fails(found, fail_on) for found in comparison.findings):
        return EXIT_REGRESSION
    if comparison.not_measured:
        return EXIT_HARNESS
    others = any(stack.id != comparison.baseline for stack in comparison.stacks)
    if others and comparison.compared == 0 and "crash" in fail_on and _crashes_beside_a_pass(comparison):
        return EXIT_REGRESSION
    if comparison.passed == 0 or (others and (comparison.compared == 0 or comparison.why_nothing_goes_on)):
        return EXIT_NOTHING_MEASURED
    return EXIT_OK


def _crashes_beside_a_pass(comparison: Comparison) -> bool:
    """Return True if a workload runs to its end in one release and not in another."""
    failed = (one for one in comparison.findings if one.kind == "failed" and kind_of(one) in _CRASHES)
    return any(
        len(comparison.cells.stacks_of(one.workload)) > len(comparison.ended.get(one.workload, ())) for one in failed
    )


def fails(found: Finding, fail_on: Collection[str]) -> bool:
    """Return True if a finding matches one of the words. Running out of memory matches "crash" and "memory"."""
    if not (found.relevant and found.significant) or found.kind not in ("regression", "wrong", "failed"):
        return False
    words = {BY_NAME[found.metric].fails}
    if is_out_of_memory(found):
        words.add("memory")
    return not words.isdisjoint(fail_on)
