"""Checkpoints and exported weights."""

from __future__ import annotations

from collections.abc import Mapping

from dsregress.probe.factor import Configured, Factor, Fragment, need, switch

_SAVED_AND_LOADED = """
{% set made_universal %}
from deepspeed.checkpoint import ds_to_universal

folders = {"input_folder": "checkpoint/saved", "output_folder": "checkpoint/universal"}
workers = {"num_extract_workers": 1, "num_merge_workers": 1, "keep_temp_folder": False}
ds_to_universal.main(argparse.Namespace(**folders, **workers, strict=True, inject_missing_state=True))
{% endset %}
{% set trained_for_nothing %}
engine.backward({{ loss("engine", 50) }})
engine.step()
{% endset %}
if step == 0:
    engine.save_checkpoint("checkpoint"{{ ', tag="saved"' if universal }})
{% if universal %}
    torch.distributed.barrier()
    {{ made_universal | within(on_the_first_rank) | indent }}
    torch.distributed.barrier()
{% endif %}
{% if has_truth and not resume %}
    # which loading undoes:
    {{ trained_for_nothing | within(of_each_micro_batch) | indent }}
{% endif %}
{% if resume %}
{% if universal %}
    CONFIG["checkpoint"] = {"load_universal": True}  # of the job that goes on
{% endif %}
    {{ model_as("model") | indent }}
    {{ freeze("model.named_parameters()") | indent }}
    {{ engine_as("engine", "model") | indent }}
{% endif %}
    engine.load_checkpoint("checkpoint"{{ ', tag="universal"' if universal }})
"""

CHECKPOINT = switch(
    "checkpoint",
    "a checkpoint that is saved and loaded",
    group="files",
    place=490,
    named_at=340,
    in_truth=False,
    needs=(need("infinite_gradient_step", None),),
    script=Fragment(at={"end_of_step": _SAVED_AND_LOADED}),
)


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
