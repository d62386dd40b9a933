"""Is one stack's step slower than another's? Ratios, intervals and p-values from interleaved rounds.

Round *i* of every stack ran within seconds of round *i* of every other, so rounds are compared in pairs: what drifts
(temperature, neighbours) hits both sides of a pair and cancels in their ratio. Everything is done on logarithms, where
"twice as slow" and "twice as fast" are the same distance from no difference.

- *How large*: the 20 % trimmed mean of the paired log ratios. One round in five that a neighbour disturbed cannot move it
  far. A ratio of medians would lose the pairing, and with it the protection from drift.
- *How sure*: Yuen's t interval and test of that mean (Yuen 1974), which keep their level under heavy tails and, unlike
  a rank test, can reach small p-values with eight rounds.
- *How much rounds scatter* is what few rounds know least: with 8, their t factor for a p-value as small as a report of
  many comparisons asks for is three times the normal distribution's. Releases that took turns with the same baseline
  on the same machine were disturbed by the same neighbours, so a release's variance is estimated from its own rounds
  and, with at most as much weight, from what all releases of its session agree on (moderated t, Smyth 2004, "Linear
  models and empirical Bayes methods for assessing differential expression in microarray experiments"). The weight is
  estimated, too: the less, the more scatters differ beyond chance; and a release that is noisier than the others is
  left to its own rounds. Simulated with 4 and 9 releases, a session ends after a tenth to a fifth fewer rounds. The
  price: p-values of 0.002 are two to three times too small for a release whose ratios scatter 2 or 4 times as much as
  the others'.
- *Looked at repeatedly*: rounds are added until a pair is decided, so a pair is judged after 8 rounds, after 11, 15
  and so on (`dsregress.config.thresholds.LOOKS`), and stops at the first verdict. Each look spends the same share of the
  error (Pocock 1977, "Group sequential methods"; with Bonferroni's bound, which needs no assumption about how the
  looks depend on each other), so the chance of a false alarm *at any of them* stays below what is promised, whatever
  made the rounds end. That depends only on the rounds, of other releases on those until its last: the stored
  rounds of a session get the verdict that the run gave them. A fixed number of rounds pays the same price. A test that
  may be evaluated after every round (`dsregress.bisect.sequential`) was tried on simulated noise like that of these
  machines: it decides that two stacks are the same in 79 to 84 % of cases within 36 rounds, this one in 93 to 96 %,
  and it cannot find anything in a report of 27 step times before its 13th round.
- *Many comparisons*: Holm's correction (Holm 1979) over all comparisons of a report.

Arrays are two-dimensional: one row per comparison, one column per pair of rounds.

Importing numpy and scipy takes longer than all else that a command imports, so this module is imported where there are
rounds to judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special  # scipy.stats has the same under other names, and takes half a second to import

from dsregress.config.thresholds import LOOKS

Floats = NDArray[np.float64]

#: Of the interval, over all looks together.
CONFIDENCE = 0.95
TRIMMED = 0.2

#: Fewer rows say too little about how far their scatters differ: with 2 or 3, p-values were too small by half (simulated).
LEAST_SHARED = 4

#: A row whose own error is that many times what the others make of it is noisier than they are, and left to its own rounds.
NOISIER = 1.15

#: How much the variances of two rows agree as their rounds are divided by the same: the square of the correlation of
#: their rounds, 0.5.
SHARED_BASELINE = 0.25

#: Logarithms beyond this are clipped, as no float holds their exponential.
_LARGEST_LOG = 700.0


def log_ratios(candidate_s: Floats, baseline_s: Floats) -> Floats:
    """Return the logarithms of the ratios, paired by column. Seconds must be positive and finite.

    They are rounded, because NumPy's logarithm differs in the last digit between processors.
    """
    return np.asarray(np.round(np.log(candidate_s) - np.log(baseline_s), 12), dtype=np.float64)


class Means(NamedTuple):
    """The mean of the logarithms of each row, with its precision."""

    mean: Floats  #: trimmed
    error: Floats  #: the mean's standard error
    freedom: Floats  #: the degrees of freedom of the error


def means(logs: Floats) -> Means:
    """Return the means of rows, each estimated by itself."""
    pairs = logs.shape[1]
    trimmed = int(TRIMMED * pairs)
    ordered = np.sort(logs, axis=1)
    kept = ordered[:, trimmed : pairs - trimmed]
    winsorized = np.clip(ordered, kept[:, :1], kept[:, -1:])
    count = kept.shape[1]
    error = winsorized.std(axis=1, ddof=1) * np.sqrt((pairs - 1) / (count * (count - 1)))
    return Means(kept.mean(axis=1), error, np.full(len(logs), count - 1.0))


def means_of_session(logs: Sequence[Floats]) -> Means:
    """Return the means of rows that share one baseline, whose lengths may differ; the rows' estimates of scatter inform each
    other. Rounds after the last one of a row do not count for that row."""
    lengths = np.array([len(row) for row in logs])
    so_far, found = Means(*np.empty((3, len(logs)))), Means(*np.empty((3, len(logs))))
    for length in np.unique(lengths):
        longer = np.flatnonzero(lengths >= length)
        put(so_far, longer, means(np.array([row[:length] for row in logs if len(row) >= length])))
        ended = np.flatnonzero(lengths == length)
        put(found, ended, Means(*(numbers[ended] for numbers in _moderated(so_far))))
    return found


def put(into: Means, rows: Sequence[int] | NDArray[np.intp], values: Means) -> None:
    """Overwrite these rows with ``values``."""
    for numbers, new in zip(into, values, strict=True):
        numbers[rows] = new


def _moderated(own: Means) -> Means:
    """Return the same means, each with an error that pools its own rounds and the scatter that all rows agree on."""
    scattered = own.error > 0
    if np.count_nonzero(scattered) < LEAST_SHARED:
        return own
    of_round = own.error**2 * (own.freedom + 1)  # about the same in rows of other lengths, unlike the error of the mean
    shared, freedom = _shared_scatter(of_round[scattered], own.freedom[scattered])
    weight = np.minimum(freedom, own.freedom)
    both = (own.freedom * of_round + weight * shared) / (own.freedom + weight)
    error = np.sqrt(both / (own.freedom + 1))
    alike = scattered & (own.error <= NOISIER * error)
    return Means(own.mean, np.where(alike, error, own.error), np.where(alike, own.freedom + weight, own.freedom))


def _shared_scatter(variances: Floats, freedom: Floats) -> tuple[float, float]:
    """Return the variance that all are estimates of, and the degrees of freedom that it is worth: infinitely many if they
    differ no more than by chance (Smyth 2004, section 6.2)."""
    half_freedom = freedom / 2
    logs = np.fromiter(map(math.log, variances * half_freedom), dtype=np.float64) - special.digamma(half_freedom)
    centre = float(logs.mean())
    by_chance = special.polygamma(1, half_freedom).mean() * (1 - SHARED_BASELINE)
    more = float(logs.var(ddof=1) - by_chance)
    if more <= 0:
        return math.exp(centre), math.inf
    half = _inverse_trigamma(more)
    return math.exp(centre + float(special.digamma(half)) - math.log(half)), 2 * half


def _inverse_trigamma(value: float) -> float:
    """Return the inverse of the trigamma function, by Newton's method, which comes from above and does not overshoot (Smyth
    2004, appendix)."""
    at = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, at))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, at))
        at += step
        if -step < 1e-8 * at:
            break
    return at


def ratio(of: Means) -> Floats:
    """Return the mean of the paired ratios, per row."""
    return _exp(of.mean)


def interval(of: Means) -> tuple[Floats, Floats]:
    """Return the lower and upper end of the interval of `ratio`, per row. Over all looks together it holds the true ratio
    with `CONFIDENCE`."""
    reach = -special.stdtrit(of.freedom, (1 - CONFIDENCE) / len(LOOKS) / 2) * of.error
    return _exp(of.mean - reach), _exp(of.mean + reach)


def p_values(of: Means) -> Floats:
    """Return the chance of paired ratios this far from 1 at any look if there were no difference (two-sided), per row."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(of.error > 0, np.abs(of.mean) / of.error, np.where(of.mean == 0, 0.0, np.inf))
    return np.asarray(np.minimum(1.0, 2 * special.stdtr(of.freedom, -t) * len(LOOKS)), dtype=np.float64)


def _exp(logs: Floats) -> Floats:
    """Return exponentials computed by the C library: NumPy's own differ in the last digit between processors."""
    clipped = np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG)
    return np.fromiter(map(math.exp, clipped), dtype=np.float64, count=len(clipped))


def holm(p: Floats) -> Floats:
    """Return Holm's adjusted p-values: with significance at level a, the chance of any false alarm among all is at most
    a."""
    order = np.argsort(p)
    steps = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
