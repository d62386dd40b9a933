"""Is one stack's step slower than another's? Ratios, intervals and p-values from interleaved rounds.

Round *i* of every stack ran within seconds of round *i* of every other, so rounds are compared in pairs: what drifts
(temperature, neighbours) hits both sides of a pair and cancels in their ratio. Everything is done on logarithms, where
"twice as slow" and "twice as fast" are the same distance from no difference.

- *How large*: the 20 % trimmed mean of the paired log ratios. One round in five that a neighbour disturbed cannot move it
  far. A ratio of medians would lose the pairing, and with it the protection from drift.
- *How sure*: Yuen's t interval and test of that mean (Yuen 1974), which keep their level under heavy tails and, unlike
  a rank test, can reach small p-values with eight rounds.
- *Looked at repeatedly*: rounds are added until a pair is decided, so a pair is judged after 8 rounds, after 11, 15 and
  so on (`harness.config.thresholds.LOOKS`), and stops at the first verdict. Each look spends the same share of the error
  (Pocock 1977, "Group sequential methods"; with Bonferroni's bound, which needs no assumption about how the looks depend
  on each other), so the chance of a false alarm *at any of them* stays below what is promised, whatever made the rounds
  end. That depends on the rounds alone: stored rounds get the verdict that the run gave them. A fixed number of rounds
  pays the same price. A test that may be evaluated after every round (`harness.bisect.sequential`) was tried on simulated
  noise like that of these machines: it decides that two stacks are the same in 79 to 84 % of cases within 36 rounds, this
  one in 93 to 96 %, and it cannot find anything in a report of 27 step times before its 13th round.
- *Many comparisons*: Holm's correction (Holm 1979) over all comparisons of a report.

Arrays are two-dimensional: one row per comparison, one column per pair of rounds.

Importing numpy and scipy takes longer than all else that a command imports, so this module is imported where there are
rounds to judge.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special  # scipy.stats has the same under other names, and takes half a second to import

from harness.config.thresholds import LOOKS

Floats = NDArray[np.float64]

#: Of the interval, over all looks together.
CONFIDENCE = 0.95
TRIMMED = 0.2

#: Logarithms beyond this are clipped, as no float holds their exponential.
_LARGEST_LOG = 700.0


def log_ratios(candidate_s: Floats, baseline_s: Floats) -> Floats:
    """Paired by column. Seconds must be positive and finite.

    Rounded, as NumPy's logarithm differs in the last digit between processors.
    """
    return np.asarray(np.round(np.log(candidate_s) - np.log(baseline_s), 12), dtype=np.float64)


def mean_ratio(logs: Floats) -> Floats:
    """The trimmed mean of the paired ratios, per row."""
    return _exp(_trimmed(logs)[0])


def interval(logs: Floats) -> tuple[Floats, Floats]:
    """Lower and upper end of the interval of `mean_ratio`, per row: at all looks it holds the true ratio, with
    `CONFIDENCE`."""
    centre, error, freedom = _trimmed(logs)
    reach = -special.stdtrit(freedom, (1 - CONFIDENCE) / len(LOOKS) / 2) * error
    return _exp(centre - reach), _exp(centre + reach)


def p_values(logs: Floats) -> Floats:
    """The chance of paired ratios this far from 1 at any look if there were no difference (two-sided), per row."""
    centre, error, freedom = _trimmed(logs)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, np.abs(centre) / error, np.where(centre == 0, 0.0, np.inf))
    return np.asarray(np.minimum(1.0, 2 * special.stdtr(freedom, -t) * len(LOOKS)), dtype=np.float64)


def _trimmed(logs: Floats) -> tuple[Floats, Floats, int]:
    """The trimmed mean and its standard error, per row, and the degrees of freedom."""
    pairs = logs.shape[1]
    trimmed = int(TRIMMED * pairs)
    ordered = np.sort(logs, axis=1)
    kept = ordered[:, trimmed : pairs - trimmed]
    winsorized = np.clip(ordered, kept[:, :1], kept[:, -1:])
    count = kept.shape[1]
    error = winsorized.std(axis=1, ddof=1) * np.sqrt((pairs - 1) / (count * (count - 1)))
    return kept.mean(axis=1), error, count - 1


def _exp(logs: Floats) -> Floats:
    """By the C library: NumPy's own differs in the last digit between processors."""
    clipped = np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG)
    return np.fromiter(map(math.exp, clipped), dtype=np.float64, count=len(clipped))


def holm(p: Floats) -> Floats:
    """Holm's adjusted p-values: significant at level a means at most a chance of any false alarm among all of them."""
    order = np.argsort(p)
    steps = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
