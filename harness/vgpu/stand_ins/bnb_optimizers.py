"""``bitsandbytes.optim``: Adam, AdamW, Lion, RMSprop and Adagrad with states in 32 or 8 bits, on the card or paged.

Sizes: ``bitsandbytes/optim/optimizer.py`` (``init_state``, ``get_state_buffer``). A state in 8 bits has a byte per element
and one fp32 number per block of 256 elements, for parameters of 4096 elements and more; all share two maps of 256 fp32
numbers. A paged state of 100,000 elements and more is managed memory, which ``cudaMallocManaged`` gives and PyTorch's
allocator does not see: PyTorch has it as a tensor on the CPU (``functional.get_paged``), and so it is counted as the host's.
On the card it takes what is free. Formulas: ``csrc/kernels.cu``; quantization: ``functional.create_dynamic_map``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from vgpu.device import launching
from vgpu.no_stand_in import NoStandInError

_BLOCK = 256
_PAGED_ELEMENTS = 100_000


class GlobalOptimManager:
    """Settings by parameter, which override the optimizer's."""

    _instance: GlobalOptimManager | None = None

    def __init__(self) -> None:
        self.overrides: dict[int, dict[str, Any]] = {}
        self.by_module: list[tuple[Any, str, dict[str, Any]]] = []

    @classmethod
    def get_instance(cls) -> GlobalOptimManager:
        """Return the only instance of the process."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def register_parameters(self, params: object) -> None:
        pass  # overrides go by identity

    def override_config(self, parameters: Any, key: Any = None, value: Any = None, key_value_dict: Any = None) -> None:
        """Override settings of parameters: one by ``key`` and ``value``, or those of ``key_value_dict``."""
        for parameter in [parameters] if isinstance(parameters, torch.Tensor) else parameters:
            self.overrides.setdefault(id(parameter), {}).update(key_value_dict or {key: value})

    def register_module_override(self, module: object, param_name: str, config: dict[str, object]) -> None:
        """Override settings of a module's parameter, which may become another object before training."""
        self.by_module.append((module, param_name, config))

    def of(self, parameter: torch.Tensor) -> dict[str, Any]:
        """Return the overridden settings of a parameter; empty without any."""
        for module, name, config in self.by_module:
            if getattr(module, name) is parameter:
                return config
        return self.overrides.get(id(parameter), {})


