"""The holders of memory at each phase's peak and end, from a trace of allocations and frees and from where each storage
was made. The trace is replayed when the step is over, so the bytes add up to the metric."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dsregress.probe.border.wire import REGULAR_PHASES, Explanation, Held, Moment, Refusal, Stretch
from dsregress.probe.holders import categories
from vgpu.allocator.model import AllocatorSettings
from vgpu.allocator.replay import replay
from vgpu.meters.ledger import DEVICE, HOST, Event
from vgpu.timeline import envelope

#: Most rows of a moment; the smallest beyond these are merged by category.
_MOST_ROWS = 60

_MEMORIES = ((DEVICE, "device"), (HOST, "host"))


class Birth:
    """The place where one storage was made, and its category."""

    __slots__ = ("category", "engine", "module", "names", "own", "phase", "site", "via")

    def __init__(self, site: str, via: tuple[str, ...], module: str, phase: int, engine: bool, own: bool) -> None:
        self.site, self.via, self.module, self.phase = site, via, module, phase
        self.engine = engine  #: whether the autograd engine itself made it
        self.own = own  #: whether the framework under test made it
        self.category: str | None = None
        self.names: set[str] = set()


class PhaseMarks:
    """Maps phases to parts of a history: those of the current step and, for phases that it has not had, such as init or
    an occasion, those of the last step that had them."""

    def __init__(self) -> None:
        self._step: list[tuple[str, int, int]] = []
        self._earlier: dict[str, list[tuple[str, int, int]]] = {}

    def add(self, name: str, begin: int, end: int) -> None:
        """Add a phase of the current step. ``begin`` and ``end`` are positions in the history."""
        self._step.append((name, begin, end))

    def new_step(self) -> None:
        """Begin a step. Keep the phases of the one before that are not part of every step."""
        for name in {mark[0] for mark in self._step} - set(REGULAR_PHASES[1:]):
            self._earlier[name] = [mark for mark in self._step if mark[0] == name]
        self._step = []

    def all(self) -> list[tuple[str, int, int]]:
        """Return (name, begin, end) of all phases, in order."""
        now = {mark[0] for mark in self._step}
        earlier = (mark for name, marks in self._earlier.items() if name not in now for mark in marks)
        return sorted((*earlier, *self._step), key=lambda mark: mark[1])


def explain_trace(
    trace: list[Event],
    births: Mapping[int, Birth],
    phases: list[tuple[str, int, int]],
    labels: list[str],
    rank: int,
    card: AllocatorSettings | None = None,
) -> Explanation:
    """Return what was alive at the peak and at the end of each phase, and the first request that ``card`` does not
    serve.

    ``trace`` numbers phases by their index in ``labels``; ``births`` are by the storage's serial; ``phases`` are (name,
    begin, end), the last two as positions in the trace.
    """
    replayed = TraceReplay(trace, births, phases, labels)
    explanation = replayed.explanation(rank)
    if card is not None:
        explanation.refusal = replayed.refusal(card)
    return explanation


class TraceReplay:
    """Replays one trace; for the arguments see `explain_trace`."""

    def __init__(
        self, trace: list[Event], births: Mapping[int, Birth], phases: list[tuple[str, int, int]], labels: list[str]
    ) -> None:
        self._trace, self._births, self._phases, self._labels = trace, births, phases, labels
        self._deaths: dict[int, int] = {}

    def explanation(self, rank: int) -> Explanation:
        """Return the moments at the peak and end of each phase, and the timeline, without a refusal."""
        self._inherit()
        totals = self._totals()
        wanted: dict[int, list[tuple[str, int]]] = collections.defaultdict(list)
        peaks: dict[str, tuple[int, int]] = {}
        ends: dict[str, int] = {}
        for name, begin, end in self._phases:
            for memory, word in _MEMORIES:
                total, key = totals[memory], f"{name}.{word}_peak_bytes"
                at = max(range(begin, end + 1), key=total.__getitem__)
                if key not in peaks or total[at] > totals[memory][peaks[key][0]]:
                    peaks[key] = (at, memory)
            ends[name] = end
        for key, (at, memory) in peaks.items():
            wanted[at].append((key, memory))
        for name, end in ends.items():
            for memory, word in _MEMORIES:
                wanted[end].append((f"{name}.{word}_retained_bytes", memory))
        moments: dict[str, Moment] = {}
        for at, live in self._alive(sorted(wanted)):
            for key, memory in wanted[at]:
                rows = self._rows(live[memory])
                moments[key] = Moment(rank=rank, nbytes=sum(row.nbytes for row in rows), held=rows)
        order = [
            f"{name}.{word}_{what}_bytes" for name in ends for _, word in _MEMORIES for what in ("peak", "retained")
        ]
        timeline = [
            Stretch(name, envelope(totals[DEVICE], begin, end))
            for name, begin, end in self._phases
            if name not in ("load", "init")
        ]
        return Explanation(moments={key: moments[key] for key in order}, timeline=timeline)

    def _totals(self) -> dict[int, list[int]]:
        """Return the live bytes of each memory before the first event and after each."""
        totals = {memory: [0] for memory, _ in _MEMORIES}
        now = dict.fromkeys(totals, 0)
        for _, nbytes, memory, _ in self._trace:
            if memory in now:
                now[memory] += nbytes
            for each, total in totals.items():
                total.append(now[each])
        return totals

    def _alive(self, moments: list[int]) -> Iterator[tuple[int, dict[int, dict[int, int]]]]:
        """Yield (moment, memory -> storage's serial -> bytes) at each of these positions of the trace."""
        live: dict[int, dict[int, int]] = collections.defaultdict(dict)
        at = 0
        for moment in moments:
            for serial, nbytes, memory, _ in self._trace[at:moment]:
                size = live[memory].get(serial, 0) + nbytes
                if size:
                    live[memory][serial] = size
                else:
                    live[memory].pop(serial, None)
            at = moment
            yield moment, live

    def _rows(self, live: Mapping[int, int]) -> list[Held]:
        together: dict[tuple[Any, ...], list[int]] = {}
        for serial, nbytes in live.items():
            figures = together.setdefault(self._row_key(serial), [0, 0])
            figures[0] += nbytes
            figures[1] += 1
        rows = [
            Held(nbytes=nbytes, count=count, category=key[0], module=key[1], site=key[2], via=list(key[3]), born=key[4])
            for key, (nbytes, count) in together.items()
        ]
        rows.sort(key=lambda row: (-row.nbytes, row.category, row.site, row.module, row.via))
        kept, rest = rows[:_MOST_ROWS], rows[_MOST_ROWS:]
        for category in categories.ORDER:
            alike = [row for row in rest if row.category == category]
            if alike:
                nbytes, count = sum(row.nbytes for row in alike), sum(row.count for row in alike)
                kept.append(Held(nbytes, count, category, "", f"{len(alike)} smaller places", [], ""))
        return kept

    def refusal(self, card: AllocatorSettings) -> Refusal | None:
        """Return the first request that a card does not serve if the GPU is never behind the host; None if it serves
        all."""
        failure = replay(self._trace, card).failure
        if failure is None:
            return None
        _, module, site, via, _ = self._row_key(self._trace[failure.event][0])
        return Refusal(
            room_bytes=failure.card_bytes,
            requested_bytes=failure.requested_bytes,
            allocated_bytes=failure.allocated_bytes,
            reserved_bytes=failure.reserved_bytes,
            phase=self._labels[failure.phase],
            module=module,
            site=site,
            via=list(via),
        )

    def _row_key(self, serial: int) -> tuple[Any, ...]:
        birth = self._births.get(serial)
        if birth is None:
            return (categories.TEMPORARY, "", "inside a kernel", (), "")
        modules = {_numberless(name) for name in birth.names}
        module = _common(modules) if modules else _numberless(birth.module)
        category = birth.category or self._by_lifetime(birth, serial)
        born = self._labels[birth.phase]
        return (category, module, birth.site, birth.via, born)

    def _by_lifetime(self, birth: Birth, serial: int) -> str:
        """Return the category of a storage that nothing named: an activation, temporary, or other."""
        died = self._deaths.get(serial)
        if died == birth.phase:
            return categories.TEMPORARY
        if self._labels[birth.phase].startswith("forward") and not birth.own:
            return categories.ACTIVATIONS
        return categories.OTHER

    def _inherit(self) -> None:
        """Give storages that the framework made and nothing named the category of all others from the same place, if
        they agree; and find the phase in which each storage was freed."""
        known: dict[str, set[str]] = collections.defaultdict(set)
        for birth in self._births.values():
            if birth.category is not None and birth.own and not birth.engine:
                known[birth.site].add(birth.category)
        for birth in self._births.values():
            agreed = known.get(birth.site, ())
            if birth.category is None and birth.own and not birth.engine and len(agreed) == 1:
                birth.category = next(iter(agreed))
        sizes: dict[int, int] = collections.defaultdict(int)
        for serial, nbytes, _, phase in self._trace:
            sizes[serial] += nbytes
            if sizes[serial] == 0 and nbytes < 0:
                self._deaths[serial] = phase


_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def _numberless(path: str) -> str:
    """Return the path with ``*`` for numbers: ``model.layers.17.mlp`` -> ``model.layers.*.mlp``."""
    return _NUMBER.sub("*", path)


def _common(paths: Iterable[str]) -> str:
    """Return the common prefix of several paths: ``model.layers.*``, or ``*``. A single path is returned unchanged."""
    split = [path.split(".") for path in paths]
    if len(split) == 1:
        return ".".join(split[0])
    shared = []
    for parts in zip(*split):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join([*shared, "*"]) if not shared or shared[-1] != "*" else ".".join(shared)
