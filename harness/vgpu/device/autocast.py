"""``torch.autocast("cuda")`` where no tensor is on CUDA.

torch's own kernels for the dispatch key ``AutocastCUDA`` look at a tensor's device before they cast, so on meta and CPU
tensors they do nothing, nor is the key among these tensors' keys. Here kernels of the same policy override them, and the key
is included while the program's autocast is enabled. The casts so happen where torch makes them: above autograd, inside
composite operators, also in recomputation.

The lists, the rule of each list and the cache of cast weights are those of ``aten/src/ATen/autocast_mode.{h,cpp}``; an
operator that a release does not have is left out.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from vgpu import autocast_state
from vgpu.json_tables import decoded_text_lists, table_beside
from vgpu.meters import operators
from vgpu.replacing import Patches

_KEY = torch._C.DispatchKey.AutocastCUDA
_KEYS = torch._C.DispatchKeySet(_KEY)

#: Policy -> the operators that autocast gives it.
_OPERATORS = decoded_text_lists(table_beside(__file__))


#: Redispatched to the overload with a ``dtype``.
_FP32_APPENDED = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}


class Policy:
    """The casts of the active autocast. ``kind`` is the device type that torch reports for the card's tensors."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.casts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  #: of weights, while the outermost autocast lives

    def eligible(self, value: object) -> bool:
        """Return True if autocast may cast ``value``: a floating-point tensor on the card that is not fp64."""
        return (
            isinstance(value, torch.Tensor)
            and value.device.type == self.kind
            and value.is_floating_point()
            and value.dtype != torch.float64
        )

    def cast(self, value: Any, dtype: torch.dtype) -> Any:
        """Return ``value`` as torch's ``cached_cast`` casts it, also for the tensors of a list. Casts of fp32 leaf weights
        to the autocast dtype are cached."""
        if isinstance(value, (list, tuple)):
            return type(value)([self.cast(item, dtype) for item in value])
        if not self.eligible(value) or value.dtype == dtype:
            return value
        keeps = (
            dtype == autocast_state.dtype("cuda")
            and value.dtype == torch.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
            and torch.is_autocast_cache_enabled()
        )
        if not keeps:
            return value.to(dtype)
        known = self.casts.get(id(value))
        if known is None:
            known = self.casts[id(value)] = (value, value.to(dtype))  # the weight is kept, so that its id is not reused
        return known[1]

    # -- the rule of each list ---------------------------------------------------------------------------------------

    def lower_precision(self, op: object, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Run ``op`` with its eligible tensors cast to the autocast dtype."""
        return self._all(op, args, kwargs, autocast_state.dtype("cuda"))

    def fp32(self, op: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Run ``op`` with its eligible tensors cast to fp32."""
        return self._all(op, args, kwargs, torch.float32)

    def fp32_by_dtype(self, op: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Run ``op`` with ``dtype=torch.float32`` unless the program gave a dtype or the first tensor is not eligible."""
        if not self.eligible(args[0]):
            return op(*args, **kwargs)
        names = [argument.name for argument in op._schema.arguments]
        given = dict(zip(names, args)) | kwargs
        if given.get("dtype") is None:
            given["dtype"] = torch.float32
        return _call(op, given)

    def fp32_appended(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        """Run the overload of ``norm`` that takes a dtype, with fp32 if the first tensor is eligible, else with its own
        dtype."""
        dtype = torch.float32 if self.eligible(args[0]) else args[0].dtype
        if op._schema.overload_name == "ScalarOpt_dim" and len(args) == 3:
            args = (*args, False)
        return _operator(_FP32_APPENDED[f"norm.{op._schema.overload_name}"])(*args, **{**kwargs, "dtype": dtype})

    def promote(self, op: object, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Run ``op`` with its eligible tensors cast to the widest of their dtypes: fp32 if any is fp32, else the autocast
        dtype."""
        tensors = [value for value in operators.tensors_in((*args, *kwargs.values())) if self.eligible(value)]
        widest = any(tensor.dtype == torch.float32 for tensor in tensors)
        return self._all(op, args, kwargs, torch.float32 if widest else autocast_state.dtype("cuda"))

    def _all(self, op: Any, args: tuple[object, ...], kwargs: dict[str, object], dtype: torch.dtype) -> object:
        return op(*self.cast(args, dtype), **{name: self.cast(value, dtype) for name, value in kwargs.items()})


def _call(op: Any, given: dict[str, object]) -> object:
    """Call ``op`` with positional arguments, except those that are keyword-only."""
    positional, keyword = [], {}
    for argument in op._schema.arguments:
        if argument.kwarg_only:
            if argument.name in given:
                keyword[argument.name] = given[argument.name]
        else:
            positional.append(given.get(argument.name, argument.default_value))
    return op(*positional, **keyword)


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


@contextlib.contextmanager
def with_cuda_policy(target: str) -> Iterator[None]:
    """Make ``torch.autocast("cuda")`` cast tensors on ``target`` within the block."""
    policy = Policy(target)
    library = torch.library.Library("aten", "IMPL", "AutocastCUDA")
    rules: tuple[tuple[Any, Callable[..., Any]], ...] = (
        (_OPERATORS["lower_precision"], policy.lower_precision),
        (_OPERATORS["fp32"], policy.fp32),
        (_OPERATORS["fp32_by_dtype"], policy.fp32_by_dtype),
        (_FP32_APPENDED, policy.fp32_appended),
        (_OPERATORS["promote"], policy.promote),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of kernels that are overridden
        for names, rule in rules:
            for name in names:
                _register(library, name, rule)
        library.impl("binary_cross_entropy", _banned)
    try:
        with Patches("autocast as on a GPU") as patches:
            _switched(patches, policy)
            _meta_means_cuda(patches)
            if target == "meta":
                _attention(patches, policy)
                _scaler(patches)
            yield
    finally:
        _activate(False)
        library._destroy()


def _register(library: Any, name: str, rule: Callable[..., object]) -> None:
    try:
        op = _operator(name)
    except AttributeError:
        return  # another release's

    def kernel(*args: object, **kwargs: object) -> object:
        with torch._C.DisableTorchFunction(), torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return rule(op, args, kwargs)

    library.impl(name, kernel)


def _banned(*_: object, **__: object) -> object:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\nMany models use a sigmoid "
        "layer right before the binary cross entropy layer.\nIn this case, combine the two layers using "
        "torch.nn.functional.binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss."
    )


def _activate(on: bool) -> None:
    torch._C._dispatch_tls_set_dispatch_key_included(_KEY, on)


def _switched(patches: Patches, policy: Policy) -> None:
    """Make the dispatch key follow ``set_autocast_enabled("cuda", ...)``, which the context manager calls, and
    ``clear_autocast_cache`` drop the cached casts."""
    enable, clear = torch.set_autocast_enabled, torch.clear_autocast_cache

    def set_autocast_enabled(*args: object) -> None:
        enable(*args)
        _activate(autocast_state.enabled("cuda"))

    def clear_autocast_cache() -> None:
        policy.casts.clear()
        clear()

    patches.replace(torch, "set_autocast_enabled", set_autocast_enabled)
    patches.replace(torch, "clear_autocast_cache", clear_autocast_cache)


def _meta_means_cuda(patches: Patches) -> None:
    """Make torch's own code take ``meta`` for ``cuda`` where it queries autocast by a tensor's device."""
    autocast: Any = torch.amp.autocast_mode.autocast
    init = autocast.__init__

    def __init__(self: object, device_type: str, *args: object, **kwargs: object) -> None:
        init(self, "cuda" if device_type == "meta" else device_type, *args, **kwargs)

    patches.replace(autocast, "__init__", __init__)
    for name in ("get_autocast_dtype", "is_autocast_enabled") if autocast_state.BY_DEVICE else ():
        patches.replace(torch, name, _as_on_cuda(getattr(torch._C, name, getattr(torch, name))))


def _as_on_cuda(function: Any) -> object:
    def on_cuda(device_type: object = "cuda") -> object:
        return function("cuda" if device_type == "meta" else device_type)

    return on_cuda


def _attention(patches: Patches, policy: Policy) -> None:
    """Cast the inputs of attention: in sim its kernel is chosen in Python, before any dispatch key
    (`vgpu.sim.attention`)."""
    functional: Any = torch.nn.functional
    attention = functional.scaled_dot_product_attention

    def scaled_dot_product_attention(*args: object, **kwargs: object) -> object:
        with torch._C.DisableTorchFunction():
            if autocast_state.enabled("cuda"):
                dtype = autocast_state.dtype("cuda")
                args = policy.cast(args, dtype)
                kwargs = {name: policy.cast(value, dtype) for name, value in kwargs.items()}
            return attention(*args, **kwargs)

    patches.replace(functional, "scaled_dot_product_attention", scaled_dot_product_attention)


def _scaler(patches: Patches) -> None:
    """Make gradient scalers step: a healthy job's gradients are finite, and its steps are too few for the scale to grow."""
    scaler: Any = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)  # torch 2.2 has only the latter

    def _maybe_opt_step(
        self: object, optimizer: Any, optimizer_state: object, *args: object, **kwargs: object
    ) -> object:
        return optimizer.step(*args, **kwargs)

    def get_scale(self: Any) -> float:
        return float(self._init_scale) if self._enabled else 1.0

    def _get_growth_tracker(self: Any) -> int:
        return int(self._init_growth_tracker) if self._enabled else 0

    patches.replace(scaler, "_maybe_opt_step", _maybe_opt_step)
    patches.replace(scaler, "get_scale", get_scale)
    patches.replace(scaler, "_get_growth_tracker", _get_growth_tracker)
