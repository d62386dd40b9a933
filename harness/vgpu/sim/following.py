"""The results of operators and collectives on known values (`vgpu.sim.known`).

Each function follows an operator that has run on shapes and was counted; nothing here is counted.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.distributed as dist

from vgpu.meters import groups, operators
from vgpu.sim.known import UNKNOWN, KnownValues, limit_bytes

aten = torch.ops.aten

_CPU = torch.device("cpu")

#: The result depends on the first argument's geometry alone.
_LIKE = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "empty_like", "new_empty",
         "new_empty_strided", "randint_like"}  # fmt: skip

#: The result is uninitialized memory.
_UNWRITTEN = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}

#: In-place operators whose result does not depend on what the first argument held.
_OVERWRITE = {"copy_", "fill_", "zero_", "random_"}

#: In-place operators that set their second argument if a number is not finite, which no number of a healthy job is.
_RAISES_A_FLAG = {"_amp_foreach_non_finite_check_and_unscale_"}

#: Below this many, choices are classes or experts; from here on they are tokens of a vocabulary.
_CLASSES = 64
_EXPERTS = 1024

#: Steps from one chosen token to the next; a prime, so that neighbours differ.
_STRIDE = 7919


class Messages(Protocol):
    """Integers that ranks send each other, by their numbers in the whole job. Messages between two ranks keep their
    order."""

    def send(self, contents: torch.Tensor | None, to: int) -> None:
        """Send ``contents``, None if they are unknown."""

    def receive(self, like: torch.Tensor, of: int) -> torch.Tensor | None:
        """Return the next message, flat. Raise SimulationError if none comes."""


class Following:
    """Keeps the known values of one simulation up to date."""

    def __init__(self, known: KnownValues) -> None:
        self.known = known
        #: Without it, messages from other ranks are unknown.
        self.messages: Messages | None = None
        self._random_state: torch.Tensor | None = None
        self._chosen = 0
        #: The reduction of the collective that runs now; None if unknown.
        self.reduction: Any = None

    # -- operators ---------------------------------------------------------------------------------------------------

    def made(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object], out: Any) -> None:
        """Follow a factory that made ``out`` on the device."""
        name = _name(func)
        if not _fits(out) or not out.numel():
            return
        if name in _UNWRITTEN:
            if _decides(out):
                self.known.blank(out)
            return
        value = self._compute(func, args, kwargs)
        if value is not None:
            self.known.learn(out, value)

    def computed(
        self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object], out: object
    ) -> bool:
        """Follow an operator without side effects that returned ``out``. Return True if that is known now."""
        known = self.known
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and first.is_meta and not known.maybe(first) and _name(func) not in _LIKE:
            return False
        outs = list(operators.tensors_in(out))
        if not outs or not all(o.is_meta and _fits(o) for o in outs):
            return False
        if _name(func) in _LIKE:
            if _name(func) in _UNWRITTEN:
                return _decides(outs[0]) and known.blank(outs[0])
            assert isinstance(first, torch.Tensor)
            empty = aten.empty_strided(first.size(), first.stride(), dtype=first.dtype, device=_CPU)
            inputs: Any = (empty, *args[1:])
        else:
            inputs = known.inputs(args)
        named = known.inputs(list(kwargs.values()))
        if inputs is UNKNOWN or named is UNKNOWN:
            return False
        value = self._compute(func, inputs, dict(zip(kwargs, named)))
        if value is None:
            return False
        for one, contents in zip(outs, operators.tensors_in(value)):
            known.learn(one, contents)
        return True

    def wrote(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Follow an operator that wrote into its first argument, which is on the device."""
        known, target = self.known, args[0]
        name = _name(func)
        held = known.contents(target) if known.maybe(target) else None
        if held is None:
            if name not in _OVERWRITE or not _fits(target):
                return
            rest = known.inputs(args[1:])
            if rest is UNKNOWN or not known.blank(target):
                return
            held = known.contents(target)
            if held is None:
                return
        else:
            rest = known.inputs(args[1:])
        named = known.inputs(list(kwargs.values()))
        known_inputs = rest is not UNKNOWN and named is not UNKNOWN
        if not known_inputs or self._compute(func, (held, *rest), dict(zip(kwargs, named))) is None:
            known.forget(target)

    def did(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, Any], out: object) -> None:
        """Follow any other operator: it may have written to several arguments, and returned some of them."""
        what, known = operators.traits(func), self.known
        written = [t for t in operators.tensors_in(_written(what, args, kwargs)) if t.is_meta]
        if not written:
            return
        into = {name: kwargs[name] for name in what.out_arguments if isinstance(kwargs.get(name), torch.Tensor)}
        values = None
        if all(known.maybe(t) for t in written) or into:
            named = {name: value for name, value in kwargs.items() if name not in into}
            inputs, rest = known.inputs(args), known.inputs(list(named.values()))
            if inputs is not UNKNOWN and rest is not UNKNOWN:
                outputs = {name: aten.empty([0], dtype=t.dtype, device=_CPU) for name, t in into.items()}
                values = self._compute(func, inputs, {**dict(zip(named, rest)), **outputs}, writes=True)
                if values is not None:
                    for name, target in into.items():
                        known.forget(target)
                        known.learn(target, outputs[name])
        if values is None:
            for tensor in written:
                if not (_name(func) in _RAISES_A_FLAG and tensor is args[1]):
                    known.forget(tensor)

    def chose(self, out: torch.Tensor, among: int, name: str) -> None:
        """Give ``out`` the winners of a comparison of unknown numbers: any of ``among`` is as good as another. They are
        spread evenly; tokens come from the middle half of a vocabulary, where no tokenizer has end-of-sequence, padding or
        another special token."""
        if not _fits(out) or not out.numel() or among < 1:
            return
        whole = among < (_EXPERTS if name == "topk" else _CLASSES)
        start, span, step = (0, among, 1) if whole else (among // 4, among // 2, _STRIDE)
        numbers = aten.arange(self._chosen, self._chosen + out.numel(), device=_CPU)
        self._chosen += out.numel()
        shape = list(out.shape)
        self.known.learn(out, aten.view(numbers.mul_(step).remainder_(span).add_(start), shape).to(out.dtype))

    def filled(self, out: torch.Tensor, value: bool) -> None:
        """Give all elements of ``out`` the value ``value``."""
        if _fits(out):
            self.known.learn(out, aten.full(list(out.shape), value, dtype=out.dtype, device=_CPU))

    def _compute(self, func: torch._ops.OpOverload, args: Any, kwargs: dict[str, object], writes: bool = False) -> Any:
        """Return the operator's result on contents; None if the CPU cannot compute it or its value is unknown."""
        if func.namespace not in ("aten", "prims"):
            return None
        random = torch.Tag.nondeterministic_seeded in func.tags
        if random and _draws_floats(func, args, kwargs):
            return None
        if "device" in kwargs:
            kwargs = {**kwargs, "device": _CPU}
        if kwargs.get("pin_memory") is not None:
            kwargs = {**kwargs, "pin_memory": None}
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        before = torch.get_rng_state() if random else None
        try:
            if before is not None:
                self._seed()
            value = func(*args, **kwargs)
            return True if value is None or writes else value
        except (RuntimeError, IndexError, NotImplementedError, TypeError, ValueError):
            return None
        finally:
            if before is not None:
                self._random_state = torch.get_rng_state()
                torch.set_rng_state(before)

    def _seed(self) -> None:
        """Switch torch's random state to the device's, which is not the host's."""
        if self._random_state is None:
            self._random_state = torch.Generator().manual_seed(0).get_state()
        torch.set_rng_state(self._random_state)

    # -- collectives -------------------------------------------------------------------------------------------------

    def communicated(self, func: torch._ops.OpOverload, args: tuple[Any, ...]) -> list[torch.Tensor]:
        """Follow a collective: its outputs get the values that they have when every rank holds the same. Return the outputs
        that are unknown from now on."""
        name = _name(func)
        group = next((g for g in map(_group, args) if g is not None), None)
        outputs = list(operators.tensors_in(args[0])) if args else []
        reduction, self.reduction = self.reduction, None
        if group is None or name in ("barrier", "monitored_barrier_"):
            return []
        if name == "send":
            for tensor in filter(_decides, outputs):
                if self.messages is not None:
                    self.messages.send(self._read(tensor), to=_in_the_job(group, args[2]))
            return []
        ranks, rank = group.size(), group.rank()
        inputs = list(operators.tensors_in(args[1])) if len(args) > 1 else []
        values: list[torch.Tensor | None] = [None] * len(outputs)
        if name in ("allreduce_", "allreduce_coalesced_", "reduce_"):
            values = [_reduced(self._read(t), reduction, ranks) for t in outputs]
        elif name == "broadcast_":
            values = [self._read(t) for t in outputs]
        elif name == "recv_" and self.messages is not None:
            sender = _in_the_job(group, args[2])
            values = [self.messages.receive(t, of=sender) if _decides(t) else None for t in outputs]
        elif name in ("_allgather_base_", "allgather_into_tensor_coalesced_"):
            values = [_repeated(self._read(i), o) for i, o in zip(inputs, outputs)]
        elif name in ("allgather_", "gather_") and inputs:
            each = max(len(outputs) // len(inputs), 1)
            values = [self._read(inputs[i // each]) for i in range(len(outputs))]
        elif name in ("_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_"):
            wholes = [self._read(t) for t in inputs]
            values = [
                None if w is None else _reduced(w.reshape(ranks, -1)[rank].reshape(o.shape), reduction, ranks)
                for w, o in zip(wholes, outputs)
            ]
        elif name == "reduce_scatter_" and len(inputs) == ranks * len(outputs):
            values = [_reduced(self._read(inputs[i * ranks + rank]), reduction, ranks) for i in range(len(outputs))]
        elif name == "alltoall_" and len(inputs) == len(outputs) == ranks:
            values = [self._read(inputs[rank])] * ranks
        elif (
            name == "alltoall_base_"
            and not args[3]
            and not args[4]
            and inputs
            and inputs[0].shape[:1] == (outputs[0].shape[:1])
        ):
            whole = self._read(inputs[0])
            if whole is not None and whole.dim() and whole.shape[0] % ranks == 0:
                values = [_repeated(whole.chunk(ranks)[rank], outputs[0])]
        elif name == "scatter_" and len(inputs) == ranks:
            values = [self._read(inputs[rank])]
        unknown = []
        for tensor, value in zip(outputs, values):
            if value is None or value.numel() != tensor.numel() or value.dtype != tensor.dtype:
                unknown.append(tensor)
                if tensor.is_meta:
                    self.known.forget(tensor)
            elif tensor.is_meta:
                self.known.learn(tensor, value.reshape(tensor.shape))
            else:
                tensor.copy_(value.reshape(tensor.shape))
        return unknown

    def _read(self, tensor: torch.Tensor) -> torch.Tensor | None:
        value = self.known.contents(tensor)
        return None if value is None else value.clone()


def _reduced(value: torch.Tensor | None, reduction: object, ranks: int) -> torch.Tensor | None:
    op = dist.ReduceOp
    if value is None or reduction is None:
        return None
    if reduction == op.SUM:
        return value.mul_(ranks) if value.dtype != torch.bool else value
    if reduction == op.PRODUCT:
        return value.pow_(ranks)
    return value if any(reduction == same for same in (op.AVG, op.MIN, op.MAX, op.BAND, op.BOR)) else None


def _repeated(value: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    if value is None or not value.numel():
        return None
    return value.reshape(-1).repeat(like.numel() // value.numel()).reshape(like.shape)


def _group(value: object) -> Any:
    if not isinstance(value, torch.ScriptObject):
        return None
    try:
        return torch._C._distributed_c10d.ProcessGroup.unbox(value)  # type: ignore[attr-defined]
    except (RuntimeError, AttributeError):
        return None


def _in_the_job(group: Any, rank: int) -> int:
    """Return the number in the whole job of a group's rank."""
    return dist.get_global_rank(groups.named(group.group_name), rank)


def _decides(tensor: torch.Tensor) -> bool:
    """Return True if a program may read the tensor's values to decide by them: floats are unknown."""
    return _fits(tensor) and not tensor.is_floating_point() and not tensor.is_complex()


def _name(func: torch._ops.OpOverload) -> str:
    return operators.traits(func).name


def _fits(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.numel() * tensor.element_size() <= limit_bytes(tensor.dtype)


def _written(what: operators.Traits, args: tuple[object, ...], kwargs: dict[str, object]) -> list[object]:
    return [args[position] if position < len(args) else kwargs.get(name) for position, name in what.written]


def _draws_floats(func: torch._ops.OpOverload, args: Any, kwargs: dict[str, object]) -> bool:
    """Return True if the random numbers of an operator are floats."""
    name = _name(func)
    if name in ("randint", "randint_like", "randperm", "multinomial"):
        return False
    first = args[0] if args else None
    return not isinstance(first, torch.Tensor) or first.is_floating_point() or name not in ("random_", "bernoulli_")
