# pip install torch==2.13.0 deepspeed==0.17.5  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.3  # does not: exit code 0
# torchrun --nproc-per-node 2 hpz_stale_weights.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
RANK = int(os.environ["RANK"])
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "zero_allow_untested_optimizer": True, "gradient_clipping": 0.0,
    "zero_optimization": {
        "stage": 3, "reduce_bucket_size": 4096, "zero_hpz_partition_size": 2,
        "stage3_param_persistence_threshold": 0, "stage3_max_live_parameters": 30000,
        "stage3_max_reuse_distance": 30000,
    },
}


def loss_of(model, step, rank):
    torch.manual_seed(1000 * step + 100 * rank)
    return (model(torch.randn(8, 128)) - torch.randn(8, 128)).pow(2).sum()


torch.manual_seed(0)
plain = torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(128, 128), torch.nn.Tanh())))
with deepspeed.zero.Init(config_dict_or_path=CONFIG):
    model = torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(128, 128), torch.nn.Tanh())))
for sharded, whole in zip(model.parameters(), plain.parameters()):
    with deepspeed.zero.GatheredParameters(sharded, modifier_rank=0), torch.no_grad():
        sharded.copy_(whole)
true_losses = []
optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
for step in range(2):  # plain PyTorch, all ranks' batches in one process
    optimizer.zero_grad()
    for rank in range(2):
        loss = loss_of(plain, step, rank)
        (loss / 2).backward()
        true_losses += [loss.item()] if rank == RANK else []
    optimizer.step()
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), config=CONFIG)
losses = []
for step in range(2):
    loss = loss_of(engine, step, RANK)
    engine.backward(loss)
    losses.append(loss.item())
    engine.step()
loss, true_loss = max(zip(losses, true_losses), key=lambda pair: (pair[0] != pair[0], abs(pair[0] - pair[1])))
if RANK == 0:
    print(f"loss {loss:.4f}, plain PyTorch {true_loss:.4f}, ratio {loss / true_loss:.3f}")
sys.exit(not abs(loss / true_loss - 1) < 0.001)
