"""What is replaced in other packages while a rank runs on a processor is theirs again afterwards."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
deepspeed = pytest.importorskip("deepspeed")

from dsregress.probe.frameworks import deepspeed as raw  # noqa: E402
from dsregress.probe.frameworks import hf_trainer  # noqa: E402


@pytest.fixture(autouse=True)
def _on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepspeed.accelerator import cpu_accelerator, real_accelerator

    monkeypatch.setattr(real_accelerator, "ds_accelerator", cpu_accelerator.CPU_Accelerator())


def replaced() -> dict[str, Any]:
    import transformers.training_args
    from accelerate.state import PartialState
    from deepspeed.accelerator import get_accelerator
    from torch.distributed import distributed_c10d

    return {
        "torch": distributed_c10d.ProcessGroupGloo,
        "DeepSpeed": vars(type(get_accelerator()))["is_fp16_supported"],
        "accelerate": vars(PartialState)["_prepare_backend"],
        "transformers": transformers.training_args.is_torch_bf16_gpu_available,
    }


def test_every_function_is_replaced_inside_and_put_back_even_after_an_error() -> None:
    before, inside = replaced(), {}

    def fails() -> None:
        with hf_trainer.surroundings({"dtype": "fp16"}, "cpu"):
            inside.update(replaced())
            raise ValueError("in it")

    with pytest.raises(ValueError, match="^in it$"):
        fails()
    assert [name for name in before if inside[name] is before[name]] == []
    assert replaced() == before


def test_a_job_in_another_dtype_than_fp16_has_deepspeeds_own_answer() -> None:
    before = replaced()
    with raw.surroundings({"dtype": "bf16"}, "cpu"):
        assert replaced()["DeepSpeed"] is before["DeepSpeed"]
