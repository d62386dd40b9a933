# pip install torch==2.13.0 deepspeed==0.18.3  # shows the fault: exit code 1
# torchrun --nproc-per-node 1 quarter_outputs.py
import contextlib
import copy
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
ACCUMULATION = 4
OUTPUTS = (
    *("loss", "logits, and the loss outside", "loss and another output", "loss and detached logits"),
    *("loss and logits", "loss and logits in a dictionary", "and one hidden state", "and three hidden states"),
)


class Model(torch.nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(4))
        self.side = torch.nn.Linear(16, 16)
        self.outputs = outputs

    def forward(self, x, y):
        hidden = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            hidden.append(x)
        side = self.side(y)
        loss = (x - y).pow(2).sum() + 0 * side.sum()
        of_tuples = {
            "loss": (loss,),
            "logits, and the loss outside": (x,),
            "loss and another output": (loss, side),
            "loss and detached logits": (loss, x.detach()),
            "loss and logits": (loss, x),
            "and one hidden state": (loss, x, hidden[1]),
            "and three hidden states": (loss, x, *hidden[:3]),
        }
        return of_tuples.get(self.outputs, {"loss": loss, "logits": x})


def loss_of(model, outputs, seed):
    torch.manual_seed(seed)
    x, y = torch.randn(8, 16), torch.randn(8, 16)
    found = model(x, y)
    if outputs.startswith("logits"):
        return (found[0] - y).pow(2).sum()
    return found["loss"] if isinstance(found, dict) else found[0]


def moved(model, before):
    pairs = zip(model.parameters(), before.parameters(), strict=True)
    return torch.cat([(mine.detach() - old.detach()).flatten() for mine, old in pairs])


def share(stage, outputs):
    """Of plain PyTorch's update."""
    torch.manual_seed(0)
    model = Model(outputs)
    plain, before = copy.deepcopy(model), copy.deepcopy(model)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.001)
    for seed in range(ACCUMULATION):
        (loss_of(plain, outputs, seed) / ACCUMULATION).backward()
    optimizer.step()
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": ACCUMULATION,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": 0.0,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for seed in range(ACCUMULATION):
        engine.backward(loss_of(engine, outputs, seed))
        engine.step()
    whole = deepspeed.zero.GatheredParameters(list(model.parameters())) if stage == 3 else contextlib.nullcontext()
    with whole:
        mine, true = moved(model, before), moved(plain, before)
    return (mine @ true / (true @ true)).item()


found = {stage: [share(stage, outputs) for outputs in OUTPUTS] for stage in (0, 1, 2, 3)}
for stage, shares in found.items():
    named = zip(OUTPUTS, shares, strict=True)
    print(f"stage {stage}, share of the update:", "; ".join(f"{name} {own:.2f}" for name, own in named))
sys.exit(any(abs(own - 1) > 0.01 for shares in found.values() for own in shares))