class _AdamRule(torch.optim.Optimizer):
    """Optimizers by Adam's formula, and the base of the other rules. ``states`` is the number of states per parameter: 2 of
    Adam, 1 of Lion."""

    states = 2

    def __init__(
        self,
        params: object,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        bits: int,
        min_8bit_size: int,
        is_paged: bool,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.is_paged = is_paged
        self._bits = bits
        self._smallest = min_8bit_size
        self._maps: tuple[torch.Tensor, ...] = ()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], object] | None = None) -> Any:  # type: ignore[override]
        """Take one step, and return the loss of ``closure``. States are created at a parameter's first step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if not self.state[parameter]:
                    self._begin(parameter, self.state[parameter])
                self._step_one(group, parameter)
        return loss

    def _step_one(self, group: dict[str, object], parameter: torch.Tensor) -> None:
        state = self.state[parameter]
        parameter.data = parameter.data.contiguous()
        if parameter.grad is not None:
            parameter.grad = parameter.grad.contiguous()
        state["step"] += 1
        self._update(group, parameter, state)

    def _begin(self, parameter: torch.Tensor, state: dict[str, object]) -> None:
        bits = GlobalOptimManager.get_instance().of(parameter).get("optim_bits", self._bits)
        if bits not in (8, 32):
            raise NotImplementedError(f"Amount of optimizer bits not supported: {bits}")
        small = bits == 32 or parameter.numel() < self._smallest
        state["step"] = 0
        for index in range(1, self.states + 1):
            state[f"state{index}"] = self._buffer(parameter, torch.float32 if small else torch.uint8)
        if small:
            return
        if not self._maps:
            self._maps = tuple(dynamic_map(signed).to(parameter.device) for signed in (True, False))
        for index in range(1, self.states + 1):
            state[f"qmap{index}"] = self._maps[index - 1]
            blocks = -(-parameter.numel() // _BLOCK)
            state[f"absmax{index}"] = torch.zeros((blocks,), dtype=torch.float32, device=parameter.device)

    def _buffer(self, parameter: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if self.is_paged and parameter.numel() >= _PAGED_ELEMENTS:
            return torch.zeros(tuple(parameter.shape), dtype=dtype, device="cpu")
        return torch.zeros_like(parameter, dtype=dtype)

    def _update(self, group: dict[str, Any], parameter: torch.Tensor, state: dict[str, Any]) -> None:
        held = [state[f"state{index}"] for index in range(1, self.states + 1)]
        scales = [state[f"absmax{index}"] for index in range(1, self.states + 1) if "absmax1" in state]
        with launching.kernel(parameter, *held, *scales) as compute:
            if not compute:
                return
            maps = self._maps or (None, None)
            values = [_dequantized(*each) for each in zip(held, scales, maps)] if scales else held
            values = self._formula(group, parameter, parameter.grad, values, state["step"])
            for index, value in enumerate(values):
                if scales:
                    _quantize(value, held[index], scales[index], maps[index])
                else:
                    held[index].copy_(value)

    def _formula(
        self,
        group: dict[str, Any],
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        values: list[torch.Tensor],
        step: int,
    ) -> list[torch.Tensor]:
        """Update the parameter; return the new states, in fp32."""
        g, (first, second), (beta1, beta2) = gradient.float(), values, group["betas"]
        first = beta1 * first + (1 - beta1) * g
        second = beta2 * second + (1 - beta2) * g * g
        root = (1 - beta2**step) ** 0.5
        update = first / (second.sqrt() + group["eps"] * root) * (group["lr"] * root / (1 - beta1**step))
        parameter.copy_(parameter.float() * (1 - group["lr"] * group["weight_decay"]) - update)
        return [first, second]


class _LionRule(_AdamRule):
    states = 1

    def _formula(
        self,
        group: dict[str, Any],
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        values: list[torch.Tensor],
        step: int,
    ) -> list[torch.Tensor]:
        g, (momentum,), (beta1, beta2) = gradient.float(), values, group["betas"]
        direction = (beta1 * momentum + (1 - beta1) * g).sign()
        parameter.copy_(parameter.float() * (1 - group["lr"] * group["weight_decay"]) - group["lr"] * direction)
        return [beta2 * momentum + (1 - beta2) * g]


class _RmsPropRule(_AdamRule):
    states = 1

    def _formula(
        self,
        group: dict[str, Any],
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        values: list[torch.Tensor],
        step: int,
    ) -> list[torch.Tensor]:
        g, p, (mean,), alpha = gradient.float(), parameter.float(), values, group["betas"][0]
        g = g + group["weight_decay"] * p
        mean = alpha * mean + (1 - alpha) * g * g
        parameter.copy_(p - group["lr"] * g / (mean.sqrt() + group["eps"]))
        return [mean]


class _AdagradRule(_AdamRule):
    states = 1

    def _formula(
        self,
        group: dict[str, Any],
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        values: list[torch.Tensor],
        step: int,
    ) -> list[torch.Tensor]:
        g, p, (total,) = gradient.float(), parameter.float(), values
        g = g + group["weight_decay"] * p
        total = total + g * g
        parameter.copy_(p - group["lr"] * g / (total.sqrt() + group["eps"]))
        return [total]


class _Base(_AdamRule):
    """The base of other packages' optimizers (GaLore's): they loop themselves over `init_state`, `prefetch_state` and
    `update_step`, with one of the package's updates by its name."""

    _rules: ClassVar[dict[str, type[_AdamRule]]] = {}

    def __init__(
        self,
        optimizer_name: str,
        params: Any,
        lr: float = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        optim_bits: int = 32,
        args: object = None,
        min_8bit_size: int = 4096,
        percentile_clipping: int = 100,
        block_wise: bool = True,
        max_unorm: float = 0.0,
        skip_zeros: bool = False,
        is_paged: bool = False,
        **more: object,
    ) -> None:
        name = f"bitsandbytes.optim.optimizer.{self._mine().__name__}"
        if optimizer_name not in self._rules:
            raise NoStandInError(f"{name} has no stand-in for {optimizer_name!r}")
        if more or (args, percentile_clipping, block_wise, max_unorm, skip_zeros) != (None, 100, True, 0.0, False):
            raise NoStandInError(f"{name} has no stand-in for these options")
        self._rule = self._rules[optimizer_name]
        self.initialized = False
        super().__init__(params, lr, betas, eps, weight_decay, optim_bits, min_8bit_size, is_paged)

    @classmethod
    def _mine(cls) -> type:
        return next(base for base in cls.__mro__ if "_rules" in vars(base))

    def check_overrides(self) -> None:
        pass  # `_begin` looks them up

    def to_gpu(self) -> None:
        pass  # states are made where their parameter is

    def init_state(self, group: dict[str, object], p: torch.Tensor, gindex: int, pindex: int) -> None:
        self._begin(p, self.state[p])

    def prefetch_state(self, p: torch.Tensor) -> None:
        pass  # paged states are not moved: neither allocator would see it

    def update_step(self, group: dict[str, object], p: torch.Tensor, gindex: int, pindex: int) -> None:
        self._step_one(group, p)

    def _formula(
        self,
        group: dict[str, Any],
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        values: list[torch.Tensor],
        step: int,
    ) -> list[torch.Tensor]:
        return self._rule._formula(self, group, parameter, gradient, values, step)


