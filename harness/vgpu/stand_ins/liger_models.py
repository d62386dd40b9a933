"""``liger_kernel.transformers``: modules, and models of transformers that are made to use them.

As ``liger_kernel/transformers/monkey_patch.py`` does for Llama and the families built like it; other families that the
package knows are refused.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from vgpu.json_tables import decoded_texts, table_beside
from vgpu.no_stand_in import NoStandInError
from vgpu.stand_ins.liger_ops import (
    LigerFusedLinearCrossEntropyFunction,
    LigerRMSNormFunction,
    LigerRopeFunction,
    LigerSiLUMulFunction,
)

_MODELLED = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}

#: Families that the package has kernels for (``MODEL_TYPE_TO_APPLY_LIGER_FN``), and these stand-ins do not.
_OTHERS = decoded_texts(table_beside(__file__)["others"])


class LigerRMSNorm(torch.nn.Module):
    def __init__(
        self,
        hidden_size: int,
        eps: float = 1e-6,
        offset: float = 0.0,
        casting_mode: str = "llama",
        init_fn: str = "ones",
        in_place: bool = True,
        row_mode: bool | None = None,
    ) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size) if init_fn == "ones" else torch.zeros(hidden_size))
        self.variance_epsilon, self.offset, self.casting_mode, self.in_place = eps, offset, casting_mode, in_place

    def forward(self, hidden_states: torch.Tensor) -> Any:
        return LigerRMSNormFunction.apply(
            hidden_states, self.weight, self.variance_epsilon, self.offset, self.casting_mode, self.in_place
        )


class LigerSwiGLUMLP(torch.nn.Module):
    def __init__(self, config: Any, intermediate_size: int | None = None) -> None:
        super().__init__()
        self.config = config
        self.hidden_size = config.hidden_size
        self.intermediate_size = intermediate_size or config.intermediate_size
        self.gate_proj = torch.nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.up_proj = torch.nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.down_proj = torch.nn.Linear(self.intermediate_size, self.hidden_size, bias=False)
        if config.hidden_act not in ("silu", "swish"):
            raise ValueError(f"Activation function {config.hidden_act} not supported.")

    def forward(self, x: torch.Tensor) -> Any:
        return self.down_proj(LigerSiLUMulFunction.apply(self.gate_proj(x), self.up_proj(x)))


class LigerFusedLinearCrossEntropyLoss(torch.nn.Module):
    def __init__(
        self,
        ce_weight: Any = None,
        ignore_index: int = -100,
        lse_square_scale: float = 0.0,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        softcap: float | None = None,
        return_z_loss: bool = False,
        accum_dtype: Any = None,
    ) -> None:
        super().__init__()
        self._options = (ce_weight, ignore_index, lse_square_scale, label_smoothing, reduction, softcap, return_z_loss)
        self._accumulated_in = accum_dtype

    def forward(self, lin_weight: object, _input: object, target: object, bias: object = None) -> Any:
        return LigerFusedLinearCrossEntropyFunction.apply(
            _input, lin_weight, target, bias, *self._options, self._accumulated_in
        )


def liger_rotary_pos_emb(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: object = None,
    unsqueeze_dim: int = 1,
) -> object:
    return LigerRopeFunction.apply(q, k, cos, sin, position_ids, unsqueeze_dim)


def LigerForCausalLMLoss(
    hidden_states: Any,
    lm_head_weight: Any,
    labels: Any,
    hidden_size: int,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: Any = None,
    final_logit_softcapping: float | None = None,
    **kwargs: Any,
) -> object:
    """Return the loss of a causal language model from its hidden states: the mean over tokens, or the sum divided by
    ``num_items_in_batch``."""
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:].contiguous()
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = LigerFusedLinearCrossEntropyLoss(
        ignore_index=ignore_index,
        reduction=reduction,
        softcap=final_logit_softcapping,
        accum_dtype=kwargs.get("accum_dtype"),
    )(lm_head_weight, hidden_states.view(-1, hidden_size), shift_labels.view(-1).to(hidden_states.device))
    return loss if num_items_in_batch is None else loss / num_items_in_batch


def lce_forward(
    self: Any,
    input_ids: Any = None,
    attention_mask: Any = None,
    position_ids: Any = None,
    past_key_values: Any = None,
    inputs_embeds: Any = None,
    labels: Any = None,
    use_cache: Any = None,
    logits_to_keep: Any = 0,
    skip_logits: bool | None = None,
    **kwargs: Any,
) -> object:
    """Run a causal language model whose loss is computed from the hidden states; in training there are no logits."""
    from transformers.modeling_outputs import CausalLMOutputWithPast

    given = kwargs.pop("return_dict", None)
    shift_labels = kwargs.pop("shift_labels", None)
    outputs = self.model(
        input_ids=input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        use_cache=use_cache,
        **({} if given is None else {"return_dict": given}),
        **kwargs,
    )
    kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
    hidden_states = outputs[0][:, kept, :]
    has_labels = labels is not None or shift_labels is not None
    if skip_logits is None:
        skip_logits = self.training and has_labels
    logits = loss = None
    if skip_logits:
        loss = LigerForCausalLMLoss(
            hidden_states,
            getattr(self.lm_head, "weight"),  # noqa: B009 (of any module)
            labels,
            self.config.hidden_size,
            shift_labels=shift_labels,
            **kwargs,
        )
    else:
        logits = self.lm_head(hidden_states)
        if has_labels:
            loss = self.loss_function(
                logits=logits,
                labels=labels,
                vocab_size=self.config.vocab_size,
                **({} if shift_labels is None else {"shift_labels": shift_labels}),
                **kwargs,
            )
    if given is False:
        parts = (logits, *outputs[1:])
        return parts if loss is None else (loss, *parts)
    return CausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
    )


def _apply(
    family: str,
    rope: bool = True,
    cross_entropy: bool = False,
    fused_linear_cross_entropy: bool = True,
    rms_norm: bool = True,
    swiglu: bool = True,
    model: torch.nn.Module = None,
) -> None:
    if cross_entropy:
        raise NoStandInError("liger_kernel's cross_entropy=True has no stand-in", "use fused_linear_cross_entropy here")
    modeling: Any = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    prefix = _MODELLED[family]
    if rope:
        modeling.apply_rotary_pos_emb = liger_rotary_pos_emb
    if rms_norm:
        setattr(modeling, f"{prefix}RMSNorm", LigerRMSNorm)
    if swiglu:
        setattr(modeling, f"{prefix}MLP", LigerSwiGLUMLP)
    if fused_linear_cross_entropy:
        if model is None:
            getattr(modeling, f"{prefix}ForCausalLM").forward = lce_forward
        else:
            model.forward = types.MethodType(lce_forward, model)
    if model is not None:
        _patch(model, rms_norm, swiglu)


def _patch(model: torch.nn.Module, rms_norm: bool, swiglu: bool) -> None:
    """Patch the modules of an existing model."""
    for name, module in getattr(model, model.base_model_prefix, model).named_modules():
        last = name.rpartition(".")[2]
        if rms_norm and type(module).__name__.endswith("RMSNorm"):
            for attribute, value in (("offset", 0.0), ("casting_mode", "llama"), ("in_place", True)):
                module.__dict__[attribute] = value
            module.forward = types.MethodType(LigerRMSNorm.forward, module)
        if swiglu and last == "mlp":
            module.forward = types.MethodType(LigerSwiGLUMLP.forward, module)


def _applied_to(family: str) -> Callable[..., None]:
    apply = functools.partial(_apply, family)
    functools.update_wrapper(apply, _apply)
    return apply


apply_liger_kernel_to_llama = _applied_to("llama")
apply_liger_kernel_to_mistral = _applied_to("mistral")
apply_liger_kernel_to_qwen2 = _applied_to("qwen2")
apply_liger_kernel_to_qwen3 = _applied_to("qwen3")


def _apply_liger_kernel(model_type: str, **kwargs: Any) -> None:
    if model_type in _OTHERS:
        raise NoStandInError(
            f"liger_kernel's kernels for models of type {model_type} have no stand-in; those of {', '.join(_MODELLED)} have",
            "train without use_liger_kernel here",
        )
    if model_type in _MODELLED:
        known = inspect.signature(_apply).parameters
        _apply(model_type, **{name: value for name, value in kwargs.items() if name in known})


def _apply_liger_kernel_to_instance(model: object, **kwargs: object) -> None:
    _apply_liger_kernel(getattr(getattr(model, "config", None), "model_type", ""), model=model, **kwargs)


class AutoLigerKernelForCausalLM:
    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: object, *model_args: object, **kwargs: object) -> Any:
        """Load a model of transformers with the kernels applied to its family; their options are taken from ``kwargs``."""
        from transformers import AutoConfig, AutoModelForCausalLM

        known = set(inspect.signature(_apply).parameters) - {"family", "model"}
        mine = {name: kwargs.pop(name) for name in list(kwargs) if name in known}
        config = AutoConfig.from_pretrained(pretrained_model_name_or_path)
        _apply_liger_kernel(config.model_type, **mine)
        return AutoModelForCausalLM.from_pretrained(pretrained_model_name_or_path, *model_args, **kwargs)


__all__ = [
    "AutoLigerKernelForCausalLM",
    "LigerForCausalLMLoss",
    "LigerFusedLinearCrossEntropyLoss",
    "LigerRMSNorm",
    "LigerSwiGLUMLP",
    "_apply_liger_kernel",
    "_apply_liger_kernel_to_instance",
    "apply_liger_kernel_to_llama",
    "apply_liger_kernel_to_mistral",
    "apply_liger_kernel_to_qwen2",
    "apply_liger_kernel_to_qwen3",
    "lce_forward",
    "liger_rotary_pos_emb",
]
