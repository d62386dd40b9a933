"""The model: which one, what it returns, and what of it is trained."""

from __future__ import annotations

from dsregress.probe.factor import IN_EVERY_SCRIPT, Factor, need

MODEL = Factor(
    name="model",
    title="the model",
    group="the model",
    place=120,
    named_at=0,
    values=("llama-tiny", "qwen2-tiny"),
    further=("llama-many", "mixtral-tiny"),
    words={
        "mixtral-tiny": "a mixture of experts",
        "llama-tiny": "untied weights",
        "qwen2-tiny": "tied weights and biases",
        "llama-many": "many small layers",
    },
    of_trainer=True,
    script=IN_EVERY_SCRIPT,
)

OUTPUTS = Factor(
    name="model_outputs",
    title="a model's outputs",
    group="the model",
    place=30,
    named_at=60,
    values=("loss", "all"),
    unnamed="all",
    known=("all", "loss"),
    words={"loss": "a model that returns one tensor", "all": "a model that returns several tensors"},
    in_truth=False,
    needs=(need("objective", "next_token", "two_runs", "two_backwards", by=("loss",)),),
    script=IN_EVERY_SCRIPT,
)

FROZEN = Factor(
    name="frozen",
    title="frozen parts",
    group="the model",
    place=130,
    named_at=70,
    values=("", "layers.0"),
    further=("embed_tokens",),
    words={"": "all parameters trained"},
    of_trainer=True,
    script=IN_EVERY_SCRIPT,
)
