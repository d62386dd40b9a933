"""Device arguments: what a program calls ``cuda`` is the target (``meta`` in sim, ``cpu`` in cpu mode).

A torch function mode sees every torch call that takes or creates a tensor, before torch does, and maps its device. It also
answers which device a tensor is on: in sim, tensors whose bytes are booked on the device say ``cuda:0``, so that frameworks
take the paths that they take on a GPU; tensors that the program itself put on ``meta`` say ``meta``. In cpu mode host and
device share one memory, and tensors say ``cpu``.

A torch function mode is off while the function that it handles runs, and code that runs below (hooks in backward) would
escape it. So `backward` and `grad` run with the mode on.
"""

from __future__ import annotations

import contextlib
import inspect
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode

from vgpu.allocator.model import AllocatorSettings
from vgpu.device import loading
from vgpu.device.books import Books
from vgpu.meters import operators
from vgpu.meters.ledger import DEVICE, NOWHERE
from vgpu.replacing import Patches
from vgpu.sim import host
from vgpu.sim.errors import SimulationError, caller, location

_META = torch.device("meta")

#: (mode, function, arguments, keyword arguments) -> result.
Plan = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]


class Ordinals:
    """The card that the program is on. One rank has one card, whatever the program calls it."""

    def __init__(self, local_rank: int, count: int) -> None:
        self.local_rank = local_rank
        self.count = count
        self.current = 0
        self.is_set = False  #: whether the program has said which card it is on
        self.is_first_used = (
            False  #: whether it put something on ``cuda`` before: on the first card, whichever rank it is
        )

    def set(self, device: object) -> None:
        """Select a card, as ``torch.cuda.set_device`` does."""
        self.current = self.index(device)
        self.is_set = True

    def place(self, device: object) -> None:
        """Record that the program puts something on ``device``. Raise SimulationError for another rank's card."""
        self.index(device)
        named = torch.device(device) if isinstance(device, str) else device
        if not self.is_set and getattr(named, "index", None) is None and not _is_ordinal(named):
            self.is_first_used = True

    def index(self, device: object) -> int:
        """Return the card that ``device`` (None, an index, a name, a ``torch.device``) means. Raise SimulationError for
        another rank's, RuntimeError for an ordinal that does not exist."""
        if device is None:
            return self.current
        if isinstance(device, str):
            device = torch.device(device)
        index = device if isinstance(device, int) else getattr(device, "index", None)
        if index is None or index == -1:
            return self.current
        if not 0 <= index < self.count:
            raise RuntimeError(f"CUDA error: invalid device ordinal ({index} of {self.count})")
        if index not in (self.current, self.local_rank):
            raise SimulationError(
                f"cuda:{index} is another rank's card: a rank has one, here cuda:{self.local_rank}; start one process per "
                f"card. At {location(caller())}"
            )
        return index


