"""Results in, findings out. Pure; see ``docs/how-comparison-works.md``."""

from harness.compare.comparison import Comparison, DetailOf, Group, NotCompared, Span, StepTime
from harness.compare.exits import FAIL_ON, exit_code
from harness.compare.measured import Measured, pack, unpack
from harness.compare.verdicts import compare
from harness.thresholds import Thresholds

__all__ = [
    "FAIL_ON",
    "Comparison",
    "DetailOf",
    "Group",
    "Measured",
    "NotCompared",
    "Span",
    "StepTime",
    "Thresholds",
    "compare",
    "exit_code",
    "pack",
    "unpack",
]
