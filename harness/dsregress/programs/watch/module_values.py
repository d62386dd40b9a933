"""Digests of what the modules within one call of a model are given and return, and of the gradients of that, from which the
first module that differs is found (`truth.first_module`). Unmetered.

A digest is a random projection: the norm of the difference of two digests is, to a few per cent, that of their tensors.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.hooks import RemovableHandle

from dsregress.probe.border.faults import signature_of
from dsregress.probe.holders.frames import StackWalker
from dsregress.programs.watch.module_calls import remove_hooks
from dsregress.programs.watch.weight_pieces import clean_name, is_wrapper, local_part, unwrapped

GIVEN, RETURNED = "given", "returned"

#: Numbers of a digest, besides the count of those that are not finite. A norm is known to 1 / sqrt(2 * _SUMS) of it.
_SUMS = 128
#: Numbers of a tensor that are projected at once: a copy of them is made.
_BLOCK = 2**18
_STRIDE = 7919  #: prime

#: Marks the nodes of autograd's graph that made a tensor, with the numbers of what comes back for it.
_MARK = "dsregress: what a module is given or returns"

_NO_SHAPE = (-1,)  #: of what cannot be compared

#: A tensor of a moment: the numbers of both.
Place = tuple[int, int]


@dataclass
class ModuleMoment:
    """A call of a module begins or ends."""

    module: str  #: its name; "" for the model
    turn: int  #: how many calls of the module were before, within the call of the model
    role: str  #: GIVEN or RETURNED
    inside: str  #: name of the module whose code is running
    digests: list[torch.Tensor | None]  #: of its tensors; None: it cannot be compared
    shapes: list[tuple[int, ...]] = field(default_factory=list)  #: of what the rank has of them
    called_from: str = ""  #: line of code, if it is wanted


@dataclass
class Return:
    """The gradient that comes back for one tensor, which may be several modules'."""

    places: list[Place] = field(default_factory=list)
    digest: torch.Tensor | None = None  #: of the gradient; None: none came
    shape: tuple[int, ...] = ()  #: of what the rank has of it


@dataclass
class ModuleValues:
    """All of one call, in the order in which it happened."""

    moments: list[ModuleMoment] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)  #: numbers of returns, in the order of the backward
    broken: str = ""  #: why they are not complete


@dataclass(frozen=True)
class RankPart:
    """The part that one of ``of`` ranks, which divide a model's layers, has of each tensor: as in its ``values``."""

    number: int
    of: int
    values: ModuleValues

    def shape_of(self, module: str, turn: int, role: str, tensor: int) -> tuple[int, ...] | None:
        """Return the shape of the rank's part; None if it has none."""
        shapes = self._shapes.get((module, turn, role), ())
        return shapes[tensor] if tensor < len(shapes) else None

    def shape_of_gradient(self, module: str, turn: int, role: str, tensor: int) -> tuple[int, ...] | None:
        """Return the shape of the rank's part of the gradient that comes back; None if none does."""
        return self._gradient_shapes.get((module, turn, role, tensor))

    @functools.cached_property
    def _shapes(self) -> dict[tuple[str, int, str], list[tuple[int, ...]]]:
        found: dict[tuple[str, int, str], list[tuple[int, ...]]] = {}
        for moment in self.values.moments:
            found.setdefault((moment.module, moment.turn, moment.role), moment.shapes)
        return found

    @functools.cached_property
    def _gradient_shapes(self) -> dict[tuple[str, int, str, int], tuple[int, ...]]:
        found: dict[tuple[str, int, str, int], tuple[int, ...]] = {}
        for one in self.values.returns:
            for at, number in one.places:
                moment = self.values.moments[at]
                found.setdefault((moment.module, moment.turn, moment.role, number), one.shape)
        return found

    def digest_part(self, tensor: torch.Tensor, shape: tuple[int, ...] | None) -> torch.Tensor | None:
        """Return the digest of the part of a whole tensor that has this shape; None if it is not known which part."""
        if shape is None or len(shape) != tensor.dim():
            return None
        unlike = [dim for dim, size in enumerate(shape) if size != tensor.shape[dim]]
        if not unlike:
            return tensor_digest(tensor)
        parts = tensor.chunk(self.of, unlike[0])
        known = len(unlike) == 1 and self.number < len(parts) and tuple(parts[self.number].shape) == shape
        return tensor_digest(parts[self.number]) if known else None


