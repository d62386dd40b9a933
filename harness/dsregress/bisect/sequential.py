"""A test that may be evaluated after every round: is a step's time nearer to the slow end's or to the good one's?

Rounds are interleaved: in each, the good end, the version in question and the bad end ran within seconds. A round votes
"bad" if the version's time is above the geometric mean of the ends' times of that same round. If the version were as near to
one end as to the other, that would be a fair coin, whatever the times' distribution, outliers included.

The evidence against the coin is the mixture likelihood ratio over all coins that favour the other side, a nonnegative
supermartingale under "fair or worse", so that by Ville's inequality it exceeds 1 / error with a chance of at most ``error``,
no matter how often and when it is evaluated (H. Robbins, "Statistical methods related to the law of the iterated logarithm",
1970; S. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences",
2021). A fixed-sample test that is evaluated again and again keeps no such promise. Nine unanimous rounds suffice for 1 in
100; a version right between the ends is never decided, and reported as such.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from dsregress.model import Verdict

#: The chance that one version is put on the wrong side.
ERROR = 0.01

#: Seconds of one round: of the good end, of the version in question, of the bad end.
RoundTimes = tuple[float, float, float]


def likelihood_ratio(votes: int, rounds: int) -> float:
    """Return the factor by which ``votes`` of ``rounds`` are likelier under coins that favour them than under a fair coin:
    the likelihood ratio, averaged over all chances between 1/2 and 1."""
    if rounds == 0:
        return 1.0
    from scipy import special  # which takes longer to import than all else, and most searches time nothing

    log_beta = special.betaln(votes + 1, rounds - votes + 1)
    above_half = special.betaincc(votes + 1, rounds - votes + 1, 0.5)
    return float(2 * math.exp(log_beta + rounds * math.log(2)) * above_half) if above_half > 0 else 0.0


def side(rounds: Sequence[RoundTimes], error: float = ERROR) -> Verdict:
    """Return Bad or Good if the rounds leave no doubt, else Unknown. May be called after any round."""
    usable = [(good, own, bad) for good, own, bad in rounds if min(good, own, bad) > 0]
    votes = sum(own * own > good * bad for good, own, bad in usable)
    against = sum(own * own < good * bad for good, own, bad in usable)
    return _verdict_of_votes(votes, against, error)


def slower(good: Sequence[float], bad: Sequence[float], share: float, error: float = ERROR) -> Verdict:
    """Return Bad if the bad end is slower by more than ``share`` (0.1 is 10 %) in the median round, Good if not, or
    Unknown."""
    ratios = [b / g for g, b in zip(good, bad, strict=True) if g > 0]
    votes = sum(ratio > 1 + share for ratio in ratios)
    return _verdict_of_votes(votes, len(ratios) - votes, error)


def ratio(good: Sequence[float], bad: Sequence[float]) -> float:
    """Return the median of the paired ratios; NaN if no pair has one."""
    logs = [math.log(b / g) for g, b in zip(good, bad, strict=True) if g > 0 and b > 0]
    return math.exp(statistics.median(logs)) if logs else math.nan


def _verdict_of_votes(votes: int, against: int, error: float) -> Verdict:
    if likelihood_ratio(votes, votes + against) >= 1 / error:
        return Verdict.BAD
    if likelihood_ratio(against, votes + against) >= 1 / error:
        return Verdict.GOOD
    return Verdict.UNKNOWN
