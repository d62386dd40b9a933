"""Results in, findings out. Pure; see ``docs/how-comparison-works.md``."""

from harness.compare.comparison import (
    Comparison,
    DetailOf,
    Group,
    NotCompared,
    Problem,
    ProblemKind,
    StepTime,
    not_measured,
)
from harness.compare.exits import FAIL_ON, exit_code
from harness.compare.judged import Judged, judge_workloads
from harness.compare.pairs import ResultIndex
from harness.compare.summary import ResultSummary, summarize
from harness.compare.verdicts import combine, compare
from harness.config.thresholds import Thresholds

__all__ = [
    "FAIL_ON",
    "Comparison",
    "DetailOf",
    "Group",
    "Judged",
    "NotCompared",
    "Problem",
    "ProblemKind",
    "ResultIndex",
    "ResultSummary",
    "StepTime",
    "Thresholds",
    "combine",
    "compare",
    "exit_code",
    "judge_workloads",
    "not_measured",
    "summarize",
]
