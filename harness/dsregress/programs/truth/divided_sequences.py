"""Which ranks divide each sequence of a program between them, by torch's context parallelism.

As each attends to the tokens of the others, what their model computes is computed again for all of them at once, with
attention over whole sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from dsregress.programs.truth.plain_settings import NoTruth
from dsregress.programs.truth.ranks_in_step import RanksInStep
from dsregress.programs.truth.whole_attention import WholeAttention
from dsregress.programs.watch.kept_calls import KeptCall
from dsregress.programs.watch.kept_steps import KeptStep

#: Ranks that divide each layer between them, of which the first has the calls of all.
Group = Sequence[int]


def teams(ranks: Sequence[KeptStep], groups: Sequence[Group]) -> list[list[Group]]:
    """Return the groups in teams that divide each sequence between them; without parts of sequences, one in each. Raise
    NoTruth if they are divided otherwise."""
    parts = [call.sequence for rank in ranks for call in rank.calls]
    if not any(parts):
        return [[group] for group in groups]
    members = {part.ranks for part in parts if part is not None}
    if not all(parts) or sorted(rank for team in members for rank in team) != list(range(len(ranks))):
        raise NoTruth("some of its ranks, or of its model's calls, have parts of sequences, and others do not")
    if any(len(group) > 1 for group in groups):
        raise NoTruth("its ranks divide sequences, and its layers too")
    return [[[rank] for rank in team] for team in sorted(members)]


def check_parts(ranks: Sequence[KeptStep], groups: Sequence[Group]) -> None:
    """Raise NoTruth unless the parts of ranks that divide sequences are whole ones together, and their modules alike."""
    for team in teams(ranks, groups):
        for calls in zip(*(ranks[min(group)].calls for group in team)):
            tokens = [call.sequence.tokens for call in calls if call.sequence is not None]
            if tokens and not torch.equal(torch.cat(tokens).sort().values, torch.arange(sum(map(len, tokens)))):
                raise NoTruth("what its ranks have of a sequence is not the whole of it")
            if not all(call.has_same_modules(calls[0]) for call in calls):
                raise NoTruth(
                    "ranks that divide its sequences have modules with different buffers or numbers of their own"
                )


def repeated(
    repeats: Sequence[Callable[[], float]], calls: Sequence[KeptCall], passing: Callable[[], None]
) -> list[float]:
    """Return what the repeats of a team's ``calls`` return. ``passing`` is called after each, and before another goes on."""
    if len(repeats) == 1:
        returned = [repeats[0]()]
        passing()
        return returned
    together = RanksInStep(passing)
    tokens = [call.sequence.tokens for call in calls if call.sequence is not None]
    with WholeAttention(together, tokens).taken():
        returned = together.run(repeats)
    if not together.meetings:
        raise NoTruth("its ranks divide sequences, and its attention is not PyTorch's scaled_dot_product_attention")
    return returned
