"""One call of a model that trains, kept so that the same can be computed again: what it was called with, what it returned,
and the gradients that came back for that. Unmetered.

What the program does between the call and its backward is not repeated: the gradients of what was returned say it all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.programs.watch.module_values import ModuleValues
from dsregress.programs.watch.sequence_parts import SequencePart
from dsregress.programs.watch.weight_pieces import local_part, unwrapped
from dsregress.programs.world import random_state
from vgpu import autocast_state

#: Marks the node of autograd's graph that made what a kept call returned.
_MARK = "dsregress: returned by a kept call"

_PLAIN = (bool, int, float, str, type(None))


@dataclass
class KeptCall:
    """One outermost call of a module."""

    root: int  #: number of the module, in the order in which they are first called
    given: tuple[Any, Any] = ((), {})
    returned: list[torch.Tensor] = field(default_factory=list)  #: those that have a gradient
    gradients: list[torch.Tensor | None] = field(default_factory=list)  #: of each; None: no backward came to it
    outside: set[int] = field(default_factory=set)  #: those that the program went on with: their numbers
    random: tuple[object, ...] = ()  #: states of the generators before
    began: str = ""  #: digest of them before
    drawn: str = ""  #: and after it
    autocast: dict[str, torch.dtype] = field(default_factory=dict)  #: by device, where it is on
    scalars: list[dict[str, object]] = field(default_factory=list)  #: plain attributes of each module within
    buffers: list[torch.Tensor] = field(default_factory=list)
    modules: ModuleValues = field(default_factory=ModuleValues)
    micro_batch: int = 1  #: the backward that follows, of those of the step
    sequence: SequencePart | None = None  #: what it has of each sequence, if ranks divide them
    why: str = ""  #: why it cannot be repeated

    def has_same_modules(self, other: KeptCall) -> bool:
        """Return True if the modules of both calls have the same buffers, and plain attributes of the same values."""
        alike = len(self.buffers) == len(other.buffers) and all(map(torch.equal, self.buffers, other.buffers))
        return alike and self.scalars == other.scalars

    @property
    def is_used(self) -> bool:
        """Return True if a backward went through it."""
        return any(self.gradients[number] is not None for number in self.outside)


def begin_call(root: int, module: torch.nn.Module) -> KeptCall:
    """Return a call that is about to begin."""
    with _disable_current_modes():
        return KeptCall(
            root=root,
            random=random_states(),
            began=random_state.random_digest(),
            autocast={one: autocast_state.dtype(one) for one in ("cuda", "cpu") if autocast_state.enabled(one)},
            scalars=[
                scalars_of(one) for one in unwrapped(module).modules() if not hasattr(one, "_fsdp_wrapped_module")
            ],
            buffers=[local_part(buffer).detach().clone() for buffer in module.buffers()],
        )


def end_call(call: KeptCall, args: object, kwargs: object, out: object) -> None:
    """Keep what a call was given and returned, and from now on the gradients of that."""
    try:
        with _disable_current_modes():
            call.given = copied(args), copied(kwargs)
    except _CannotBeKept as error:
        call.why = f"its model is called with {error}"
    with _disable_current_modes():
        call.drawn = random_state.random_digest()
        for tensor in tensors_in(out):
            if tensor.requires_grad:
                call.returned.append(tensor.detach().clone())
                call.gradients.append(None)
                tensor.register_hook(_keep_gradient(call, len(call.gradients) - 1))
                if tensor.grad_fn is not None:
                    tensor.grad_fn.metadata.setdefault(_MARK, []).append((call.outside, len(call.gradients) - 1))


def _keep_gradient(call: KeptCall, number: int) -> Callable[[torch.Tensor | None], None]:
    def keep(gradient: torch.Tensor | None) -> None:
        if gradient is None:  # another tensor of the same node has one
            return
        with _disable_current_modes():
            before = call.gradients[number]
            call.gradients[number] = gradient.detach().clone() if before is None else before + gradient

    return keep


def follow_loss(loss: object) -> torch.Tensor | None:
    """Find out which of what kept calls returned a loss is made of. Return a leaf that it depends on otherwise; None if
    there is none."""
    losses = [loss] if isinstance(loss, torch.Tensor) else list(loss) if isinstance(loss, (list, tuple)) else []
    waiting = [one.grad_fn for one in losses if isinstance(one, torch.Tensor) and one.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node: Any = waiting.pop()
        if _MARK in node.metadata:
            for outside, number in node.metadata[_MARK]:
                outside.add(number)
            continue
        leaf: torch.Tensor | None = getattr(node, "variable", None)
        if leaf is not None:
            return leaf
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return None


# -- the state of a process and of a module --------------------------------------------------------------------------


def random_states() -> tuple[Any, ...]:
    """Return the states of PyTorch's, Python's and numpy's generators."""
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy is not None else None


def restore_random_states(states: tuple[Any, ...]) -> None:
    """Set the generators as `random_states` returned them."""
    torchs, pythons, numpys = states
    torch.set_rng_state(torchs)
    random.setstate(pythons)
    if numpys is not None:
        sys.modules["numpy"].random.set_state(numpys)


def scalars_of(module: torch.nn.Module) -> dict[str, object]:
    """Return a module's attributes that are plain values, such as whether it trains."""
    return {name: value for name, value in vars(module).items() if type(value) in _PLAIN}


def forward_of(module: Any) -> tuple[int, ...]:
    """Return what tells whether a module's own ``forward`` was replaced."""
    return tuple(id(vars(one).get("forward")) for one in (module, unwrapped(module)))


# -- nested values ---------------------------------------------------------------------------------------------------


class _CannotBeKept(Exception):
    """A value holds tensors where they are not found; the message names its class."""


class _IsDivided(_CannotBeKept):
    """A value holds a tensor that is divided among ranks."""


def holds_parts(value: object) -> bool:
    """Return True if what a model returns holds a tensor that is divided among ranks, as with loss_parallel."""
    try:
        _mapped(value, lambda tensor: tensor)
    except _IsDivided:
        return True
    except _CannotBeKept:
        return False
    return False


def copied(value: Any) -> Any:
    """Return a copy of what a model is called with."""
    return _mapped(value, lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of what a model returns, in order."""
    found: list[torch.Tensor] = []

    def keep_tensor(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    with contextlib.suppress(_CannotBeKept):
        _mapped(value, keep_tensor)
    yield from found


def _mapped(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return the same structure with its tensors changed."""
    if isinstance(value, torch.Tensor):
        if hasattr(value, "to_local"):
            raise _IsDivided("a tensor that is divided among ranks")
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(one, change) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(one, change) for one in value)
    if type(value) is dict:
        return {name: _mapped(one, change) for name, one in value.items()}
    if isinstance(value, Mapping):
        made = {name: _mapped(one, change) for name, one in value.items()}
        return type(value)(**made) if dataclasses.is_dataclass(value) else _of_kind(value, made)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{one.name: _mapped(getattr(value, one.name), change)
                                             for one in dataclasses.fields(value) if one.init})  # fmt: skip
    if isinstance(value, (*_PLAIN, torch.dtype, torch.device, type)) or callable(value):
        return value
    if any(isinstance(held, torch.Tensor) for held in getattr(value, "__dict__", {}).values()):
        raise _CannotBeKept(f"a {type(value).__name__}")
    return value


def _of_kind(value: Mapping[object, object], made: dict[object, object]) -> object:
    """Return a mapping of the same kind, as transformers' BatchEncoding; a dict where its kind takes none."""
    try:
        return type(value)(made)  # type: ignore[call-arg]
    except TypeError:
        return made
