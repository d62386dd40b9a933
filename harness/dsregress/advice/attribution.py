"""Which places in the code hold the memory, and which hold more of it than another stack's (pure).

A `dsregress.probe.border.wire.Explanation` lists everything that was alive at a moment, row by row, and its bytes add up
to the metric of that moment. Here rows become totals, and two explanations a difference that adds up as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from dsregress.compare.metrics import BY_NAME
from dsregress.probe.border.wire import Explanation, Held, Moment
from dsregress.wording.quantities import quantity

#: The line number in a site: it moves from release to release while the place stays the same.
_LINE = re.compile(r":\d+(?= in )")


class MemoryShare(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a moment's bytes that has one name."""

    name: str
    nbytes: int
    count: int  #: of storages


class SiteDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one category that one place holds, in two explanations of the same moment."""

    category: str
    site: str  #: as the first explanation spells it; as the second does if the first holds nothing there
    modules: tuple[str, ...]  #: whose memory it is, largest first
    via: tuple[str, ...]  #: the callers, for the largest part
    nbytes: int
    other_nbytes: int

    @property
    def more_bytes(self) -> int:
        """Return how much more the first explanation holds; negative if it holds less."""
        return self.nbytes - self.other_nbytes


def moment_of(metric: str, phase: str) -> str:
    """Return the key of the moment that explains a metric of a phase (``backward.device_retained_bytes``); empty if none
    does."""
    asked = BY_NAME[metric]
    explained = BY_NAME[asked.explained_by] if asked.explained_by else asked
    return explained.flat_name(phase) if explained.moment else ""


def by_category(moment: Moment) -> tuple[MemoryShare, ...]:
    """Return the total of each category, largest first."""
    return _shares(moment.held, lambda held: held.category)


def by_module(moment: Moment) -> tuple[MemoryShare, ...]:
    """Return the total of each module, largest first. Memory of no module is named ``(no module)``."""
    return _shares(moment.held, lambda held: held.module or "(no module)")


def by_site(moment: Moment) -> tuple[SiteDifference, ...]:
    """Return the memory that each place holds of each category, largest first."""
    return difference(moment, None)


def difference(mine: Moment, theirs: Moment | None) -> tuple[SiteDifference, ...]:
    """Return the memory that each place holds in ``mine`` and in ``theirs``, the largest difference first.

    Rows are of the same place if file, function and category agree, whatever the line. The bytes of all rows are counted,
    so ``more_bytes`` add up to the difference of the two metrics.
    """
    places: dict[tuple[str, str], tuple[list[Held], list[Held]]] = defaultdict(lambda: ([], []))
    for side, moment in enumerate((mine, theirs)):
        for held in moment.held if moment is not None else ():
            places[held.category, _LINE.sub("", held.site)][side].append(held)
    found = []
    for (category, _), (ours, others) in places.items():
        rows = sorted(ours or others, key=lambda held: -held.nbytes)
        modules = _shares(rows, lambda held: held.module)
        found.append(
            SiteDifference(
                category=category,
                site=rows[0].site,
                modules=tuple(share.name for share in modules if share.name),
                via=tuple(rows[0].via),
                nbytes=sum(held.nbytes for held in ours),
                other_nbytes=sum(held.nbytes for held in others),
            )
        )
    return tuple(sorted(found, key=lambda one: (-abs(one.more_bytes), -one.nbytes, one.category, one.site)))


def evidence(mine: Explanation, theirs: Explanation | None, key: str, most: int = 3) -> tuple[str, ...]:
    """Return the places that hold more than in the other stack, as lines of a report; empty if none does, or if the moment
    ``key`` (``backward.device_retained_bytes``) was not explained."""
    moment = mine.moments.get(key)
    if moment is None:
        return ()
    other = theirs.moments.get(key) if theirs is not None else None
    more = [one for one in difference(moment, other) if one.more_bytes > 0]
    lines = [f"{when(key)}: {sentence(one)}" for one in more[:most]]
    if len(more) > most:
        rest = sum(one.more_bytes for one in more[most:])
        lines.append(f"{when(key)}: {quantity(rest, 'bytes')} more at {len(more) - most} other places")
    return tuple(lines)


def sentence(one: SiteDifference) -> str:
    """Return a difference in words: ``128 KiB more gathered parameters at deepspeed/...:1234 in wait, for model.layers.*,
    called by ...``."""
    mine, other, size = (quantity(n, "bytes") for n in (one.nbytes, one.other_nbytes, one.more_bytes))
    more = "" if one.other_nbytes == 0 else f" ({mine} instead of {other})"
    modules = f", for {', '.join(shorter(one.modules))}" if one.modules else ""
    caller = f", called by {one.via[-1]}" if one.via else ""
    return f"{size} more {one.category} at {one.site}{modules}{caller}{more}"


def shorter(modules: Iterable[str], most: int = 3) -> list[str]:
    """Return the names themselves if they are ``most`` or fewer, else at most that many of their patterns up to the layer
    (``model.layers.*``)."""
    names = list(modules)
    if len(names) <= most:
        return names
    return list(dict.fromkeys(name.partition(".*")[0] + (".*" if ".*" in name else "") for name in names))[:most]


def when(key: str) -> str:
    """Return a moment in words: ``backward.device_retained_bytes`` -> ``held after backward``."""
    phase, _, metric = key.partition(".")
    return BY_NAME[metric].moment.format(phase)


def _shares(rows: Iterable[Held], name: Callable[[Held], str]) -> tuple[MemoryShare, ...]:
    together: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for held in rows:
        figures = together[name(held)]
        figures[0] += held.nbytes
        figures[1] += held.count
    shares = (MemoryShare(name=key, nbytes=nbytes, count=count) for key, (nbytes, count) in together.items())
    return tuple(sorted(shares, key=lambda share: (-share.nbytes, share.name)))
