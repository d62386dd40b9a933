"""Further engines in the process of the one that trains."""

from __future__ import annotations

from dsregress.probe.factor import Factor, Fragment, switch

_BESIDE = """
{{ model_as("second_model") }}
{{ freeze("second_model.named_parameters()") }}
{{ engine_as("second", "second_model") }}
"""

_TRAINED_BESIDE = """
{% set trained %}
second.backward({{ loss("second", "step + 50") }})
second.step()
{% endset %}
{{ trained | within(of_each_micro_batch) }}
"""

SECOND = switch(
    "second_engine",
    "two engines in one process",
    group="the order of calls",
    place=580,
    named_at=430,
    off="one engine",
    in_truth=False,
    script=Fragment(
        at={"after_engine": _BESIDE, "before_batches": _TRAINED_BESIDE}, computes_losses=True, makes_models=True
    ),
)

_DESTROYED = """
{{ model_as("other") }}
{{ freeze("other.named_parameters()") }}
{{ engine_as("engine", "other") }}
engine.destroy()
del engine, other
"""

DESTROYED = switch(
    "destroyed_engine",
    "an engine that was destroyed before",
    group="the order of calls",
    place=590,
    named_at=440,
    in_truth=False,
    script=Fragment(at={"before_engine": _DESTROYED}, makes_models=True),
)

_REFERENCE_BEFORE = """
EVALUATING = {{ evaluating }}
{% if reference == "destroyed" %}
{{ model_as("other") }}
reference, *_ = deepspeed.initialize(model=other, config=EVALUATING)
reference.destroy()
del reference, other
{% endif %}
"""

_REFERENCE_BESIDE = """
{% if reference == "beside" %}
{{ model_as("reference_model") }}
reference, *_ = deepspeed.initialize(model=reference_model, config=EVALUATING)
reference.eval()
{% endif %}
"""

_REFERENCE_EVALUATES = """
{% if reference == "beside" %}
{{ without_gradients("reference") }}
{% endif %}
"""

REFERENCE = Factor(
    name="reference",
    title="engines without an optimizer",
    group="the order of calls",
    place=600,
    named_at=610,
    values=("",),
    further=("beside", "destroyed"),
    known=("", "beside", "destroyed"),
    words={
        "": "no engine without an optimizer",
        "beside": "an engine without an optimizer beside it",
        "destroyed": "an engine without an optimizer that was destroyed before",
    },
    in_truth=False,
    script=Fragment(
        at={
            "before_engine": _REFERENCE_BEFORE,
            "after_engine": _REFERENCE_BESIDE,
            "evaluation": _REFERENCE_EVALUATES,
        },
        computes_losses=True,
        makes_models=True,
    ),
)
