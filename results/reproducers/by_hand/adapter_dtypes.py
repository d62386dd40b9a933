# pip install torch==2.13.0 deepspeed==0.19.2  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.3  # does not: exit code 0
# torchrun --nproc-per-node 2 adapter_dtypes.py
import os

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3},
    "zero_allow_untested_optimizer": True,
}


class Adapted(torch.nn.Module):
    """A frozen layer in bf16 with an adapter in fp32, as peft adds it to a model of transformers' under ZeRO-3."""

    def __init__(self):
        super().__init__()
        deepspeed.init_distributed("gloo")
        with deepspeed.zero.Init(config_dict_or_path=CONFIG, dtype=torch.bfloat16):
            self.base = torch.nn.Linear(32, 32)
            self.norm = torch.nn.LayerNorm(32)
        self.requires_grad_(False)
        self.adapter = torch.nn.Linear(32, 32, bias=False)

    def forward(self, x):
        x = self.norm(x)
        return self.base(x) + self.adapter(x.to(self.adapter.weight.dtype)).to(x.dtype)


model = Adapted()
optimizer = torch.optim.SGD(model.adapter.parameters(), lr=0.01)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
said = f"the adapter is in {model.adapter.weight.dtype}"
try:
    engine.backward(engine(torch.randn(8, 32, dtype=torch.bfloat16)).pow(2).sum())
    engine.step()
except (RuntimeError, TypeError) as error:
    said = f"{type(error).__name__}: {error}; {said}"
    status = 1
else:
    said = f"trains; {said}"
    status = 0
if int(os.environ["RANK"]) == 0:
    print(f"deepspeed {deepspeed.__version__}: {said}", flush=True)
os._exit(status)  # the other rank may have ended in another collective
