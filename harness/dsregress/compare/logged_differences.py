"""The numbers that a trainer shows, against those that it shows with the baseline, where both train alike: then only what
people watch has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dsregress.compare.loss_pairs import listed
from dsregress.compare.metrics import LOGGED_DIFFERENCE
from dsregress.compare.result_pairs import Pair
from dsregress.messages import Message, message
from dsregress.model import Finding

#: How far a number may be apart, relative to the larger: as of the gradient norms that are trained.
TOLERANCE = 0.05

#: Below this a number counts as zero.
_NEAR_ZERO = 1e-3

#: How much of what is shown under a name has to differ: in later steps training drifts apart by its rounding.
_MOST = 0.5

Shown = Sequence[Mapping[str, float | None]]


def judge_logged(pair: Pair) -> list[Finding]:
    """Return a finding if a loss or a gradient norm that is shown differs from the baseline's, or is shown no longer. What
    a program generates is fed to it again, so that its numbers say nothing."""
    if pair.base is None or pair.is_baseline or pair.own.generates:
        return []
    ended = pair.own.ended and pair.base.ended
    found = list(_differences(pair.own.logged, pair.base.logged, ended=ended))
    if not found:
        return []
    sentence, _ = found[0]
    return [
        pair.finding(
            LOGGED_DIFFERENCE,
            kind="regression",
            value=float(len(found)),
            baseline_value=0.0,
            claim=message("what it logs differs from the baseline, and what it trains does not"),
            sentence=sentence,
            evidence=tuple(evidence for _, evidence in found),
        )
    ]


def _differences(own: Shown, base: Shown, *, ended: bool) -> Iterator[tuple[Message, str]]:
    """Yield what differs, by name, and its evidence."""
    for name in dict.fromkeys(name for shown in base for name in shown):
        mine, theirs = _under(name, own), _under(name, base)
        evidence = f"{name} {listed(mine)}; baseline {listed(theirs)}"
        if not mine and own and ended:
            yield message("{name} is no longer logged", name=name), evidence
            continue
        pairs = list(zip(mine, theirs, strict=False))
        apart = [one for one in pairs if _are_apart(*one)]
        if pairs and apart and len(apart) > _MOST * len(pairs) and _are_apart(*pairs[0]):
            now, before = (listed([value]) for value in pairs[0])
            yield message("{name} is {now}, was {before}", name=name, now=now, before=before), evidence


def _under(name: str, shown: Shown) -> list[float | None]:
    return [one[name] for one in shown if name in one]


def _are_apart(own: float | None, base: float | None) -> bool:
    if own is None or base is None:
        return own is not base and base is not None
    return abs(own - base) > max(TOLERANCE * max(abs(own), abs(base)), _NEAR_ZERO)