class ModuleWatch:
    """Watches the modules of ``root`` within the block, or from `begin` to `end`; gradients come later. ``locates``: keep
    from where each is called. ``part``: keep of whole tensors what a rank has of them."""

    def __init__(self, root: torch.nn.Module, *, locates: bool = False, part: RankPart | None = None) -> None:
        self.values = ModuleValues()
        self._root, self._part = root, part
        self._stacks = StackWalker("") if locates else None
        self._handles: list[RemovableHandle] = []
        self._open: list[str] = []  #: names of modules whose code is running, the innermost last
        self._turns: dict[str, int] = {}
        self._thread = 0  #: in which they are watched: others may call the same modules

    def __enter__(self) -> ModuleWatch:
        self.begin()
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def begin(self) -> None:
        """Begin to watch in this thread. What the program has put around its modules comes first."""
        self._thread = threading.get_ident()
        with self._unbroken():
            for name, module in unwrapped(self._root).named_modules():
                if not is_wrapper(module) and not isinstance(module, torch.jit.ScriptModule):
                    self._watch(clean_name(name), module)

    def end(self) -> None:
        """Watch no further call."""
        self._thread = 0
        remove_hooks(*self._handles)

    def _watch(self, name: str, module: torch.nn.Module) -> None:
        came: set[int] = set()

        def comes(_: object, args: object, kwargs: object) -> None:
            with self._unbroken():
                came.clear()
                came.update(id(one) for one in _tensors_of((args, kwargs)))

        def given(_: object, args: object, kwargs: object) -> None:
            with self._unbroken():
                self._keep_moment(name, GIVEN, list(_tensors_of((args, kwargs))), came)
                self._open.append(name)

        def returned(_: object, args: object, out: object) -> None:
            with self._unbroken():
                if name in self._open:
                    del self._open[len(self._open) - 1 - self._open[::-1].index(name) :]
                self._keep_moment(name, RETURNED, list(_tensors_of(out)))
                self._turns[name] = self._turns.get(name, 0) + 1

        if name:  # what the model itself is given is known
            self._handles.append(
                module.register_forward_pre_hook(self._in_thread(comes), prepend=True, with_kwargs=True)
            )
            self._handles.append(module.register_forward_pre_hook(self._in_thread(given), with_kwargs=True))
        self._handles.append(module.register_forward_hook(self._in_thread(returned)))

    def _in_thread(self, hook: Callable[..., None]) -> Callable[..., None]:
        def own(*args: object) -> None:
            if threading.get_ident() == self._thread:
                hook(*args)

        return own

    def _keep_moment(
        self, name: str, role: str, tensors: Sequence[torch.Tensor], came: Container[int] | None = None
    ) -> None:
        """Add a moment. For tensors that did not come from the caller, but from what FSDP2 or ZeRO-3 put around a module,
        less comes back than for the caller's own: only what comes back for those in ``came`` is kept."""
        if torch._C._current_graph_task_id() != -1:  # what is computed again in a backward
            return
        inside = self._open[-1] if self._open else ""
        moment = ModuleMoment(name, self._turns.get(name, 0), role, inside, [])
        for number, tensor in enumerate(tensors):
            own = _comparable(tensor)
            if own is not None and self._part is not None:
                wanted = self._part.shape_of(name, moment.turn, role, number)
                moment.digests.append(self._part.digest_part(own, wanted))
            else:
                moment.digests.append(None if own is None else tensor_digest(own))
            moment.shapes.append(_NO_SHAPE if own is None else tuple(own.shape))
        if self._stacks is not None and role == GIVEN:
            moment.called_from = self._stacks.walk(sys._getframe())[0]
        self.values.moments.append(moment)
        for number, tensor in enumerate(tensors):
            if (came is None or id(tensor) in came) and tensor.requires_grad and tensor.grad_fn is not None:
                self._await_gradient((len(self.values.moments) - 1, number), tensor)

    def _await_gradient(self, place: Place, tensor: torch.Tensor) -> None:
        assert tensor.grad_fn is not None
        known = tensor.grad_fn.metadata.setdefault(_MARK, {})
        key = id(self.values), tensor.output_nr
        if key in known:
            self.values.returns[known[key]].places.append(place)
            return
        number = known[key] = len(self.values.returns)
        self.values.returns.append(Return([place]))
        tensor.register_hook(functools.partial(_arrived, self.values, number, self._part))

    def _unbroken(self) -> _Unbroken:
        return _Unbroken(self.values, self.end)


