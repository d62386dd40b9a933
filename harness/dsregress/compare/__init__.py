"""Results in, findings out. Pure; see ``docs/how-comparison-works.md``."""

from dsregress.compare.comparison import (
    Comparison,
    DetailOf,
    Group,
    NotCompared,
    Problem,
    ProblemKind,
    StepTime,
    not_measured,
)
from dsregress.compare.exits import FAIL_ON, exit_code
from dsregress.compare.judged import Judged, judge_workloads
from dsregress.compare.new_faults import without_old_faults
from dsregress.compare.result_pairs import ResultIndex
from dsregress.compare.result_summary import ResultSummary, summarize
from dsregress.compare.verdicts import combine, compare
from dsregress.config.thresholds import Thresholds

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
    "without_old_faults",
]
