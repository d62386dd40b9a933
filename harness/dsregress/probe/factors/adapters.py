"""LoRA by peft: adapters at linear layers, everything else frozen."""

from __future__ import annotations

from dsregress.probe.factor import IN_EVERY_SCRIPT, Factor, Fragment, explored_switch, need

_WRAPPED = """
{% set kept = lora_modules_to_save.split() %}
{% set saved = ", modules_to_save=" ~ (kept | json) if kept else "" %}
{{ name }} = get_peft_model({{ name }}, LoraConfig(r={{ lora_rank }}, target_modules="all-linear"{{ saved }}))
"""

RANK = Factor(
    name="lora_rank",
    title="adapters of rank",
    group="the model",
    place=140,
    named_at=80,
    alone="adapters",
    values=(0, 8),
    words={0: "no adapters"},
    needs=(need("frozen", ""),),
    of_trainer=True,
    script=Fragment(at={"made": _WRAPPED}, package="peft", names=("LoraConfig", "get_peft_model")),
)

MODULES_TO_SAVE = Factor(
    name="lora_modules_to_save",
    title="adapters beside a trained",
    group="the model",
    place=150,
    named_at=90,
    alone="modules trained beside adapters",
    values=("",),
    further=("lm_head",),
    words={"": "adapters alone"},
    needs=(need("lora_rank", 8), need("model", "llama-tiny")),
    script=IN_EVERY_SCRIPT,
)

AUTOCAST = explored_switch(
    "lora_autocast",
    "adapters in fp32",
    group="the model",
    place=160,
    named_at=100,
    off="adapters in the model's dtype",
    needs=(need("lora_rank", 8), need("dtype", "bf16", "fp16")),
    script=IN_EVERY_SCRIPT,  # which have peft's default
)