def _arrived(values: ModuleValues, number: int, part: RankPart | None, gradient: torch.Tensor | None) -> None:
    if gradient is None:  # another tensor of the same node has one
        return
    with _Unbroken(values, lambda: None):
        one = values.returns[number]
        own = _comparable(gradient)
        if own is None:
            return
        digest: torch.Tensor | None
        if part is not None:
            at, tensor = one.places[0]
            moment = values.moments[at]
            digest = part.digest_part(own, part.shape_of_gradient(moment.module, moment.turn, moment.role, tensor))
        else:
            digest = tensor_digest(own)
        if digest is None:
            return
        if one.digest is None:
            values.arrived.append(number)
        one.digest, one.shape = digest if one.digest is None else one.digest + digest, tuple(own.shape)


def _comparable(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return this rank's part of a tensor; None if it is a summand."""
    if any(one.is_partial() for one in getattr(tensor, "placements", ())):
        return None
    return local_part(tensor)


class _Unbroken:
    """Runs a block unmetered, and keeps what breaks in it from the program."""

    def __init__(self, values: ModuleValues, end: Callable[[], None]) -> None:
        self._values, self._end = values, end
        self._modes: contextlib.AbstractContextManager[None] = _disable_current_modes()

    def __enter__(self) -> None:
        self._modes.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        self._modes.__exit__(None, None, None)
        if not isinstance(error, Exception):  # of whatever the program's tensors and classes raise
            return False
        self._values.broken = self._values.broken or signature_of(error)
        self._end()
        return True


def tensor_digest(tensor: torch.Tensor) -> torch.Tensor:
    """Return the digest of a tensor: sums of its finite numbers with random signs, and the count of the others. Linear in
    the tensor, but for the count."""
    with torch.no_grad():
        values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        flat = values.detach().reshape(-1)
        sums, others = torch.zeros(_SUMS, dtype=torch.float64), 0
        for number, block in enumerate(flat.split(_BLOCK)):
            block = block.cpu().double()
            others += int((~block.isfinite()).sum())
            padded = torch.zeros(-(-block.numel() // _SUMS) * _SUMS, dtype=torch.float64)
            padded[: block.numel()] = block.nan_to_num(0.0, 0.0, 0.0).mul_(_signs(number, block.numel()))
            sums += padded.view(-1, _SUMS).sum(0)
        return torch.cat([sums, torch.tensor([others], dtype=torch.float64)])


def _signs(block: int, numbers: int) -> torch.Tensor:
    """Return the signs of a block: a part of the same ones that begins elsewhere for each."""
    begin = block * _STRIDE % _BLOCK
    return _all_signs()[begin : begin + numbers]


@functools.cache
def _all_signs() -> torch.Tensor:
    return torch.randint(2, (2 * _BLOCK,), generator=torch.Generator().manual_seed(0)).double() * 2 - 1


def _tensors_of(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors that a value holds, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors_of(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors_of(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for attribute in fields(value):
            yield from _tensors_of(getattr(value, attribute.name, None))
