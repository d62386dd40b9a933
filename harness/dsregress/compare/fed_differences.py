"""Compares what a program feeds to its models with the baseline's run: micro-batch by micro-batch, rank by rank, exactly.

The same script and data set feed the same, unless a release tokenizes, cuts, packs or masks otherwise: a finding, which is
told as what it is. A release may also only shuffle otherwise. Then the rows are other ones, and nothing is worse, but losses
and gradient norms cannot be compared: where data differ, they differ. A program that goes on from a checkpoint is another
case: of two releases that read the same one, but one can go on with the rows that are next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dsregress.compare.metrics import FED_DIFFERENCE
from dsregress.compare.rank_feeds import Feed, apart_in, are_reordered, ids_of
from dsregress.compare.result_pairs import Pair
from dsregress.messages import Message, Text, message, plural_message
from dsregress.model import Finding
from dsregress.probe.border.wire import FedBatch, FedRow


class FedJudgement(NamedTuple):
    """The difference of a run's data from the baseline's. Without a sentence, there is none."""

    sentence: Text = ""
    batches: int = 0  #: micro-batches that differ
    rank: int = 0
    since_step: int = 0  #: of the optimizer, the first in which they differ
    is_worse: bool = False  #: told as a regression: other tokens, not other rows
    only_ids: bool = False  #: as many rows and tokens as in the baseline: whether it matters, training tells

    def finding(self, pair: Pair, *, is_worse: bool) -> Finding:
        """Return the finding, which fails a run only if it ``is_worse``."""
        return pair.finding(
            FED_DIFFERENCE,
            kind="regression" if is_worse else "changed",
            value=float(self.batches),
            baseline_value=0.0,
            sentence=self.sentence,
            rank=self.rank,
        )


def judge_feed(pair: Pair) -> FedJudgement:
    """Return how the data of a run differ from the baseline's. What a program feeds in later steps that generates it follows
    from its training, so that it is no fault of the data."""
    if pair.base is None or pair.is_baseline:
        return FedJudgement()
    theirs = {feed.rank: feed for feed in pair.base.fed}
    beside = [(own, theirs[own.rank]) for own in pair.own.fed if own.rank in theirs]
    if (idle := _idle_workers(beside)) is not None:
        return idle
    apart = [(feeds, differing) for feeds in beside if (differing := _differing(*feeds))]
    if not apart:
        return FedJudgement()
    generates, goes_on = pair.own.generates, pair.result.cell.loads_kept_files
    (own, base), differing = apart[0]
    since = differing[0][0].step
    found = FedJudgement("", sum(len(batches) for _, batches in apart), own.rank, since)
    if own.even_rows and base.even_rows and own.even_rows != base.even_rows:
        return found._replace(sentence=_other_rows(own.even_rows, base.even_rows), is_worse=True)
    if any(_is_drawn_otherwise(own, base) for own, base in beside):
        is_worse = goes_on or (own.repeats and not base.repeats)
        return found._replace(sentence=_other_order(own, base, since), is_worse=is_worse)
    own_ids, base_ids = (ids_of(side) for side in zip(*beside, strict=True))
    is_reordered = any(mine.ids != its.ids for mine, its in _beside(differing))
    argument = next((name for mine, its in differing if (name := apart_in(mine, its))), "")
    has_same_ids = all(own.ids == base.ids and own.labels == base.labels for own, base in _beside(differing))
    by_value = bool(argument) and has_same_ids and are_reordered(*zip(*beside, strict=True))
    if (own_ids == base_ids and all(own_ids) and is_reordered) or by_value:
        return found._replace(sentence=_reordered(since), is_worse=goes_on)
    if (again := _fed_again(own, base, since)) is not None and not generates:
        return found._replace(sentence=again, is_worse=True)
    sentence = _other_tokens(differing)
    if sentence is not None:
        return found._replace(sentence=sentence, is_worse=not generates or since == 1)
    if argument and has_same_ids:
        other = message(
            "other values of {argument} in as many rows, from step {step} on",
            argument=_argument_text(argument),
            step=since,
        )
    elif all(own.ids == base.ids for own, base in _beside(differing)):
        other = message("other labels of the same ids, from step {step} on", step=since)
    else:
        other = message("other ids in as many tokens, from step {step} on", step=since)
    return found._replace(sentence=other, only_ids=not generates or since == 1)


def _idle_workers(beside: Sequence[tuple[Feed, Feed]]) -> FedJudgement | None:
    """Return the judgement on workers of data loaders that get no rows, and got some with the baseline; None if there are
    none. The others then read all the data, in another order."""
    more = [(own, base) for own, base in beside if own.idle_workers > base.idle_workers]
    if not more:
        return None
    own, base = more[0]
    sentence = plural_message(
        "{idle} of {count:,} worker of a data loader gets no rows, was {before}",
        "{idle} of {count:,} workers of a data loader get no rows, was {before}",
        own.workers,
        idle=own.idle_workers,
        before=base.idle_workers,
    )
    batches = max(1, sum(len(_differing(*feeds)) for feeds in beside))
    return FedJudgement(sentence, batches, own.rank, since_step=1, is_worse=True)


def _argument_text(argument: str) -> Text:
    """Return an argument as it is told: by its name, or by its place."""
    return message("argument {number}", number=int(argument) + 1) if argument.isdigit() else argument


def _differing(own: Feed, base: Feed) -> list[tuple[FedBatch, FedBatch]]:
    alike = (_as_both_know(*pair) for pair in zip(own.batches, base.batches, strict=False))
    return [
        (mine, theirs)
        for mine, theirs in alike
        if _without_padding(mine) != _without_padding(theirs) or apart_in(mine, theirs)
    ]


def _as_both_know(*batches: FedBatch) -> tuple[FedBatch, FedBatch]:
    """Return both with what both of them know: a release may keep labels, or the mask, from the model."""
    mine, theirs = batches
    is_padded = any(row.tokens < batch.length for batch in batches for row in batch.first_rows)
    if mine.is_masked != theirs.is_masked and is_padded:
        return replace(mine, length=0, first_rows=[]), replace(theirs, length=0, first_rows=[])
    if all(row.supervised is not None for batch in batches for row in batch.first_rows):
        return mine, theirs
    own, base = ([replace(row, supervised=None, labels="") for row in batch.first_rows] for batch in batches)
    return replace(mine, first_rows=own), replace(theirs, first_rows=base)


def _without_padding(batch: FedBatch) -> tuple[int, int, Sequence[FedRow]]:
    """Return what is compared: the length of a row counts only where nothing is known of the rows."""
    return batch.rows, 0 if batch.first_rows else batch.length, batch.first_rows


def _is_drawn_otherwise(own: Feed, base: Feed) -> bool:
    """Return True if rows are drawn in another order, as far as both have drawn: a release may draw ahead."""
    return any(mine != theirs for mine, theirs in zip(own.order, base.order, strict=False))


def _other_order(own: Feed, base: Feed, since: int) -> Message:
    if own.repeats and not base.repeats:
        return message("the second epoch has the order of the first, which the baseline shuffles anew")
    return message(
        "other rows of the data set from step {step} on, so that losses and norms are not compared: {own}, were {before}",
        step=since,
        own=_listed(own.order),
        before=_listed(base.order),
    )


def _reordered(since: int) -> Message:
    return message(
        "the same rows in another order, from step {step} on, so that losses and norms are not compared", step=since
    )


def _listed(order: Sequence[int]) -> str:
    return ", ".join(map(str, order[:4])) + (", ..." if len(order) > 4 else "")


def _other_rows(own: int, base: int) -> Message:
    return message("micro-batches have {own} rows, had {before}", own=own, before=base)


def _fed_again(own: Feed, base: Feed, since: int) -> Text | None:
    """Return that data of an earlier step are fed once more where the baseline goes on to new ones, as after a stream that
    begins anew; None if they are not."""
    first = own.first_fed_again(since)
    if first is None or base.first_fed_again(since) is not None:
        return None
    return message(
        "from step {step} on the data of step {first} are fed again, and new ones were before", step=since, first=first
    )


def _other_tokens(differing: Sequence[tuple[FedBatch, FedBatch]]) -> Text | None:
    """Return how many rows, tokens or labels differ, the most telling first; None if only ids do."""
    mine, theirs = differing[0]
    if mine.rows != theirs.rows:
        return _other_rows(mine.rows, theirs.rows)
    rows = list(_beside(differing))
    if (end := _other_end(rows)) is not None:
        return end
    if not rows and mine.length == theirs.length:
        return None
    if not rows:
        return message("rows of {own:,} tokens, were {before:,}", own=mine.length, before=theirs.length)
    tokens = [sum(row.tokens for row in side) for side in zip(*rows, strict=True)]
    if tokens[0] != tokens[1]:
        return message(
            "{own:,} tokens in {rows:,} rows, were {before:,}, from step {step} on",
            own=tokens[0],
            rows=len(rows),
            before=tokens[1],
            step=mine.step,
        )
    labels = [sum(row.supervised or 0 for row in side) for side in zip(*rows, strict=True)]
    if labels[0] != labels[1]:
        return message(
            "{own:,} of {tokens:,} tokens are trained on, were {before:,}, from step {step} on",
            own=labels[0],
            tokens=tokens[0],
            before=labels[1],
            step=mine.step,
        )
    return None


def _beside(differing: Sequence[tuple[FedBatch, FedBatch]]) -> Iterator[tuple[FedRow, FedRow]]:
    for mine, theirs in differing:
        yield from zip(mine.first_rows, theirs.first_rows, strict=False)


def _other_end(rows: Sequence[tuple[FedRow, FedRow]]) -> Text | None:
    """Return whether every row that differs has one token less, or more, at its end; None if not."""
    apart = [(own, base) for own, base in rows if own != base]
    for sides, less in ((apart, True), ([(base, own) for own, base in apart], False)):
        if sides and all(long.ids_but_last and short.ids == long.ids_but_last for short, long in sides):
            last = {long.last for _, long in sides}
            which = message("id {token}", token=str(last.pop())) if len(last) == 1 else message("the last id")
            if less:
                return message("one token less per row: {which} is missing at the end", which=which)
            return message("one token more per row: {which} at the end", which=which)
    return None
