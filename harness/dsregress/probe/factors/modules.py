"""Hooks, leaf modules and compilation: changes to a model before it trains."""

from __future__ import annotations

from dsregress.probe.factor import Factor, Fragment, need, switch

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
    script=Fragment(at={"model": _HOOKED}),
)

COMPILE = Factor(
    name="compile_backend",
    title="torch.compile with backend",
    group="the model",
    place=470,
    named_at=320,
    alone="torch.compile",
    values=("none",),
    further=("eager",),
    words={"none": "no torch.compile"},
    configured=True,
    script=Fragment(at={"engine": "{{ name }}.compile(backend={{ compile_backend | literal }})"}),
)
