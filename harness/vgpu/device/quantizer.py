"""DeepSpeed's quantizer, by which ZeRO++ sends weights in 8 bits and gradients in 4, as its extension ``quantizer``.

Sizes and formulas: ``csrc/quantization/pt_binding.cpp``, ``swizzled_quantize.cu``, ``quant_reduce.cu`` and
``csrc/includes/quantization_utils.h``. The kernels read any tensor as fp16, and so does this: bf16 values come back as the
release returns them. Each tensor of groups has an fp32 scale per group; asymmetric ones also have an offset.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from vgpu.device.launching import kernel
from vgpu.no_stand_in import NoStandInError, StandIn

SYMMETRIC, ASYMMETRIC = "Symmetric", "Asymmetric"

#: Result of a kernel: quantized values, and scales of shape (groups, 1 or 2).
_Quantized = tuple[torch.Tensor, torch.Tensor]


def extension() -> Any:
    """Return a stand-in for the result of ``QuantizerBuilder().load()``, without fake quantization, which is for training
    with fewer bits."""
    return StandIn(
        "DeepSpeed's quantizer",
        Symmetric=SYMMETRIC,
        Asymmetric=ASYMMETRIC,
        QuantizationType=types.SimpleNamespace(Symmetric=SYMMETRIC, Asymmetric=ASYMMETRIC),
        quantize=_quantize,
        dequantize=lambda *given: _dequantize(torch.float16, *given),
        dequantize_fp32=lambda *given: _dequantize(torch.float32, *given),
        swizzle_quant=_swizzle_quant,
        quantized_reduction=_quantized_reduction,
        loco_swizzle_quant=_loco_swizzle_quant,
        loco_quantized_reduction=_loco_quantized_reduction,
    )


def _quantize(values: torch.Tensor, groups: int, bits: int, kind: str) -> _Quantized:
    *outer, last = values.shape
    quantized, scales = _empty([*outer, last * bits // 8], groups, kind, values)
    with kernel(quantized, scales) as compute:
        if compute:
            _store(quantized, scales, _halves(values).view(groups, -1), bits, kind)
    return quantized, scales


def _dequantize(
    dtype: torch.dtype, quantized: torch.Tensor, scales: torch.Tensor, groups: int, bits: int, kind: str
) -> torch.Tensor:
    *outer, last = quantized.shape
    values = torch.empty([*outer, last * 8 // bits], dtype=dtype, device=quantized.device)
    with kernel(values) as compute:
        if compute:
            values.view(groups, -1).copy_(_dequantized_values(quantized, scales, groups, bits, kind))
    return values


def _swizzle_quant(
    values: torch.Tensor, groups: int, bits: int, kind: str, pipelines: int, nodes: int, devices_per_node: int
) -> _Quantized:
    """Quantize ``values``; groups leave in the order in which ranks exchange them: by pipeline, device and node."""
    quantized, scales = _empty([values.numel() * bits // 8], groups, kind, values)
    with kernel(quantized, scales) as compute:
        if compute:
            by_place = _halves(values).view(nodes, devices_per_node, pipelines, -1, values.numel() // groups)
            _store(quantized, scales, by_place.permute(2, 1, 0, 3, 4).reshape(groups, -1), bits, kind)
    return quantized, scales


def _quantized_reduction(
    quantized: torch.Tensor, scales: torch.Tensor, groups: int, out_groups: int, bits: int, kind: str, devices: int
) -> _Quantized:
    """Return the sum of the values that ``devices`` ranks sent, quantized again."""
    *outer, last = quantized.shape
    reduced, reduced_scales = _empty([*outer, last // devices], out_groups, kind, quantized)
    with kernel(reduced, reduced_scales) as compute:
        if compute:
            total = _dequantized_values(quantized, scales, groups, bits, kind).half().view(devices, -1).sum(0)
            _store(reduced, reduced_scales, total.view(out_groups, -1), bits, kind)
    return reduced, reduced_scales


def _loco_swizzle_quant(
    values: torch.Tensor, error: torch.Tensor, beta: float, groups: int, bits: int, kind: str, *places: int
) -> _Quantized:
    _only_simulated(error)
    return _swizzle_quant(values, groups, bits, kind, *places)


def _loco_quantized_reduction(
    quantized: torch.Tensor, scales: torch.Tensor, error: torch.Tensor, beta: float, *rest: Any
) -> _Quantized:
    _only_simulated(error)
    return _quantized_reduction(quantized, scales, *rest)


def _only_simulated(error: torch.Tensor) -> None:
    """Write LoCo's errors in place, which takes no memory. Raise NoStandInError on real ranks."""
    with kernel(error, launches=0) as compute:
        if compute:
            raise NoStandInError("ZeRO++ with LoCo has no stand-in on cpu ranks", "run it in sim")


def _empty(shape: list[int], groups: int, kind: str, beside: torch.Tensor) -> _Quantized:
    scales = torch.empty((groups, 2 if kind == ASYMMETRIC else 1), dtype=torch.float32, device=beside.device)
    return torch.empty(shape, dtype=torch.int8, device=beside.device), scales


def _halves(values: torch.Tensor) -> torch.Tensor:
    """Return the bytes as fp16 numbers, as many as there are elements."""
    return values.contiguous().view(-1).view(torch.float16)[: values.numel()]


def _store(quantized: torch.Tensor, scales: torch.Tensor, values: torch.Tensor, bits: int, kind: str) -> None:
    given = values.float()
    if kind == ASYMMETRIC:
        most, least = given.amax(1), given.amin(1)
        span, offset = most - least, (most + least) / 2
        scales[:, 1] = offset
        given = given - offset[:, None]
    else:
        span = 2 * given.abs().amax(1)
    step = torch.where(span == 0, torch.ones_like(span), span / (1 << bits))
    scales[:, 0] = step
    limit = 1 << (bits - 1)
    codes = (given / step[:, None]).round().clamp(-limit, limit - 1).to(torch.int8).view(-1)
    if bits == 4:
        codes = (codes[0::2] & 15) | (codes[1::2] << 4)
    quantized.view(-1).copy_(codes)


def _dequantized_values(
    quantized: torch.Tensor, scales: torch.Tensor, groups: int, bits: int, kind: str
) -> torch.Tensor:
    """Return dequantized fp32 values of shape (groups, elements of a group)."""
    codes = quantized.contiguous().view(-1)
    if bits == 4:
        codes = torch.stack(((codes << 4) >> 4, codes >> 4), dim=1)
    step = scales.reshape(groups, -1)
    values = codes.view(groups, -1).float() * step[:, :1]
    return values + step[:, 1:] if kind == ASYMMETRIC else values
