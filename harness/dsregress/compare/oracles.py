"""The oracles: checks of one result that need no baseline.

*Numerics*: plain PyTorch with the same weights and batches gives the result that training must have.

*Memory*: ZeRO's arithmetic gives the bytes that a rank must hold. Only memory that *stays* on the device after init,
backward and step is judged, when nothing is in use any more: there ZeRO leaves no room for opinion. Peaks, and memory held
between forward and backward, also depend on what autograd saves; they are measured against the ideal in the same way, and
reported, not judged (see ``docs/memory-oracle.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dsregress.compare.invariants import broken_invariants
from dsregress.compare.loss_pairs import finite_pairs, listed
from dsregress.compare.metrics import (
    BY_NAME,
    DEVICE_EXCESS,
    DEVICE_RETAINED,
    ERRORS,
    GRADIENT_NORM_ERROR,
    LOSS_ERROR,
    PARAMETER_ERROR,
)
from dsregress.compare.result_pairs import Pair
from dsregress.compare.worst_readings import Excess
from dsregress.config.thresholds import Thresholds
from dsregress.messages import Text, message
from dsregress.model import Finding
from dsregress.probe.border.wire import NO_MODULE, NO_NUMBER, OF_GLOO, Numerics
from dsregress.wording.names import stage_words
from dsregress.wording.quantities import shortened

#: Note on a result that was wrong, and right when repeated. Right results are not repeated.
NOT_EACH_TIME = "repeated at once, it was right; other releases, which ran once, may go wrong now and then as well"


def judge_numerics(pair: Pair) -> list[Finding]:
    """Return a finding for each quantity that is further from the truth than its tolerance, or is not a number."""
    worst: dict[str, tuple[float, int, str, Numerics]] = {}
    for rank, model, numbers in pair.own.suspects:
        for metric in ERRORS:
            distance = getattr(numbers, metric.name)
            size = 0.0 if distance is None else distance if distance < NO_NUMBER else math.inf
            if size > 1 and size > (worst[metric.name][0] if metric.name in worst else 0.0):
                worst[metric.name] = (size, rank, model, numbers)
        if LOSS_ERROR.name not in worst and _loss_is_lost(numbers):
            worst[LOSS_ERROR.name] = (math.inf, rank, model, numbers)
        if GRADIENT_NORM_ERROR.name not in worst and trains_nothing(numbers):
            worst[GRADIENT_NORM_ERROR.name] = (math.inf, rank, model, numbers)
        for one in broken_invariants(numbers):
            worst.setdefault(one.metric.name, (math.inf, rank, model, numbers))
    return [_numerics_finding(pair, m.name, *worst[m.name]) for m in ERRORS if m.name in worst]


def judge_memory(pair: Pair, thresholds: Thresholds) -> list[Finding]:
    """Return a finding for each phase that leaves more behind than rounding and bookkeeping explain.

    The margin is that of every memory finding: its floor in bytes, and its share, here of the ideal. Sound releases were
    measured at 0.01 % beyond the ideal or below it; faults that the check must find are several times the margin.
    """
    return [
        _memory_finding(pair, excess)
        for excess in pair.own.excesses
        if excess.size > 0 and DEVICE_EXCESS.relevant(excess.held, excess.ideal, thresholds)
    ]


#: Below this a loss counts as zero: nothing is learned from it, and no gradient is promised.
_NO_LOSS = 1e-3


def trains_nothing(numbers: Numerics) -> bool:
    """Return True if the gradient norm is 0 in every step although there is a loss. fp16 has no norm of a step that it
    skips, and a truth may have none either, unless it follows the program step by step."""
    norms = numbers.gradient_norms
    has_a_loss = any(loss is not None and abs(loss) > _NO_LOSS for loss in numbers.losses)
    is_true = bool(numbers.true_gradient_norms) and not any(numbers.true_gradient_norms) and not numbers.is_stepwise
    return len(norms) > 1 and not numbers.skipped_steps and has_a_loss and not is_true and all(n == 0 for n in norms)


def _loss_is_lost(numbers: Numerics) -> bool:
    """Return True if a loss is not a finite number although the truth is, or there is no truth for its step."""
    for step, loss in enumerate(numbers.losses):
        truth = numbers.true_losses[step] if step < len(numbers.true_losses) else 0.0
        if not _finite(loss) and _finite(truth):
            return True
    return False


def _numerics_finding(pair: Pair, name: str, size: float, rank: int, model: str, numbers: Numerics) -> Finding:
    metric = BY_NAME[name]
    base = None if pair.base is None or pair.is_baseline else dict(pair.base.errors).get(name)
    is_idle = name == GRADIENT_NORM_ERROR.name and trains_nothing(numbers)
    measured = getattr(numbers, name)
    is_lost = name == LOSS_ERROR.name and _loss_is_lost(numbers)
    broken = None
    if not is_idle and not is_lost and (measured is None or measured <= 1):  # else it is wrong without them
        broken = next((one for one in broken_invariants(numbers) if one.metric.name == name), None)
    word = "no gradient" if is_idle else broken.word if broken else "not a number"
    if broken:
        distance = broken.said
    elif is_idle:
        distance = message("0 in every step, so nothing is trained")
    elif not math.isfinite(size):
        # The note names the parameter: one that is missing has no distance either.
        distance = message("not a number")
        if name == PARAMETER_ERROR.name and numbers.note:
            distance = message("{distance} ({note})", distance=distance, note=numbers.note)
    elif name == PARAMETER_ERROR.name and numbers.gradient_apart:
        distance = message(
            "{gradient} ({tolerances:.3g} times the tolerance)", gradient=numbers.gradient_apart, tolerances=size
        )
    elif apart := _furthest(name, numbers):
        distance = message(
            "{own:.4g}, plain PyTorch {true:.4g} ({tolerances:.3g} times the tolerance)",
            own=apart[0],
            true=apart[1],
            tolerances=size,
        )
    else:
        distance = message("{tolerances:.3g} times the tolerance from plain PyTorch", tolerances=size)
    return pair.finding(
        metric,
        kind="wrong",
        value=size if math.isfinite(size) else word,
        baseline_value=base if _finite(base) else None,
        claim=metric.wrong,
        sentence=_with_circumstances(distance, name, numbers, is_truth=broken is None),
        model=model,
        rank=rank,
        evidence=_numerics_evidence(name, numbers),
        intermittent=numbers.right_when_repeated,
    )


def _with_circumstances(distance: Text, name: str, numbers: Numerics, *, is_truth: bool) -> Text:
    """Return what is wrong, with the module in which it is first if the truth says it, and in which runs and on what ranks
    it may be."""
    if is_truth and numbers.first_module and not numbers.first_module.startswith(NO_MODULE):
        where = numbers.first_module.partition(":")[0]
        distance = message("{distance}, first in {module}", distance=distance, module=where)
    if numbers.note.endswith(OF_GLOO) and name != LOSS_ERROR.name:
        distance = message("{distance}; only CPU ranks may have it", distance=distance)
    if numbers.right_when_repeated:
        distance = message("in one of two runs, {distance}", distance=distance)
    return distance


def _furthest(name: str, numbers: Numerics) -> tuple[float, float] | None:
    """Return the value that is furthest from its truth, and the truth; None if they are too many to be listed."""
    values = {
        LOSS_ERROR.name: (numbers.losses, numbers.true_losses),
        GRADIENT_NORM_ERROR.name: (numbers.gradient_norms, numbers.true_gradient_norms),
    }.get(name, ((), ()))
    return max(finite_pairs(*values), key=lambda pair: abs(pair[0] - pair[1]), default=None)


def _numerics_evidence(name: str, numbers: Numerics) -> tuple[str, ...]:
    lines = []
    if name == LOSS_ERROR.name:
        lines = _beside("losses", numbers.losses, numbers.true_losses)
    elif name == GRADIENT_NORM_ERROR.name:
        lines = _beside("gradient norms", numbers.gradient_norms, numbers.true_gradient_norms)
    if numbers.first_module:
        lines.append(f"first difference: {numbers.first_module}")
    if numbers.right_when_repeated:
        lines.append(NOT_EACH_TIME)
    if numbers.note:
        lines.append(shortened(numbers.note))
    return tuple(lines)


def _beside(words: str, measured: Sequence[float | None], true: Sequence[float | None]) -> list[str]:
    if not measured:
        return []
    text = f"{words} {listed(measured)}"
    return [f"{text}; plain PyTorch {listed(true)}" if true else text]


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _memory_finding(pair: Pair, excess: Excess) -> Finding:
    metric = DEVICE_EXCESS
    others = pair.base.excesses if pair.base is not None and not pair.is_baseline else ()
    too_much = DEVICE_RETAINED.phrase.of_subject(stage_words(excess.phase), metric.size(excess.size), more=True)
    return pair.finding(
        metric,
        phase=excess.phase,
        kind="wrong",
        value=excess.size,
        baseline_value=next((other.size for other in others if other.phase == excess.phase), None),
        sentence=message(
            "{excess} than ZeRO needs: {held}, needed at most {needed}",
            excess=too_much,
            held=metric.size(excess.held),
            needed=metric.size(excess.ideal),
        ),
        rank=excess.rank,
        evidence=("needed: " + ", ".join(f"{name} {metric.size(nbytes)}" for name, nbytes in excess.terms if nbytes),),
    )
