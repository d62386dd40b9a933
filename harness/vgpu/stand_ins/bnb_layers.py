"""``bitsandbytes.nn``: linear layers in 4 and 8 bits, and embeddings whose optimizer states stay in 32 bits
(``bitsandbytes/nn/modules.py`` of 0.48). A weight is quantized when it first moves to a device."""

from __future__ import annotations

import copy
from typing import Any

import torch

from vgpu.stand_ins import bnb_functional as functional
from vgpu.stand_ins import bnb_matmul
from vgpu.stand_ins.bnb_optimizers import GlobalOptimManager

__all__ = [
    "Embedding",
    "Int8Params",
    "Linear4bit",
    "Linear8bitLt",
    "LinearFP4",
    "LinearNF4",
    "Params4bit",
    "StableEmbedding",
]

_Device: Any = torch._C._nn


class _Quantized(torch.nn.Parameter):
    """A weight that may be quantized. ``_options`` are the attributes that a copy is made with."""

    _options: tuple[str, ...] = ()

    def _made_like(self, data: torch.Tensor) -> object:
        options = {name: getattr(self, name) for name in self._options}
        return type(self)(data, requires_grad=self.requires_grad, **options)

    def cpu(self, *_: object, **__: object) -> Any:
        return self.to(device="cpu")

    def cuda(self, device: object = None, non_blocking: bool = False, **_: object) -> Any:
        return self.to(device="cuda" if device is None else device, non_blocking=non_blocking)

    def __deepcopy__(self, memo: dict[int, object]) -> object:
        made = self._made_like(copy.deepcopy(self.data, memo))
        for name, value in vars(self).items():
            setattr(made, name, value if name == "module" else copy.deepcopy(value, memo))
        return made


class Params4bit(_Quantized):
    _options = (
        "quant_state",
        "blocksize",
        "compress_statistics",
        "quant_type",
        "quant_storage",
        "module",
        "bnb_quantized",
    )

    def __new__(
        cls,
        data: torch.Tensor | None = None,
        requires_grad: bool = False,
        quant_state: object = None,
        blocksize: int | None = None,
        compress_statistics: bool = True,
        quant_type: str = "fp4",
        quant_storage: torch.dtype = torch.uint8,
        module: object = None,
        bnb_quantized: bool = False,
    ) -> Any:
        data = torch.empty(0) if data is None else data
        made: Any = torch.Tensor._make_subclass(cls, data, requires_grad)
        made.blocksize = blocksize or 64
        made.compress_statistics = compress_statistics
        made.quant_type = quant_type
        made.quant_state = quant_state
        made.quant_storage = quant_storage
        made.bnb_quantized = bnb_quantized
        made.data = data
        made.module = module
        return made

    @classmethod
    def from_prequantized(
        cls,
        data: torch.Tensor,
        quantized_stats: dict[str, object],
        requires_grad: bool = False,
        device: object = "cuda",
        module: Any = None,
        **_: object,
    ) -> object:
        """Return the weight of a checkpoint's bytes and statistics, on ``device``."""
        state = functional.QuantState.from_dict(quantized_stats, device)
        if module is not None:
            module.quant_state = state
        return cls(
            data.to(device),
            requires_grad,
            quant_state=state,
            blocksize=state.blocksize,
            compress_statistics=state.nested,
            quant_type=state.quant_type or "fp4",
            quant_storage=data.dtype,
            module=module,
            bnb_quantized=True,
        )

    def to(self, *args: object, **kwargs: object) -> Any:
        """Move the weight; the first move to a device other than ``meta`` quantizes it."""
        device, dtype, non_blocking, _ = _Device._parse_to(*args, **kwargs)
        mine: Any = self
        if device is not None and device.type != "meta" and not mine.bnb_quantized:
            return self._quantized(device)
        if mine.quant_state is not None and device is not None:
            mine.quant_state.to(device)
        return self._made_like(super().to(device=device, dtype=dtype, non_blocking=non_blocking))

    def _quantized(self, device: object) -> object:
        mine: Any = self
        mine.data, mine.quant_state = functional.quantize_4bit(
            mine.data.contiguous().to(device),
            blocksize=mine.blocksize,
            compress_statistics=mine.compress_statistics,
            quant_type=mine.quant_type,
            quant_storage=mine.quant_storage,
        )
        if mine.module is not None:
            mine.module.quant_state = mine.quant_state
        mine.bnb_quantized = True
        return self

    @classmethod
    def __torch_function__(cls, func: object, types: object, args: Any = (), kwargs: object = None) -> object:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func in (torch.chunk, torch.split):  # as FSDP2 shards a parameter
            made = [args[0]._made_like(part) for part in (result if isinstance(result, tuple) else (result,))]
            return tuple(made) if isinstance(result, tuple) else made[0]
        return result


