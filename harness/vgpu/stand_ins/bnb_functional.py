"""``bitsandbytes.functional``: quantization of weights in 4 and 8 bits, and its inverse.

Sizes: ``bitsandbytes/functional.py`` and ``backends/cuda/ops.py`` of 0.48. In 4 bits two elements share a byte, and each
block of 64 has an fp32 number, its largest absolute value; with compressed statistics (*double quantization*) these are
bytes, with an fp32 number per 256 of them. Each weight has its own map of 16 fp32 numbers, and with compressed statistics a
second one of 256. In 8 bits each row has an fp32 number.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from vgpu.device import launching
from vgpu.no_stand_in import NoStandInError
from vgpu.stand_ins.bnb_optimizers import dynamic_map

__all__ = [
    "QuantState",
    "create_dynamic_map",
    "dequantize_4bit",
    "dequantize_blockwise",
    "dequantize_fp4",
    "dequantize_nf4",
    "gemv_4bit",
    "get_4bit_type",
    "int8_double_quant",
    "int8_vectorwise_dequant",
    "int8_vectorwise_quant",
    "quantize_4bit",
    "quantize_blockwise",
    "quantize_fp4",
    "quantize_nf4",
]

_Quantized = tuple[torch.Tensor, "QuantState"]

#: The 16 values of 4 bits, as fractions of a block's largest: a normal distribution's quantiles (Dettmers et al.,
#: QLoRA, 2023, appendix E), and floats of two bits of exponent.
_VALUES = {
    "nf4": (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
        -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
    "fp4": tuple(sign * part / 192 for sign in (1, -1) for part in (0, 1, 128, 192, 64, 96, 32, 48)),
}  # fmt: skip
_KEY = "quant_state.bitsandbytes__"


@dataclasses.dataclass(eq=False)
class QuantState:
    """The state that dequantization needs. ``offset`` and ``state2`` are those of compressed statistics."""

    absmax: torch.Tensor
    shape: Any = None
    code: Any = None
    blocksize: int | None = None
    quant_type: str | None = None
    dtype: Any = None
    offset: torch.Tensor | None = None
    state2: QuantState | None = None

    @property
    def nested(self) -> bool:
        """True with compressed statistics."""
        return self.state2 is not None

    def to(self, device: object) -> None:
        """Move the state's tensors to ``device``, in place."""
        self.code = self.code.to(device)
        self.absmax = self.absmax.to(device)
        if self.state2 is not None and self.offset is not None:
            self.offset = self.offset.to(device)
            self.state2.to(device)

    def as_dict(self, packed: bool = False) -> dict[str, object]:
        """Return the state as checkpoints have it. ``packed``: only tensors, one of which holds the rest as JSON."""
        fields: dict[str, Any] = {
            "quant_type": self.quant_type,
            "absmax": self.absmax,
            "blocksize": self.blocksize,
            "quant_map": self.code,
            "dtype": str(self.dtype).removeprefix("torch."),
            "shape": tuple(self.shape),
        }
        if self.state2 is not None and self.offset is not None:
            fields |= {
                "nested_absmax": self.state2.absmax,
                "nested_blocksize": self.state2.blocksize,
                "nested_quant_map": self.state2.code.clone(),
                "nested_dtype": str(self.state2.dtype).removeprefix("torch."),
                "nested_offset": self.offset.item(),
            }
        if not packed:
            return fields
        tensors = {name: value for name, value in fields.items() if isinstance(value, torch.Tensor)}
        rest = json.dumps({name: value for name, value in fields.items() if name not in tensors})
        return tensors | {f"{_KEY}{self.quant_type}": torch.tensor(list(rest.encode()), dtype=torch.uint8)}

    @classmethod
    def from_dict(cls, qs_dict: dict[str, Any], device: object) -> QuantState:
        """Return the state of a checkpoint. Raise ValueError if the JSON part is missing."""
        fields = {name.rpartition(".")[2]: value for name, value in qs_dict.items()}
        packed = [name for name in fields if name.startswith("bitsandbytes__")]
        if not packed and "quant_type" not in fields:
            raise ValueError("Expected packed or unpacked quant_state items, found neither")
        for name in packed:
            fields |= json.loads(bytes(fields.pop(name).tolist()))
        state2 = offset = None
        if "nested_absmax" in fields:
            offset = torch.tensor(float(fields["nested_offset"])).to(device)
            state2 = cls(
                absmax=fields["nested_absmax"].to(device),
                code=fields["nested_quant_map"].to(device),
                blocksize=fields["nested_blocksize"],
                dtype=getattr(torch, fields["nested_dtype"]),
            )
        return cls(
            absmax=fields["absmax"].to(device),
            shape=torch.Size(fields["shape"]),
            code=fields["quant_map"].to(device),
            blocksize=fields["blocksize"],
            quant_type=fields["quant_type"],
            dtype=getattr(torch, fields["dtype"]),
            offset=offset,
            state2=state2,
        )


