"""What a simulated job keeps on the host is counted, and costs no memory of this machine: every stage, pinned or not."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")

from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

GIB = 1 << 30

#: 1.07 billion parameters: 16 GiB of fp32 weights, gradients and states on the host.
OFFLOADED = """
import argparse, contextlib, deepspeed, torch
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
parser.add_argument("--stage", type=int)
parser.add_argument("--pin", action="store_true")
args = parser.parse_args()
on_host = {"device": "cpu", "pin_memory": args.pin}
zero = {"stage": args.stage, "offload_optimizer": on_host}
if args.stage == 3:
    zero["offload_param"] = on_host
config = {
    "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": zero, "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
}
model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192, bias=False) for _ in range(16)))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
while True:
    inputs = torch.ones(4, 8192, dtype=torch.bfloat16, device=engine.device)
    engine.backward(engine(inputs).mean())
    engine.step()
"""


def largest_process_bytes() -> int:
    """Of those that have ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


@pytest.mark.parametrize("pin", ["", " --pin"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_offloaded_job_is_counted_and_not_touched(folder: Path, stage: int, pin: str) -> None:
    (folder / "train.py").write_text(OFFLOADED)
    before = largest_process_bytes()
    record = passed(ran(folder, "sim", 1, f"deepspeed --num_gpus 1 train.py --stage {stage}{pin}"))
    assert record.ranks[0].phases["step"].host_peak_bytes > 12 * GIB
    assert largest_process_bytes() < max(before, 3 * GIB // 2)
