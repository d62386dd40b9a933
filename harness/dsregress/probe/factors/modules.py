"""Hooks, leaf modules and compilation: changes to a model before it trains."""

from __future__ import annotations

from typing import Any

from dsregress.probe.factor import Fragment, Hooks, need, switch


def _layers_of(model: Any) -> Any:
    """Return the list of the model's layers, which transformers' language models have under this name, with adapters as
    well."""
    found = (module for name, module in model.named_modules() if name.rpartition(".")[2] == "layers")
    return next(found)


def _look_on(model: object, value: bool) -> None:
    """Add hooks to layers, as users do to log activations and gradients: they change nothing."""
    for layer in _layers_of(model):
        layer.register_forward_hook(lambda module, inputs, output: None)
        layer.register_full_backward_hook(lambda module, inputs, output: None)


def _make_leaves(model: object, value: bool) -> None:
    """Let each layer be fetched whole."""
    import deepspeed

    deepspeed.utils.set_z3_leaf_modules(model, [type(_layers_of(model)[0])])


LEAVES = switch(
    "leaf_modules",
    "layers as leaf modules",
    group="the model",
    place=460,
    named_at=740,
    off="no leaf modules",
    needs=(
        need("zero_stage", 3),
        need("lora_rank", 0),
        need("frozen", "", "layers.0"),
        need("model", "llama-tiny", "qwen2-tiny", "llama-many"),
    ),
    configured=True,
    hooks=Hooks(model_made=_make_leaves),
    script=Fragment(
        at={"model": "deepspeed.utils.set_z3_leaf_modules({{ name }}, [type({{ layers }}[0])])"}, needs_class=True
    ),
)

_HOOKED = """
for layer in {{ layers }}:
    layer.register_forward_hook(lambda module, inputs, output: None)
    layer.register_full_backward_hook(lambda module, inputs, output: None)
"""

HOOKS = switch(
    "module_hooks",
    "the user's hooks on layers",
    group="the model",
    place=690,
    named_at=480,
    in_truth=False,
    hooks=Hooks(model_made=_look_on),
    script=Fragment(at={"model": _HOOKED}),
)
