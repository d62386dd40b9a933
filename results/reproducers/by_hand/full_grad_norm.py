# pip install torch==2.13.0 deepspeed==0.19.8  # shows it: exit code 1
# torchrun --nproc-per-node 1 full_grad_norm.py
#
# ZeRO-3, and gradients that the user makes ten times as large before the step: which norm is reported, and does clipping to 0.1, with
# SGD and a rate of 1, move the weights by 0.1?
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch
from deepspeed import utils

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")


def moved(call, offload):
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "gradient_clipping": 0.1,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": 3, **({"offload_optimizer": {"device": "cpu"}} if offload else {})},
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    start = [utils.safe_get_full_fp32_param(p).clone() for p in model.parameters()]
    engine.backward(engine(torch.randn(8, 64)).pow(2).mean())
    for p in model.parameters():
        if call == "full":
            utils.safe_set_full_grad(p, 10 * utils.safe_get_full_grad(p))
        elif call == "local":
            utils.safe_set_local_grad(p, 10 * utils.safe_get_local_grad(p))
    engine.step()
    gaps = [utils.safe_get_full_fp32_param(p) - first for p, first in zip(model.parameters(), start)]
    return float(torch.cat([gap.flatten() for gap in gaps]).norm()), float(engine.get_global_grad_norm())


found = {(call, offload): moved(call, offload) for offload in (False, True) for call in ("none", "full", "local")}
names = {"none": "gradients left", "full": "by safe_set_full_grad", "local": "by safe_set_local_grad"}
print("; ".join(
    f"{'offloaded' if offload else 'not offloaded'}, {names[call]}: norm {norm:.4f}, moved by {gap:.3g}"
    for (call, offload), (gap, norm) in found.items()
))  # fmt: skip
sys.exit(not all(abs(gap - 0.1) < 0.001 for gap, _ in found.values()))
