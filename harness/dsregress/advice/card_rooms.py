"""The room of each simulated run of a comparison on the card that its scenario, or the reader, names. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dsregress.advice import gpus
from dsregress.advice.capacity import FitVerdict, available_bytes, compared_verdict
from dsregress.advice.certainty import OVERHEAD_BYTES
from dsregress.advice.gpus import Card
from dsregress.compare import Comparison, ResultSummary
from dsregress.model import Passed, split_workload

#: From how much more memory on a card is one of the next size: cards that are sold as 24 GB leave a job 21.7 to 23.7 GiB.
_NEXT_SIZE = 1.15


class CardRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The room that a simulated run has on its card."""

    card: str
    workload: str
    own: FitVerdict
    baseline: FitVerdict | None  #: of the baseline's run of the same workload; None if it did not run to the end
    smallest: str  #: the smallest known card that has the room; empty if none has
    baseline_smallest: str  #: the same of the baseline's run

    @property
    def is_too_large(self) -> bool:
        """Return True if the run does not fit and the baseline's does, or did not run to the end. If the baseline's does not
        fit either, the job needs another card, and the release is not to blame."""
        return not self.own.fits and (self.baseline is None or self.baseline.fits)

    @property
    def fits_neither(self) -> bool:
        """Return True if neither the run nor the baseline's fits."""
        return not self.own.fits and self.baseline is not None and not self.baseline.fits

    @property
    def needs_larger_card(self) -> bool:
        """Return True if the run needs a card of the next size after the smallest that holds the baseline's, whichever card
        is named."""
        was = gpus.catalogue().get(self.baseline_smallest)
        now = gpus.catalogue().get(self.smallest)
        return was is not None and (now is None or now.usable_bytes >= _NEXT_SIZE * was.usable_bytes)


class CardRooms:
    """The rooms of a comparison, by stack and workload. ``card`` overrides the cards that scenarios name. The results of a
    workload are read once."""

    def __init__(self, comparison: Comparison, card: Card | None = None) -> None:
        self._comparison = comparison
        self._card = card
        self._known: dict[str, dict[str, CardRoom]] = {}

    def of(self, stack: str, workload: str) -> CardRoom | None:
        """Return the room of a run; None if it was not simulated, names no known card, or did not run to the end.

        Raise ResultsError if results were removed after they were compared.
        """
        if split_workload(workload).device != "sim":
            return None
        if workload not in self._known:
            self._known[workload] = dict(self._read(workload))
        return self._known[workload].get(stack)

    def _read(self, workload: str) -> Iterator[tuple[str, CardRoom]]:
        cells = self._comparison.cells.of_workload(workload)
        base = cells.get(self._comparison.baseline)
        theirs: dict[str, tuple[FitVerdict | None, str]] = {}  # by card: one, unless a later version names another
        for stack, cell in cells.items():
            card = self._card or _named_card(cell)
            if card is None or (own := room(cell, card)) is None:
                continue
            if card.name not in theirs:
                was = room(base, card) if base is not None else None
                theirs[card.name] = was, _smallest(base, was) if base is not None and was is not None else ""
            baseline, baseline_smallest = theirs[card.name]
            yield (
                stack,
                CardRoom(
                    card=card.name,
                    workload=workload,
                    own=own,
                    baseline=baseline,
                    smallest=_smallest(cell, own),
                    baseline_smallest=baseline_smallest,
                ),
            )


def _named_card(cell: ResultSummary) -> Card | None:
    return gpus.named_card(cell.result.cell.parameters)


def _smallest(cell: ResultSummary, fit: FitVerdict) -> str:
    parameters = cell.result.cell.parameters
    by_size = sorted(gpus.catalogue().values(), key=lambda card: card.usable_bytes)
    return next((card.name for card in by_size if available_bytes(card, parameters) >= fit.peak_bytes), "")


def room(cell: ResultSummary, card: Card | None, overhead_bytes: int = OVERHEAD_BYTES) -> FitVerdict | None:
    """Return the verdict whether a simulated cell fits a card; None without a card, or if the cell was not simulated or did
    not pass."""
    if card is None or cell.result.cell.device != "sim" or not isinstance(cell.result.outcome, Passed):
        return None
    return compared_verdict(cell, card, overhead_bytes)
