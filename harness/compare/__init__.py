"""Results in, findings out. Pure; see ``docs/how-comparison-works.md``."""

from harness.compare.comparison import Comparison, DetailOf, Group, NotCompared, Span, StepTime
from harness.compare.exits import FAIL_ON, exit_code
from harness.compare.judged import Judged, judge, pack, unpack
from harness.compare.measured import Measured
from harness.compare.verdicts import combine, compare
from harness.thresholds import Thresholds

__all__ = [
    "FAIL_ON",
    "Comparison",
    "DetailOf",
    "Group",
    "Judged",
    "Measured",
    "NotCompared",
    "Span",
    "StepTime",
    "Thresholds",
    "combine",
    "compare",
    "exit_code",
    "judge",
    "pack",
    "unpack",
]
