"""Exported weights."""

from __future__ import annotations

from collections.abc import Mapping

from dsregress.probe.factor import Configured, Factor, Fragment, need


def _gathered(value: str, job: Configured) -> Mapping[str, object]:
    if value != "16bit" or job.values["zero_stage"] != 3:
        return {}
    return {"zero_optimization": {"stage3_gather_16bit_weights_on_model_save": True}}


_EXPORTED = """
{% if exported == "zero_to_fp32" %}
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

engine.save_checkpoint("exported", tag="saved")
torch.distributed.barrier()
weights = get_fp32_state_dict_from_zero_checkpoint("exported", tag="saved")
{% else %}
engine.save_16bit_model("exported", "weights.bin")
torch.distributed.barrier()
weights = torch.load("exported/weights.bin")
{% endif %}
"""

EXPORTED = Factor(
    name="exported",
    title="weights exported by",
    group="files",
    place=720,
    named_at=510,
    alone="how weights are exported",
    values=("", "zero_to_fp32", "16bit"),
    known=("", "zero_to_fp32", "16bit"),
    words={
        "": "weights that are not exported",
        "zero_to_fp32": "weights read by zero_to_fp32",
        "16bit": "weights saved by save_16bit_model",
    },
    in_truth=False,
    needs=(need("zero_stage", 1, 2, 3, by=("zero_to_fp32",)),),
    configure=_gathered,
    script=Fragment(at={"after_training": _EXPORTED}),
)
