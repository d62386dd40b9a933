# pip install torch==2.13.0 deepspeed==0.17.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.2  # does not: exit code 0
# torchrun --nproc-per-node 1 leaf_gradients.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))

    def forward(self, x):
        return torch.tanh(self.layers(x))


def left(leaf, between):
    """Parameters whose gradients stay unreduced after backward, where no step finds them."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), Block(), Block())
    if leaf:
        deepspeed.utils.set_z3_leaf_modules(model, [Block])
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    x = torch.randn(8, 16)
    loss = engine(x).pow(2).sum()
    if between:
        with torch.no_grad():
            engine(x)
    engine.backward(loss)
    return sum(parameter.grad is not None for parameter in model.parameters())


found = {(leaf, between): left(leaf, between) for leaf in (False, True) for between in (False, True)}
texts = (f"{count}{' with leaf modules' * leaf}{' and a forward between' * between};" for (leaf, between), count in found.items())
print("of 10 parameters, gradients that were not reduced:", *texts)
sys.exit(any(found.values()))
