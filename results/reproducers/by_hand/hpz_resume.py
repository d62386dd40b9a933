# pip install torch==2.13.0 deepspeed==0.18.2  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.3  # does not: exit code 0
# torchrun --nproc-per-node 2 hpz_resume.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
torch.manual_seed(0)
BATCH, TARGET = torch.randn(8, 32), torch.randn(8, 32)


def new_engine(seed, partition):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(4)))
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {
            "stage": 3,
            "zero_hpz_partition_size": partition,
            "stage3_param_persistence_threshold": 0,
        },
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": 0.0,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    return engine


def loss_of(engine):
    return (engine(BATCH) - TARGET).pow(2).sum()


def losses(partition):
    """Of the next step: of the engine that saves a checkpoint, of a new one, and of that once it has loaded it."""
    engine = new_engine(0, partition)
    engine.backward(loss_of(engine))
    engine.step()
    engine.save_checkpoint(f"hpz{partition}", tag="saved")
    resumed = new_engine(1, partition)
    before = [parameter.ds_tensor.clone() for parameter in resumed.parameters()]
    resumed.load_checkpoint(f"hpz{partition}", tag="saved")
    assert not any(torch.equal(old, now.ds_tensor) for old, now in zip(before, resumed.parameters(), strict=True))
    return loss_of(engine).item(), loss_of(resumed).item(), loss_of(new_engine(1, partition)).item()


found = {partition: losses(partition) for partition in (1, 2)}
if os.environ["RANK"] == "0":
    texts = (f"hpZ partition of {size}: {was:.3f}, {now:.3f} ({new:.3f});" for size, (was, now, new) in found.items())
    print("loss of the engine that saved, of one that loaded (of one that did not);", *texts)
sys.exit(any(abs(now / was - 1) > 1e-4 for was, now, _ in found.values()))
