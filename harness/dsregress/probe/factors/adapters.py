"""LoRA by peft: adapters at linear layers, everything else frozen."""

from __future__ import annotations

from dsregress.probe.factor import Factor, Fragment, need

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
