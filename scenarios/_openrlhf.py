"""What OpenRLHF's scenarios have in common."""

from pathlib import Path

_PROGRAMS = Path(__file__).parent / "programs"

#: What runs in the reports' releases.
FOLDER = str(_PROGRAMS / "openrlhf")

#: Its commands for supervised training in every release from 0.5 on, and its PPO from 0.7.1 on.
RELEASES = str(_PROGRAMS / "openrlhf_releases")
RAY = str(_PROGRAMS / "openrlhf_ray")

#: OpenRLHF without what needs a GPU or a network. Left free, datasets would be one that today's pyarrow breaks.
PACKAGES = {
    "openrlhf": "0.5.9", "datasets": "5.0.1", "flash-attn": "", "bitsandbytes": "", "wandb": "", "tensorboard": "",
}  # fmt: skip
