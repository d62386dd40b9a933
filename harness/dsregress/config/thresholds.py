"""The size from which a difference matters: the defaults, and the reason for each.

Read from ``[tool.dsregress.thresholds]``. A difference is *relevant* when it reaches both its floor (an absolute size,
against differences that are large in percent of nearly nothing) and its share of the baseline's value. Thresholds never
decide whether a difference is *real*: see ``docs/how-comparison-works.md``.
"""

from __future__ import annotations

import msgspec

#: Fewer pairs of rounds have no scatter, and so no interval.
LEAST_ROUNDS = 2

#: Numbers of rounds after which a pair may be judged: a third more each time. With the last, a difference is within 3 % if
#: rounds scatter by 10 %.
LOOKS = (8, 11, 15, 20, 27, 36, 48, 64, 85, 113)


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Floors carry their unit in the name; shares are fractions of the baseline's value (0.03 is 3 %)."""

    #: 64 KiB is more than a framework's bookkeeping tensors take, and less than one layer of the smallest model here.
    memory_bytes: int = 64 * 1024
    #: 3 % of an 80 GiB card is 2.4 GiB, about the headroom a tuned job is left with.
    memory_share: float = 0.03
    #: 5,000 calls cost a Python interpreter about a millisecond.
    host_calls: int = 5_000
    #: Releases differ by a few per cent in bookkeeping; a hook that runs once more per module shows as far more.
    host_calls_share: float = 0.25
    #: 100 launches cost about half a millisecond of host time on a GPU.
    op_launches: int = 100
    op_launches_share: float = 0.10
    #: One layer that leaves flash attention is a change of kernel.
    attention_calls: int = 1
    attention_calls_share: float = 0.01
    #: Recomputing one layer of the smallest model is more than this.
    flops: int = 1_000_000
    flops_share: float = 0.02
    #: One call more per step is noise to a network, a handful is a change of algorithm in a small model.
    collective_count: int = 4
    collective_count_share: float = 0.05
    collective_bytes: int = 64 * 1024
    collective_bytes_share: float = 0.03
    #: Below a millisecond a step is made of interpreter start and timer overhead.
    time_s: float = 0.001
    #: What takes as much longer as the threshold is called slower every other time, and 10 % has to be found. Processes of
    #: one release differ by up to 5 % (48 pairs on two cores, `nox -s bench -- power`).
    time_share: float = 0.08
    #: An interval that ends before this is called the same. No more than 10 % is what people put up with for a fix.
    time_same_share: float = 0.10
    #: With 6 pairs, chance alone puts all on one side once in 32 times; with fewer, chance cannot be ruled out at all.
    rounds: int = 6
    #: The chance that a report in which nothing differs calls any step time significant, over all its stacks.
    time_false_alarm: float = 0.05

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not value >= 0:
                raise ValueError(f"{name} must not be negative (it is {value})")
        if self.rounds < LEAST_ROUNDS:
            raise ValueError(f"rounds must be {LEAST_ROUNDS} or more (it is {self.rounds})")
        if not 0 < self.time_false_alarm < 1:
            raise ValueError(f"time_false_alarm must be between 0 and 1 (it is {self.time_false_alarm})")
