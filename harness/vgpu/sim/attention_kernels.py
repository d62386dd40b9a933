"""The kernel that a GPU runs for a call of scaled dot product attention, and why it is not flash attention.

By torch's own rules, in its order: each kernel that the program has not turned off takes the call, or has a reason not to
(`select_sdp_backend` in ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``, and the checks that it names). The math
kernel, which writes out the score matrix, takes every call. cuDNN's kernel, which torch prefers on H100 and B200 if cuDNN is
newer than 9.15, is not told apart from these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

#: `check_head_dim_size_flash`.
_FLASH_HEAD_SIZE = 256

#: The memory-efficient kernel takes fewer heads of keys than of queries: pytorch#191085, after 2.13.
_TAKES_GROUPS = torch.torch_version.TorchVersion(torch.__version__) >= (2, 14)

#: Numbers of `at::SDPBackend`.
_KERNELS = {0: "math", 1: "flash", 2: "efficient"}
_DEFAULT_ORDER = ("flash", "efficient", "math")

_HALF = (torch.float16, torch.bfloat16)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """The arguments of `torch.nn.functional.scaled_dot_product_attention`."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None = None
    dropout: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The queries, keys and values."""
        return self.query, self.key, self.value

    @property
    def needs_gradient(self) -> bool:
        """True if a backward may follow."""
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.tensors)

    @property
    def has_groups(self) -> bool:
        """True if several heads of queries share one of keys or values."""
        return not self.query.shape[-3] == self.key.shape[-3] == self.value.shape[-3]


@dataclasses.dataclass(frozen=True)
class Choice:
    """A kernel: ``flash``, ``efficient`` or ``math``, and why it is not flash attention."""

    kernel: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kernel}: {self.reason}" if self.reason else self.kernel


def kernel_on_gpu(call: Call, capability: tuple[int, int]) -> Choice:
    """Return the kernel for a call on a card of this compute capability. Raise RuntimeError if none is left on that takes
    it."""
    refusals = {"flash": _flash_refusal, "efficient": _efficient_refusal}
    for kernel in _allowed():
        if kernel == "math" or not refusals[kernel](call, capability):
            if kernel == "flash":
                return Choice(kernel)
            return Choice(kernel, _flash_refusal(call, capability) or "the program prefers it")
    raise RuntimeError("No available kernel. Aborting execution.")


def _allowed() -> Iterator[str]:
    """Yield the kernels that the program has not turned off, in its order."""
    cuda = torch.backends.cuda
    is_on = {
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
    }
    order = getattr(torch._C, "_get_sdp_priority_order", None)  # torch 2.6
    kernels = _DEFAULT_ORDER if order is None else [_KERNELS[number] for number in order() if number in _KERNELS]
    return (kernel for kernel in kernels if is_on[kernel])


def _flash_refusal(call: Call, capability: tuple[int, int]) -> str:
    """Return why flash attention does not take the call (`can_use_flash_attention`); empty if it does."""
    if not torch.backends.cuda.flash_sdp_enabled():
        return "the program turned flash attention off"
    if refusal := _shape_refusal(call):
        return refusal
    if call.mask is not None:
        return "a mask is passed"
    size = call.query.shape[-1]
    if not size == call.key.shape[-1] == call.value.shape[-1]:
        return "queries, keys and values differ in head size"
    if size > _FLASH_HEAD_SIZE:
        return f"the head size is {size}"
    if capability < (8, 0):
        return _of_card("flash attention", capability)
    # `check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120`
    has_little_shared_memory = (8, 6) <= capability <= (8, 9) or (12, 0) <= capability <= (12, 1)
    if call.needs_gradient and has_little_shared_memory and size > 192 and (size <= 224 or call.dropout > 0):
        return f"the head size is {size} on sm_{capability[0]}{capability[1]}"
    if call.is_causal and call.query.shape[-2] != call.key.shape[-2]:
        return "it is causal, with fewer queries than keys"
    if call.query.dtype not in _HALF:
        return _of_dtype(call)
    return "" if not call.has_groups or call.enable_gqa else "fewer heads of keys than of queries, without enable_gqa"


def _efficient_refusal(call: Call, capability: tuple[int, int]) -> str:
    """Return why the memory-efficient kernel does not take the call (`can_use_mem_efficient_attention`)."""
    if refusal := _shape_refusal(call):
        return refusal
    if call.query.shape[-1] != call.key.shape[-1]:
        return "queries and keys differ in head size"
    alignment = _alignment(call.query.dtype, capability)
    if call.query.shape[-1] % alignment or call.value.shape[-1] % alignment:
        return f"a head size is no multiple of {alignment}"
    if call.has_groups and not (_TAKES_GROUPS and call.enable_gqa):
        return "fewer heads of keys than of queries"
    if call.mask is not None and call.mask.stride(-1) != 1:
        return "the mask is not contiguous"
    if call.query.dtype == torch.bfloat16 and capability < (8, 0):
        return _of_card("a kernel for bfloat16", capability)
    return "" if call.query.dtype in (*_HALF, torch.float32) else _of_dtype(call)


def _shape_refusal(call: Call) -> str:
    """Return why no fused kernel takes tensors of these shapes (`check_tensor_shapes`,
    `check_batch_size_and_num_heads_dense`, `check_nonzero_sequence_lengths_dense` and
    `check_last_dim_stride_equals_1_dense` of ``sdp_utils_cpp.h``)."""
    if any(tensor.dim() != 4 for tensor in call.tensors):
        return f"the tensors have {call.query.dim()} dimensions"
    if len({tensor.shape[0] for tensor in call.tensors}) > 1:
        return "queries and keys differ in batch size"
    if not (call.query.shape[-2] and call.key.shape[-2]):
        return "a sequence is empty"
    if any(tensor.stride(-1) != 1 and tensor.shape[-1] != 1 for tensor in call.tensors):
        return "a head is not contiguous"
    return ""


def _alignment(dtype: torch.dtype, capability: tuple[int, int]) -> int:
    """Return what head sizes are multiples of (`minimum_gemm_alignment`)."""
    is_half = dtype in _HALF
    uses_tensor_cores = capability >= (8, 0) or (capability >= (7, 0) and is_half)
    least = 4 if capability >= (8, 0) else 1
    return max(least, 8 if is_half else 4) if uses_tensor_cores else least


def _of_card(what: str, capability: tuple[int, int]) -> str:
    return f"sm_{capability[0]}{capability[1]} has no {what}"


def _of_dtype(call: Call) -> str:
    return f"the tensors are {str(call.query.dtype).removeprefix('torch.')}"
