"""What OpenRLHF's scenarios have in common."""

from pathlib import Path

_PROGRAMS = Path(__file__).parent / "programs"

#: The report's release; `_openrlhf.FOLDER` has what it runs.
FOLDER = str(_PROGRAMS / "openrlhf")

#: The programs that serve every release from 0.5 on.
RELEASES = str(_PROGRAMS / "openrlhf_releases")

#: OpenRLHF without what needs a GPU or a network. Left free, datasets would be one that today's pyarrow breaks.
PACKAGES = {
    "openrlhf": "0.5.9", "datasets": "5.0.1", "flash-attn": "", "bitsandbytes": "", "wandb": "", "tensorboard": "",
}  # fmt: skip
