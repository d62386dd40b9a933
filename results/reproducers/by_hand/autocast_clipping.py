# pip install torch==2.13.0 deepspeed==0.19.8  # shows it, in stages 1, 2 and 3: exit code 1
# pip install torch==2.13.0 deepspeed==0.17.1  # has no torch_autocast, and trains as plain PyTorch does: exit code 0
# torchrun --nproc-per-node 1 autocast_clipping.py
#
# torch_autocast in fp16 with gradient clipping: how far does a step of SGD with a rate of 1 move the weights? By the clipping's
# limit, as plain PyTorch does with torch.autocast and a GradScaler.
import copy
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")
LIMIT = 0.1


def moved(model, before):
    return float(
        torch.linalg.vector_norm(torch.cat([(p.detach() - b).flatten() for p, b in zip(model.parameters(), before)]))
    )


def plain(model, before):
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=1.0), torch.amp.GradScaler("cpu")
    with torch.autocast("cpu", torch.float16):
        loss = model(BATCH).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
    scaler.step(optimizer)
    return f"plain PyTorch moves {moved(model, before):.3g} (gradient norm {norm:.4g})"


def sharded(model, before, stage):
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {"stage": stage},
        "torch_autocast": {"enabled": True, "dtype": "float16"},
        "gradient_clipping": LIMIT,
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), config=config)
    try:
        engine.backward(engine(BATCH).float().pow(2).mean())
    except RuntimeError as error:
        return f"stage {stage} ends: {error}"
    engine.step()
    with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=stage == 3):
        return (
            f"stage {stage} moves {moved(model, before):.3g} (gradient norm {engine.get_global_grad_norm() or 0:.4g})"
        )


torch.manual_seed(0)
MODEL = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64))
BATCH, BEFORE = 4 * torch.randn(8, 64), [p.detach().clone() for p in MODEL.parameters()]
found = [plain(copy.deepcopy(MODEL), BEFORE), *(sharded(copy.deepcopy(MODEL), BEFORE, stage) for stage in (0, 1, 2, 3))]
print("; ".join(found))
sys.exit(sum(f"moves {LIMIT} " in one for one in found) < len(found))
