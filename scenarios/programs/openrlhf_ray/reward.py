"""The reward that OpenRLHF's `--reward.remote_url reward.py` asks for: one that differs between answers."""

from importlib.metadata import version

import torch
from packaging.version import Version

#: 0.7 takes the rewards alone.
ALONE = Version(version("openrlhf")) < Version("0.8")


def reward_func(queries, prompts, labels):
    rewards = torch.tensor([float(sum(query.encode()) % 7) for query in queries])
    return rewards if ALONE else {"rewards": rewards}
