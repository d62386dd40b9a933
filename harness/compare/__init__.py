"""Results in, findings out. Pure; see ``docs/how-comparison-works.md``."""

from harness.compare.brief import Brief
from harness.compare.comparison import Comparison, DetailOf, Group, NotCompared, Span, StepTime
from harness.compare.exits import FAIL_ON, exit_code
from harness.compare.judged import Judged, judge, judge_taken, pack, unpack
from harness.compare.summary import Measured, Taken, measured_by
from harness.compare.verdicts import combine, compare
from harness.config.thresholds import Thresholds

__all__ = [
    "FAIL_ON",
    "Brief",
    "Comparison",
    "DetailOf",
    "Group",
    "Judged",
    "Measured",
    "NotCompared",
    "Span",
    "StepTime",
    "Taken",
    "Thresholds",
    "combine",
    "compare",
    "exit_code",
    "judge",
    "judge_taken",
    "measured_by",
    "pack",
    "unpack",
]
