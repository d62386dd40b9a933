# pip install torch==2.13.0 deepspeed==0.16.5  # shows it: exit code 1
# pip install torch==2.13.0 deepspeed==0.16.4  # does not: exit code 0
# torchrun --nproc-per-node 1 dropped_engine.py
#
# An engine that was destroyed, and that nothing of the program refers to: what becomes of the weights where the
# model is dropped as well, and of the optimizer's state where the model is kept?
import gc
import os
import sys
import weakref

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")


def trained(model, stage):
    optimizer = torch.optim.AdamW(model.parameters())
    config = {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": stage}}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    engine.backward(engine(torch.randn(8, 64)).pow(2).mean())
    engine.step()
    state = next(iter(optimizer.state.values()))["exp_avg"]
    engine.destroy()
    return weakref.ref(state)


def left(tensor):
    if tensor() is None:
        return "freed"
    gc.collect()
    return "freed by gc.collect()" if tensor() is None else "held"


gc.disable()
found = []
for stage in map(int, sys.argv[1:] or (0, 1, 2)):
    model = torch.nn.Linear(64, 64)
    state = trained(model, stage)
    found.append(f"stage {stage}: the model kept, the optimizer's state is {left(state)}")
    model = torch.nn.Linear(64, 64)
    weight = weakref.ref(model.weight)
    trained(model, stage)
    del model
    found.append(f"the model dropped, its weights are {left(weight)}")
print("; ".join(found))
sys.exit(any(one.endswith("held") for one in found))