class Linear4bit(torch.nn.Linear):
    weight: Any

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        compute_dtype: Any = None,
        compress_statistics: bool = True,
        quant_type: str = "fp4",
        quant_storage: torch.dtype = torch.uint8,
        device: Any = None,
    ) -> None:
        super().__init__(input_features, output_features, bias, device)
        self.weight = Params4bit(
            self.weight.data,
            requires_grad=False,
            compress_statistics=compress_statistics,
            quant_type=quant_type,
            quant_storage=quant_storage,
            module=self,
        )
        self.compute_dtype = compute_dtype
        self.compute_type_is_set = compute_dtype is not None
        self.quant_state: Any = None
        self.quant_storage = quant_storage

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        state = getattr(self.weight, "quant_state", None)
        if state is not None:
            for name, value in state.as_dict(packed=True).items():
                destination[f"{prefix}weight.{name}"] = value if keep_vars else value.detach()

    def forward(self, x: torch.Tensor) -> Any:
        self._find_quant_state()
        if self.bias is not None and self.bias.dtype != x.dtype:
            self.bias.data = self.bias.data.to(x.dtype)
        if not self.compute_type_is_set:
            if x.dtype in (torch.float32, torch.bfloat16):
                self.compute_dtype = x.dtype
            self.compute_type_is_set = True
        given = x.dtype
        if self.compute_dtype is not None:
            x = x.to(self.compute_dtype)
        bias = None if self.bias is None else self.bias.to(self.compute_dtype)
        weight: Any = self.weight
        return bnb_matmul.matmul_4bit(x, weight.t(), bias=bias, quant_state=weight.quant_state).to(given)

    def _find_quant_state(self) -> None:
        """Restore the weight's quantization state: a sharding framework may have made another parameter of the weight."""
        weight: Any = self.weight
        if getattr(weight, "quant_state", None) is not None or self.quant_state is None:
            return
        if not isinstance(weight, Params4bit):
            self.weight = weight = Params4bit(weight, quant_storage=self.quant_storage, bnb_quantized=True)
        weight.quant_state = self.quant_state


class _LinearOfType(Linear4bit):
    """A linear layer whose quantization type is fixed by its class."""

    _quant_type: str

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        compute_dtype: Any = None,
        compress_statistics: bool = True,
        quant_storage: torch.dtype = torch.uint8,
        device: Any = None,
    ) -> None:
        of_type = self._quant_type
        super().__init__(
            input_features, output_features, bias, compute_dtype, compress_statistics, of_type, quant_storage, device
        )


class LinearFP4(_LinearOfType):
    _quant_type = "fp4"


class LinearNF4(_LinearOfType):
    _quant_type = "nf4"


class Int8Params(_Quantized):
    _options = ("has_fp16_weights", "CB", "SCB")

    def __new__(
        cls,
        data: torch.Tensor | None = None,
        requires_grad: bool = True,
        has_fp16_weights: bool = False,
        CB: torch.Tensor | None = None,
        SCB: torch.Tensor | None = None,
    ) -> Any:
        made: Any = torch.Tensor._make_subclass(cls, torch.empty(0) if data is None else data, requires_grad)
        made.CB, made.SCB, made.has_fp16_weights = CB, SCB, has_fp16_weights
        return made

    def to(self, *args: object, **kwargs: object) -> Any:
        """Move the weight; the first move from the CPU to a device quantizes it, unless it has fp16 weights."""
        device, dtype, non_blocking, _ = _Device._parse_to(*args, **kwargs)
        mine: Any = self
        is_quantized = mine.data.dtype == torch.int8
        if not is_quantized and device is not None and device.type != "meta" and mine.data.device.type == "cpu":
            if mine.has_fp16_weights:
                return super().to(device)
            mine.data, mine.SCB, _ = functional.int8_vectorwise_quant(
                mine.data.contiguous().to(device=device, dtype=torch.float16)
            )
            mine.CB = mine.data
            return self
        made = type(self)(
            super().to(device=device, dtype=dtype, non_blocking=non_blocking),
            requires_grad=self.requires_grad,
            has_fp16_weights=mine.has_fp16_weights,
        )
        if is_quantized:
            made.CB = made.data
            if device is not None and mine.SCB is not None and mine.SCB.device.type != "meta":
                made.SCB = mine.SCB.to(device)
        return made


class Linear8bitLt(torch.nn.Linear):
    weight: Any

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        has_fp16_weights: bool = True,
        threshold: float = 0.0,
        index: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(input_features, output_features, bias, device)
        self.state = bnb_matmul.MatmulLtState(
            threshold=threshold,
            has_fp16_weights=has_fp16_weights,
            use_pool=threshold > 0.0 and not has_fp16_weights,
        )
        self.index = index
        self.weight = Int8Params(self.weight.data, has_fp16_weights=has_fp16_weights, requires_grad=has_fp16_weights)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        weight: Any = self.weight
        scales = self.state.SCB if weight.SCB is None else weight.SCB
        if not self.state.has_fp16_weights and scales is not None:
            destination[f"{prefix}SCB"] = scales if keep_vars else scales.detach()
            destination[f"{prefix}weight_format"] = torch.tensor(0, dtype=torch.uint8)

    def init_8bit_state(self) -> None:
        """Move the weight's bytes and fp32 numbers into the layer's state."""
        weight: Any = self.weight
        self.state.CB, self.state.SCB = weight.CB, weight.SCB
        weight.CB = weight.SCB = None

    def forward(self, x: torch.Tensor) -> Any:
        self.state.is_training = self.training
        weight: Any = self.weight
        if weight.CB is not None:
            self.init_8bit_state()
        if self.bias is not None and self.bias.dtype != x.dtype:
            self.bias.data = self.bias.data.to(x.dtype)
        out = bnb_matmul.matmul(x, weight, bias=self.bias, state=self.state)
        if not self.state.has_fp16_weights and self.state.CB is not None:
            weight.data = self.state.CB
        return out


class Embedding(torch.nn.Embedding):
    """An embedding whose optimizer states stay in 32 bits."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        GlobalOptimManager.get_instance().register_module_override(self, "weight", {"optim_bits": 32})

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.weight)
        self._fill_padding_idx_with_zero()


class StableEmbedding(Embedding):
    """An embedding followed by a layer norm, in full precision."""

    def __init__(self, num_embeddings: int, embedding_dim: int, *args: Any, device: Any = None, **options: Any) -> None:
        super().__init__(num_embeddings, embedding_dim, *args, device=device, **options)
        self.norm = torch.nn.LayerNorm(embedding_dim, device=device)

    def forward(self, input: torch.Tensor) -> Any:
        embedded = super().forward(input).to(torch.get_default_dtype())
        return self.norm(embedded).to(self.weight.dtype)