class Optimizer2State(_Base):
    _rules: ClassVar = {"adam": _AdamRule}


class Optimizer1State(_Base):
    states = 1
    _rules: ClassVar = {"lion": _LionRule, "rmsprop": _RmsPropRule, "adagrad": _AdagradRule}


@functools.cache
def dynamic_map(signed: bool) -> torch.Tensor:
    """Return the values that a byte stands for, ``(256,)``. The fewer the exponents, the more bits are left to the
    fraction."""
    values = [0.0, 1.0]
    with _disable_current_modes():
        for exponent in range(7):
            bounds = torch.linspace(0.1, 1, 2 ** (exponent if signed else exponent + 1) + 1)
            means = (10.0 ** (exponent - 6) * (bounds[:-1] + bounds[1:]) / 2).tolist()
            values += means
            if signed:
                values += [-value for value in means]
        return torch.tensor(sorted(values))


def _dequantized(codes: torch.Tensor, scales: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    scale = scales.repeat_interleave(_BLOCK)[: codes.numel()]
    return (values[codes.flatten().long()] * scale).view(codes.shape)


def _quantize(value: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, values: torch.Tensor) -> None:
    padded = torch.nn.functional.pad(value.flatten(), (0, -value.numel() % _BLOCK)).view(-1, _BLOCK)
    scales.copy_(padded.abs().amax(1))
    part = padded / scales.clamp(min=1e-38)[:, None]
    nearest = torch.bucketize(part, (values[1:] + values[:-1]) / 2)
    codes.copy_(nearest.flatten()[: value.numel()].view(value.shape))


def _optimizer_class(name: str, rule: type[_AdamRule], bits: int | None, paged: bool) -> object:
    """Return a class of the package. ``bits``: fixed, or None for the caller's ``optim_bits``."""
    decay = 1e-2 if "AdamW" in name else 0.0

    def begin(
        self: Any, params: Any, lr: float, betas: Any, eps: float, weight_decay: float, more: dict[str, Any]
    ) -> None:
        wanted = {"optim_bits": 32, "min_8bit_size": 4096, "is_paged": False}
        plain = {
            "amsgrad": False,
            "args": None,
            "percentile_clipping": 100,
            "block_wise": True,
            "momentum": 0.0,
            "centered": False,
            "lr_decay": 0,
            "initial_accumulator_value": 0,
        }
        for option, value in more.items():
            if option not in wanted and (option not in plain or value != plain[option]):
                raise NoStandInError(f"bitsandbytes.optim.{name} has no stand-in for {option}={value!r}")
        options = wanted | more
        as_bits = bits or options["optim_bits"]
        rule.__init__(
            self, params, lr, betas, eps, weight_decay, as_bits, options["min_8bit_size"], paged or options["is_paged"]
        )

    def adam(
        self: Any,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = decay,
        **more: Any,
    ) -> None:
        begin(self, params, lr, betas, eps, weight_decay, more)

    def lion(
        self: Any,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        **more: Any,
    ) -> None:
        begin(self, params, lr, betas, 0.0, weight_decay, more)

    def rmsprop(
        self: Any,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        **more: Any,
    ) -> None:
        begin(self, params, lr, (alpha, 0.0), eps, weight_decay, more)

    def adagrad(
        self: Any, params: Any, lr: float = 1e-2, eps: float = 1e-10, weight_decay: float = 0.0, **more: Any
    ) -> None:
        begin(self, params, lr, (0.0, 0.0), eps, weight_decay, more)

    starts = {_AdamRule: adam, _LionRule: lion, _RmsPropRule: rmsprop, _AdagradRule: adagrad}
    start = starts[rule]
    return type(name, (rule,), {"__init__": start, "__module__": "bitsandbytes.optim"})


def _family(name: str, rule: type[_AdamRule], *, paged: bool = True) -> dict[str, object]:
    """Return the optimizer in 32 or 8 bits or as requested, each also paged."""
    return {
        f"{prefix}{name}{suffix}": _optimizer_class(f"{prefix}{name}{suffix}", rule, bits, prefix == "Paged")
        for prefix in (("", "Paged") if paged else ("",))
        for suffix, bits in (("", None), ("8bit", 8), ("32bit", 32))
    }


_CLASSES = {
    **_family("Adam", _AdamRule),
    **_family("AdamW", _AdamRule),
    **_family("Lion", _LionRule),
    **_family("RMSprop", _RmsPropRule, paged=False),
    **_family("Adagrad", _AdagradRule, paged=False),
}
globals().update(_CLASSES)

__all__ = ["GlobalOptimManager", *_CLASSES]