class DeviceMapping(TorchFunctionMode):
    """Maps devices in the calls of the thread that enters it."""

    def __init__(self, target: str, ordinals: Ordinals, books: Books) -> None:
        super().__init__()
        self.target = torch.device(target)
        self.ordinals = ordinals
        self.books = books
        self.shows_cuda = target == "meta"
        self.placement: int | None = None  #: where the call that runs wants its new meta tensors
        self._plans: dict[Any, Plan] = {}
        self._pinned: set[int] = set()

    def __torch_function__(
        self, func: object, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = _plan(func)
        return plan(self, func, args, kwargs or {})

    # -- devices -----------------------------------------------------------------------------------------------------

    def names_cuda(self, device: object) -> bool:
        """Return True if ``device`` is a CUDA device, by name or as a ``torch.device``."""
        if isinstance(device, torch.device):
            return device.type == "cuda"
        return isinstance(device, str) and device.partition(":")[0] == "cuda"

    def mapped(self, device: object) -> object:
        """Return the device to pass to torch: the target for a CUDA device or a card's index, else ``device`` itself."""
        if _is_ordinal(device) or self.names_cuda(device):
            self.ordinals.place(device)
            return self.target
        return device

    def memory(self, device: object) -> int:
        """Return the memory of a tensor that a program puts on ``device``: NOWHERE for ``meta``, which means tensors without
        bytes, else DEVICE."""
        said_meta = device.type == "meta" if isinstance(device, torch.device) else device == "meta"
        return NOWHERE if said_meta else DEVICE

    @contextlib.contextmanager
    def placing(self, device: object) -> Iterator[None]:
        """Book meta tensors created within the block in the memory that ``device`` means (`memory`)."""
        before = self.placement
        self.placement = self.memory(device)
        try:
            yield
        finally:
            self.placement = before

    def shown(self, tensor: torch.Tensor) -> torch.device:
        """Return the device of ``tensor`` that the program sees."""
        if self.shows_cuda and tensor.is_meta and self.is_on_card(tensor):
            return torch.device("cuda", self.ordinals.current)
        return tensor.device

    def is_on_card(self, tensor: torch.Tensor) -> bool:
        """Return True if the bytes of a meta tensor are the card's. An empty tensor counts as the card's."""
        entry = self.books.ledger.find(_storage_of(tensor))
        return entry is None or entry.memory != NOWHERE

    # -- pinned memory -----------------------------------------------------------------------------------------------

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a page-locked copy in host memory, or ``tensor`` itself if it is not on the host, is already pinned, or in
        cpu mode."""
        if not self.shows_cuda or tensor.device.type != "cpu" or self.is_pinned(tensor):
            return tensor
        return self.pinned(tensor.detach().clone() if host.keeps_contents(tensor) else torch.empty_like(tensor))

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        """Record that ``tensor`` is in page-locked host memory, and return it."""
        entry = self.books.ledger.find(tensor.untyped_storage())
        if self.shows_cuda and tensor.device.type == "cpu" and entry is not None:
            self._pinned.add(entry.serial)
        return tensor

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Return True if the storage of ``tensor`` was recorded as page-locked (`pinned`)."""
        entry = self.books.ledger.find(tensor.untyped_storage())
        return entry is not None and entry.serial in self._pinned


def _is_ordinal(device: object) -> bool:
    """Return True if ``device`` is the number of a card. A bool, which is an int in Python, is the next parameter
    (``non_blocking``)."""
    return isinstance(device, int) and not isinstance(device, bool)


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Return the storage of ``tensor``, or of the tensor inside: a DTensor's local part, or the tensor that vmap maps
    over."""
    inner = getattr(tensor, "_local_tensor", tensor)
    wrappers: Any = torch._C._functorch
    while wrappers.is_functorch_wrapped_tensor(inner):
        inner = wrappers.get_unwrapped(inner)
    storage: torch.UntypedStorage = inner.untyped_storage()
    return storage


# -- plans -----------------------------------------------------------------------------------------------------------


def _plan(func: Any) -> Plan:
    # A function of torch's that a program's watcher wrapped counts as torch's own, found by its name.
    return _SPECIAL.get(func) or _SPECIAL.get(inspect.unwrap(func), _any)


def _any(mode: DeviceMapping, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    if not kwargs:
        return func(*args)
    if kwargs.get("pin_memory"):  # torch calls its allocator, which a machine without a GPU lacks
        made: torch.Tensor = _any(mode, func, args, {**kwargs, "pin_memory": False})
        return mode.pinned(made)
    device = kwargs.get("device")
    if device is None:
        return func(*args, **kwargs)
    return _on_device(mode, func, args, kwargs, device)


def _on_device(mode: DeviceMapping, func: Any, args: Any, kwargs: dict[str, object], device: object) -> object:
    kwargs = {**kwargs, "device": mode.mapped(device)}
    generator = kwargs.get("generator")
    if generator is not None and mode.target.type == "meta":
        kwargs["generator"] = None  # nothing is drawn
    with mode.placing(device):
        return func(*args, **kwargs)


def _to(mode: DeviceMapping, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    device = kwargs.get("device")
    if device is not None:
        kwargs = {**kwargs, "device": mode.mapped(device)}
    elif len(args) > 1:
        device = args[1]
        if isinstance(device, (str, torch.device)) or _is_ordinal(device):
            args = (args[0], mode.mapped(device), *args[2:])
        elif isinstance(device, torch.Tensor):
            device = mode.shown(device)
        else:
            device = None
    if device is None:
        return func(*args, **kwargs)
    return _moved(mode, args[0], device, lambda: func(*args, **kwargs))


def _moved(mode: DeviceMapping, tensor: torch.Tensor, device: object, move: Callable[[], torch.Tensor]) -> torch.Tensor:
    """Return ``tensor`` moved to ``device`` by ``move``. In sim a tensor of the card and one that the program put on meta
    look the same to torch, which would not copy. Raise NotImplementedError, as torch does, if a meta tensor without data
    would be copied to the card."""
    with mode.placing(device):
        if not tensor.is_meta:
            return move()
        on_card = mode.is_on_card(tensor)
        if not on_card and mode.placement != NOWHERE and tensor.untyped_storage().nbytes():
            raise NotImplementedError(
                "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                "torch.nn.Module.to() when moving module from meta to a different device."
            )
        moved = move()
        if on_card and mode.placement == NOWHERE and moved.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
        return moved


def _from_data(mode: DeviceMapping, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run ``torch.tensor(data, device="cuda")`` and its like: create on the host and then copy, as torch does for CUDA."""
    device = kwargs.get("device")
    if device is None or mode.target.type != "meta" or not (mode.names_cuda(device) or _is_ordinal(device)):
        return _any(mode, func, args, kwargs)
    wanted = {name: value for name, value in kwargs.items() if name not in ("device", "requires_grad", "pin_memory")}
    given = args[-1] if args else None
    if isinstance(given, torch.Tensor) and given.is_meta:
        made = func(*args, **wanted)
    else:
        made = func(*args, **wanted, device="cpu")
    mapped = mode.mapped(device)
    made = _moved(mode, made, device, lambda: made.to(mapped))
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def _cuda(mode: DeviceMapping, func: object, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
    """Run ``tensor.cuda(device=None, non_blocking=False, memory_format=...)``."""
    device = kwargs.pop("device", args[1] if len(args) > 1 else None)
    mode.ordinals.place(device)
    non_blocking = kwargs.pop("non_blocking", args[2] if len(args) > 2 else False)
    return _moved(mode, args[0], "cuda", lambda: args[0].to(mode.target, non_blocking=non_blocking, **kwargs))


def _ctc_loss(mode: DeviceMapping, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Pass the lengths as numbers: on a GPU torch reads them on the host before it calls its kernel."""
    if mode.target.type != "meta":
        return func(*args, **kwargs)

    def number(name: object, value: object) -> Any:
        is_length = name in (2, 3, "input_lengths", "target_lengths")
        return value.tolist() if is_length and isinstance(value, torch.Tensor) else value

    return func(*map(number, range(len(args)), args), **{name: number(name, value) for name, value in kwargs.items()})


def _type(mode: DeviceMapping, func: Any, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
    """Run ``tensor.type("torch.cuda.FloatTensor")``; without an argument, return the name of the tensor's type."""
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if isinstance(wanted, str) and wanted.startswith("torch.cuda."):
        dtype = _LEGACY[wanted.rpartition(".")[2].removesuffix("Tensor")]
        with mode.placing("cuda"):
            return args[0].to(mode.target, dtype)
    if wanted is None and mode.shown(args[0]).type == "cuda":
        names = [name for name, dtype in _LEGACY.items() if dtype == args[0].dtype]
        return f"torch.cuda.{names[0]}Tensor"
    return func(*args, **kwargs)


def _parse_to(mode: DeviceMapping, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Parse the arguments of ``module.to``, which also takes an index, by position or as ``device``."""
    if args and _is_ordinal(args[0]):
        args = (torch.device("cuda", args[0]), *args[1:])
    if _is_ordinal(kwargs.get("device")):
        kwargs["device"] = torch.device("cuda", kwargs["device"])
    return func(*args, **kwargs)


def _device_made(mode: DeviceMapping, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run ``torch.device(0)``, for which torch asks in C++ which accelerator exists. In cpu mode return ``cpu``, as tensors
    say."""
    number = args[0] if len(args) == 1 else kwargs.get("type")
    if _is_ordinal(number):
        return torch.device("cuda", mode.ordinals.index(number)) if mode.shows_cuda else mode.mapped(number)
    return func(*args, **kwargs)


def _device(mode: DeviceMapping, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    return mode.shown(args[0])


def _is_cuda(mode: DeviceMapping, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return mode.shown(args[0]).type == "cuda"


def _is_meta(mode: DeviceMapping, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return mode.shown(args[0]).type == "meta"


def _get_device(mode: DeviceMapping, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> int:
    shown = mode.shown(args[0])
    return shown.index if shown.index is not None else -1


def _pin_memory(mode: DeviceMapping, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    return mode.pin(args[0])


def _is_pinned(mode: DeviceMapping, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return mode.is_pinned(args[0])


def _set_data(mode: DeviceMapping, func: Any, args: tuple[Any, ...], kwargs: dict[str, object]) -> None:
    """Run ``tensor.data = other``. torch takes meta for another kind of tensor, while host and card are of one kind, so a
    change between them is made beneath the object. As in torch, its gradient accumulator goes (`VariableHooks::set_data`),
    and a graph that was made before still gives its gradient to the object."""
    tensor, other = args
    if tensor.is_meta == other.is_meta:
        func(tensor, other)
        return
    gradient, tensor.grad = _gradient(tensor), None
    vars(tensor).pop(_LEFT_BEHIND, None)
    before = other.data.requires_grad_(
        tensor.requires_grad
    )  # whose version does not change with that of other, as in torch
    torch._C._swap_tensor_impl(tensor, before)
    with torch.no_grad():
        # A graph may hold the former tensor and read its shape, but must not keep its bytes.
        before.data = before.detach().new_empty(()).expand(before.shape)
        before.untyped_storage().resize_(0)
    if before.requires_grad and before.is_leaf:
        _hand_gradient_on(before, weakref.ref(tensor))
    if gradient is not None:
        if gradient.is_meta == tensor.is_meta and gradient.shape == tensor.shape:
            tensor.grad = gradient
        else:
            setattr(tensor, _LEFT_BEHIND, gradient)


#: The attribute of a tensor whose data moved but whose gradient did not; torch allows that when data are set.
_LEFT_BEHIND = "_dsregress_gradient"


def _gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    return getattr(tensor, _LEFT_BEHIND, tensor.grad)


def _get_gradient(mode: DeviceMapping, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    left = vars(args[0]).get(_LEFT_BEHIND) if hasattr(args[0], "__dict__") else None
    return func(*args) if left is None else left


def _set_gradient(mode: DeviceMapping, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    vars(args[0]).pop(_LEFT_BEHIND, None)
    func(*args)


def _hand_gradient_on(before: torch.Tensor, moved: weakref.ref[torch.Tensor]) -> None:
    """Give gradients that a graph accumulates in ``before`` to ``moved``: FSDP offloads its parameters between forward and
    backward."""

    def hand_on(variable: torch.Tensor) -> None:
        gradient, variable.grad = variable.grad, None
        tensor = moved()
        if tensor is None:
            return
        held = _gradient(tensor)
        if held is None:
            tensor.grad = gradient
        else:
            held.add_(gradient)

    before.register_post_accumulate_grad_hook(hand_on)


def _with_mode_on(function: object) -> Plan:
    """Return a plan that runs ``function``, one of torch's that looks for modes itself, without that lookup, so that this
    mode stays on."""
    if not isinstance(function, types.FunctionType):
        return _any
    unseen = {"has_torch_function_unary": _none, "has_torch_function": _none, "has_torch_function_variadic": _none}
    copy = types.FunctionType(
        function.__code__,
        {**function.__globals__, **unseen},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__

    def run(mode: DeviceMapping, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        with mode:
            return copy(*args, **kwargs)

    return run


def _none(*_: object) -> bool:
    return False


_Tensor: Any = torch.Tensor

_LEGACY = {
    "Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64,
    "Bool": torch.bool,
}  # fmt: skip

_SPECIAL: dict[Any, Plan] = {
    _Tensor.to: _to,
    _Tensor.new_tensor: _from_data,
    torch.tensor: _from_data,
    torch._C._nn._parse_to: _parse_to,
    torch.device: _device_made,
    torch.as_tensor: _from_data,
    torch.asarray: _from_data,
    _Tensor.cuda: _cuda,
    torch.ctc_loss: _ctc_loss,
    torch.nn.functional.ctc_loss: _ctc_loss,
    _Tensor.type: _type,
    _Tensor.device.__get__: _device,
    _Tensor.is_cuda.__get__: _is_cuda,
    _Tensor.is_meta.__get__: _is_meta,
    _Tensor.get_device: _get_device,
    _Tensor.data.__set__: _set_data,
    _Tensor.grad.__get__: _get_gradient,
    _Tensor.grad.__set__: _set_gradient,
    _Tensor.grad.__delete__: _set_gradient,
    _Tensor.pin_memory: _pin_memory,
    _Tensor.is_pinned: _is_pinned,
    _Tensor.backward: _with_mode_on(_Tensor.backward),
    torch.autograd.backward: _with_mode_on(torch.autograd.backward),
    torch.autograd.grad: _with_mode_on(torch.autograd.grad),
}


class InDispatch:
    """The virtual card's part in each operator of a simulation (`vgpu.sim.mode.Card`)."""

    def __init__(self, mapping: DeviceMapping) -> None:
        self._mapping = mapping
        self._books = mapping.books
        self._nowhere = False

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The card's."""
        return self._books.card.compute_capability

    @property
    def allocator(self) -> AllocatorSettings:
        """The allocator's options, as the program set them."""
        return self._books.allocator_settings

    def decided(self, place: str) -> None:
        """Note that an optimizer decides by unknown values."""
        self._books.note(f"the optimizer decides by values, which sim does not have, and was told true. At {place}")

    def run(self, plan: Any, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Run one operator by ``plan``, with the device that torch sees."""
        kwargs = self.mapped(kwargs)
        with torch._C.DisableTorchFunction():
            nowhere = self._nowhere = bool(self._books.ledger.live[NOWHERE]) and self._only_nowhere(args)
            if not nowhere:
                self._books.launched(func, args)
            return plan(func, args, kwargs)

    def mapped(self, kwargs: dict[str, Any]) -> dict[str, object]:
        """Return the arguments with the device that torch sees: DTensor's own code passes CUDA devices where no function
        mode is on."""
        device = kwargs.get("device")
        if device is None or device.type != "cuda":
            return kwargs
        return {**kwargs, "device": self._mapping.mapped(device)}

    def memory(self) -> int:
        """Return the memory of an operator's result on meta: that of its arguments."""
        return NOWHERE if self._nowhere and self._books.ledger.live[NOWHERE] else DEVICE

    def placement(self) -> int:
        """Return the memory of a tensor that is requested on meta."""
        wanted = self._mapping.placement
        return wanted if wanted is not None else self.memory()

    def _only_nowhere(self, args: tuple[object, ...]) -> bool:
        tensors = [t for t in operators.tensors_in(args) if t.is_meta]
        return bool(tensors) and not any(self._mapping.is_on_card(t) for t in tensors)


# -- entry points that a mode does not see -----------------------------------------------------------------------------


@contextlib.contextmanager
def mapped_everywhere(mapping: DeviceMapping) -> Iterator[None]:
    """Enter the mode, and replace the entry points that take a device without a torch function, within the block."""
    with Patches("devices named cuda are mapped") as patches:
        _generators(patches, mapping)
        _contexts(patches, mapping)
        loading.mapped(patches, mapping)
        _pinning_loaders(patches)
        _recomputation(patches)
        with mapping:
            yield


def _generators(patches: Patches, mapping: DeviceMapping) -> None:
    real = torch.Generator

    class _GeneratorType(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class Generator(real, metaclass=_GeneratorType):  # type: ignore[misc, valid-type]
        """A generator of the virtual card draws on the host."""

        def __new__(cls, device: object = "cpu") -> Any:
            return real(device="cpu" if mapping.names_cuda(device) else device)

    patches.replace(torch, "Generator", Generator)


def _contexts(patches: Patches, mapping: DeviceMapping) -> None:
    """Map ``with torch.device("cuda")`` and ``torch.set_default_device``: torch's own mode, which may lie below ours."""
    from torch.utils import _device as contexts

    context: Any = contexts.DeviceContext
    constructors = contexts._device_constructors

    def __torch_function__(self: Any, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
        kwargs = kwargs or {}
        if func in constructors() and kwargs.get("device") is None:
            if torch._C._len_torch_function_stack():  # ours is below this one, and maps
                return func(*args, **{**kwargs, "device": self.device})
            with mapping.placing(self.device):
                return func(*args, **{**kwargs, "device": mapping.mapped(self.device)})
        return func(*args, **kwargs)

    patches.replace(context, "__torch_function__", __torch_function__)
    constructors.cache_clear()  # torch keeps the functions that it has found first: inside ours, and outside its own
    patches.callback(constructors.cache_clear)


def _recomputation(patches: Patches) -> None:
    """Describe tensors without modes: checkpointing compares saved with recomputed tensors in hooks, where a mode may be on
    or off."""
    known: dict[str, Any] = torch.utils.checkpoint._allowed_determinism_checks_to_fns

    def apart_from_modes(function: Any) -> object:
        def described(tensor: torch.Tensor) -> object:
            with torch._C.DisableTorchFunction():
                return function(tensor)

        return described

    wrapped = {name: apart_from_modes(function) for name, function in known.items()}
    patches.replace(torch.utils.checkpoint, "_allowed_determinism_checks_to_fns", wrapped)


def _pinning_loaders(patches: Patches) -> None:
    """Leave batches unpinned: a page-locked copy would be a few KiB on the host, made by a thread that no mode sees."""
    from torch.utils.data._utils import pin_memory as pinning

    def pin_memory(data: object, device: object = None) -> Any:
        return data

    patches.replace(pinning, "pin_memory", pin_memory)