# -- 4 bits ------------------------------------------------------------------------------------------------------------


def get_4bit_type(typename: str, device: object = None, blocksize: int = 64) -> torch.Tensor:
    """Return the 16 values of a 4-bit type, ``(16,)`` in fp32. Raise NotImplementedError for an unknown type."""
    if typename not in _VALUES:
        raise NotImplementedError(f"Typename {typename} not supported")
    values = torch.tensor(_VALUES[typename], device="cuda" if device is None else device)
    values.div_(values.abs().max())
    return values


def quantize_4bit(
    A: torch.Tensor,
    absmax: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    blocksize: int | None = None,
    compress_statistics: bool = False,
    quant_type: str = "fp4",
    quant_storage: torch.dtype = torch.uint8,
) -> _Quantized:
    """Quantize to ``(bytes / size of quant_storage, 1)``, two elements to a byte; return it with its state."""
    _only_new(out, absmax)
    blocksize = blocksize or 64
    n = A.numel()
    largest = torch.empty((-(-n // blocksize),), device=A.device, dtype=torch.float32)
    made = torch.empty(((n + 1) // (quant_storage.itemsize * 2), 1), device=A.device, dtype=quant_storage)
    with launching.kernel(made, largest) as compute:
        if compute:
            parts, scales = _in_blocks(A, blocksize)
            largest.copy_(scales)
            codes = _nearest(parts, _table(quant_type))[: made.numel() * quant_storage.itemsize * 2]
            codes = torch.nn.functional.pad(codes, (0, codes.numel() % 2))
            made.view(torch.uint8).copy_(
                (codes[::2] << 4 | codes[1::2]).to(torch.uint8).view(-1, quant_storage.itemsize)
            )
    state = QuantState(
        absmax=largest,
        shape=A.shape,
        code=get_4bit_type(quant_type, device=A.device),
        blocksize=blocksize,
        quant_type=quant_type,
        dtype=A.dtype,
    )
    if compress_statistics:
        state.offset = largest.mean()
        state.absmax, state.state2 = quantize_blockwise(largest - state.offset, blocksize=256)
    return made, state


def dequantize_4bit(
    A: torch.Tensor,
    quant_state: QuantState | None = None,
    absmax: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    blocksize: int | None = None,
    quant_type: str = "fp4",
) -> torch.Tensor:
    """Return the weight in the dtype that it was quantized from; transposed if ``A`` is."""
    if quant_state is None:
        if absmax is None or out is None:
            raise ValueError("dequantize_4bit needs a quant_state, or absmax and out")
        quant_state = QuantState(absmax, out.shape, None, blocksize or 64, quant_type, out.dtype)
    scales = _scales(quant_state)
    made = torch.empty(quant_state.shape, dtype=quant_state.dtype, device=A.device) if out is None else out
    with launching.kernel(made) as compute:
        if compute:
            packed = A.detach().flatten().view(torch.uint8)
            codes = torch.stack((packed >> 4, packed & 15), 1).flatten()[: made.numel()]
            values = _table(quant_state.quant_type or quant_type)[codes.long()]
            made.copy_(_unblocked(values, scales, quant_state.blocksize or 64).view(made.shape))
    return made.t() if A.shape[0] == 1 else made


def gemv_4bit(
    A: torch.Tensor, B: torch.Tensor, out: torch.Tensor | None = None, *_: object, state: QuantState, **__: object
) -> torch.Tensor:
    """Multiply a row by a weight, as generation does: one kernel, which holds no weight of full size."""
    scales = _scales(state)
    rows, columns = state.shape
    made = torch.empty((*A.shape[:-1], rows), device=A.device, dtype=A.dtype) if out is None else out
    with launching.kernel(made, flops=2 * rows * columns) as compute:
        if compute:
            plain = dataclasses.replace(state, absmax=scales, state2=None)
            weight = dequantize_4bit(B.reshape(-1, 1), plain).to(A.dtype)
            made.copy_(torch.nn.functional.linear(A, weight))
    return made


def _scales(state: QuantState) -> torch.Tensor:
    if state.state2 is None:
        return state.absmax
    scales = dequantize_blockwise(state.absmax, state.state2)
    scales += state.offset
    return scales


quantize_nf4 = functools.partial(quantize_4bit, quant_type="nf4")
quantize_fp4 = functools.partial(quantize_4bit, quant_type="fp4")
dequantize_nf4 = functools.partial(dequantize_4bit, quant_type="nf4")
dequantize_fp4 = functools.partial(dequantize_4bit, quant_type="fp4")


# -- a byte per element, by blocks -------------------------------------------------------------------------------------


def create_dynamic_map(signed: bool = True, max_exponent_bits: int = 7, total_bits: int = 8) -> torch.Tensor:
    """Return the 256 values of a byte, in fp32. Raise NoStandInError for any other size."""
    if (max_exponent_bits, total_bits) != (7, 8):
        raise NoStandInError("bitsandbytes.functional.create_dynamic_map has a stand-in for 8 bits")
    return dynamic_map(signed).clone()


def quantize_blockwise(
    A: torch.Tensor,
    code: torch.Tensor | None = None,
    absmax: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    blocksize: int = 4096,
    nested: bool = False,
) -> _Quantized:
    """Quantize to a byte per element, with an fp32 number per block; return it with its state."""
    _only_new(out, absmax)
    if nested:
        raise NoStandInError("bitsandbytes.functional.quantize_blockwise has no stand-in for nested=True")
    table = dynamic_map(True) if code is None else code
    largest = torch.empty((-(-A.numel() // blocksize),), device=A.device, dtype=torch.float32)
    made = torch.empty_like(A, dtype=torch.uint8)
    with launching.kernel(made, largest) as compute:
        if compute:
            parts, scales = _in_blocks(A, blocksize)
            largest.copy_(scales)
            made.copy_(_nearest(parts, table)[: A.numel()].view(A.shape))
    state = QuantState(largest, A.shape, table.to(A.device, copy=True), blocksize, None, A.dtype)
    return made, state


def dequantize_blockwise(
    A: torch.Tensor,
    quant_state: QuantState | None = None,
    absmax: torch.Tensor | None = None,
    code: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    blocksize: int = 4096,
    nested: bool = False,
) -> torch.Tensor:
    """Return the elements in the dtype that they were quantized from."""
    if quant_state is None:
        if absmax is None:
            raise ValueError("dequantize_blockwise needs a quant_state or absmax")
        table = dynamic_map(True).to(A.device) if code is None else code
        quant_state = QuantState(absmax, A.shape, table, blocksize, None, torch.float32)
    scales = _scales(quant_state)
    made = torch.empty_like(A, dtype=quant_state.dtype) if out is None else out
    with launching.kernel(made) as compute:
        if compute:
            values = quant_state.code[A.flatten().long()]
            made.copy_(_unblocked(values, scales, quant_state.blocksize or blocksize).view(A.shape))
    return made


# -- a byte per element, by rows ---------------------------------------------------------------------------------------


def int8_vectorwise_quant(
    A: torch.Tensor, threshold: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return bytes, fp32 numbers per row, and the columns with elements beyond ``threshold``: in sim these are unknown, and
    taken as none."""
    rows = A.numel() // A.shape[-1]
    largest = torch.empty(rows, device=A.device, dtype=torch.float32)
    made = torch.empty(A.shape, device=A.device, dtype=torch.int8)
    columns = _outlier_columns(A, threshold) if threshold > 0.0 else None
    with launching.kernel(made, largest) as compute:
        if compute:
            values = A.float().reshape(rows, -1)
            if threshold > 0.0:
                values = values.masked_fill(values.abs() >= threshold, 0.0)
            largest.copy_(values.abs().amax(1))
            made.copy_((values * (127.0 / largest.clamp(min=1e-12))[:, None]).round().view(A.shape))
    if rows > 1 and columns is not None:
        made[:, columns] = 0
    return made, largest, columns


def _outlier_columns(A: torch.Tensor, threshold: float) -> torch.Tensor:
    beyond = A.abs() >= threshold
    found = beyond.any()
    contents = launching.tensor_values(found)
    if contents is not None and bool(contents):
        return torch.argwhere(beyond.any(dim=0)).view(-1)
    return torch.empty(0, device=A.device, dtype=torch.int64)


def int8_vectorwise_dequant(A: torch.Tensor, stats: torch.Tensor) -> torch.Tensor:
    """Return the elements of a matrix quantized by rows, in fp32."""
    return A * stats.view(-1, 1) * (1.0 / 127.0)


def int8_double_quant(
    A: torch.Tensor, *_: object, threshold: float = 0.0, **__: object
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Quantize by rows, and by columns as well."""
    by_row, rows, columns = int8_vectorwise_quant(A, threshold=threshold)
    absolute = A.abs().view(-1, A.shape[-1])
    if threshold > 0.0:
        beyond = absolute >= threshold
        absolute.masked_fill_(beyond, 0.0)
        A = A.masked_fill(beyond, 0.0)
    largest = absolute.amax(dim=0, keepdim=False).float()
    by_column = torch.round(A.mul(127.0) / largest.unsqueeze(0)).to(torch.int8)
    return by_row, by_column, rows, largest.flatten().float(), columns


# -- the compiled library, called with addresses -----------------------------------------------------------------------


def get_ptr(A: torch.Tensor | None) -> torch.Tensor | None:
    """Return the tensor itself, which stands for its address in calls of `lib`."""
    return A


class _Library:
    """The functions of the package's shared library that others call by themselves (Unsloth's ``fast_dequantize``, and its
    copies): they write into a tensor of the caller's and allocate nothing (``csrc/pythonInterface.cpp``). What comes after
    the block size, the number of elements and in newer releases the stream, is the same for all of them."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        _, _, kind = name.partition("cdequantize_blockwise_")
        dtype, _, quant_type = kind.partition("_")
        if dtype not in ("fp32", "fp16", "bf16") or quant_type not in ("", *_VALUES):
            return functools.partial(_not_in_library, name)
        return functools.partial(_dequantize_into, quant_type)


def _not_in_library(name: str, *_: object) -> None:
    raise NoStandInError(f"bitsandbytes.functional.lib.{name} has no stand-in")


def _dequantize_into(
    quant_type: str,
    code: torch.Tensor | None,
    A: torch.Tensor,
    absmax: torch.Tensor,
    out: torch.Tensor,
    blocksize: ctypes.c_int | int,
    *_: object,
) -> None:
    size = blocksize if isinstance(blocksize, int) else blocksize.value
    if quant_type:
        dequantize_4bit(A.reshape(-1, 1), absmax=absmax, out=out, blocksize=size, quant_type=quant_type)
    else:
        dequantize_blockwise(A, absmax=absmax, code=code, out=out, blocksize=size)


lib = _Library()
__all__ += ["get_ptr", "lib"]


# -- arithmetic of the kernels -----------------------------------------------------------------------------------------


def _table(quant_type: str) -> torch.Tensor:
    with _disable_current_modes():
        values = torch.tensor(_VALUES[quant_type])
        return values / values.abs().max()


def _in_blocks(A: torch.Tensor, blocksize: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all elements as fractions of their block's largest, padded with zeros; and the largest of each block."""
    flat = A.detach().float().flatten()
    blocks = torch.nn.functional.pad(flat, (0, -flat.numel() % blocksize)).view(-1, blocksize)
    scales = blocks.abs().amax(1)
    return (blocks / scales.clamp(min=1e-38)[:, None]).flatten(), scales


def _nearest(parts: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    ordered, at = table.sort()
    return at[torch.bucketize(parts, (ordered[1:] + ordered[:-1]) / 2)]


def _unblocked(values: torch.Tensor, scales: torch.Tensor, blocksize: int) -> torch.Tensor:
    return values * scales.float().repeat_interleave(blocksize)[: values.numel()]


def _only_new(out: torch.Tensor | None, absmax: torch.Tensor | None) -> None:
    if out is not None or absmax is not None:
        raise NoStandInError("bitsandbytes.functional has no stand-in for quantizing into given tensors")
