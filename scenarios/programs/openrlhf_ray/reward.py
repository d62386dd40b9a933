"""The reward that OpenRLHF's `--reward.remote_url reward.py` asks for: one that differs between answers."""

import torch


def reward_func(queries, prompts, labels):
    return {"rewards": torch.tensor([float(sum(query.encode()) % 7) for query in queries])}
