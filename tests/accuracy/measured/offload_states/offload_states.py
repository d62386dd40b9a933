"""Four square linear layers under ZeRO-3; after each step, everything that can be offloaded is, and comes back."""

import argparse

import deepspeed
import torch

LAYERS, WIDTH = 4, 32768

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-6}},
    "zero_optimization": {"stage": 3},
    "bf16": {"enabled": True},
}


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.loss = torch.nn.CrossEntropyLoss()

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return self.loss(x, y)


def before_offloading():
    return torch.cuda.memory_allocated()


def after_offloading():
    return torch.cuda.memory_allocated()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.parse_args()
    with deepspeed.zero.Init(config_dict_or_path=CONFIG):
        model = Stack()
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    inputs = torch.randn(10, WIDTH, dtype=torch.bfloat16, device=engine.device)
    labels = torch.randint(0, WIDTH, (10,), dtype=torch.long, device=engine.device)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=1)
    for batch in loader:
        loss = engine(batch[0], batch[1])
        engine.backward(loss)
        engine.step()
        before_offloading()
        engine.offload_states(include=None, pin_memory=True, non_blocking=True)
        after_offloading()
        engine.reload_states()


if __name__ == "__main__":
    main()
