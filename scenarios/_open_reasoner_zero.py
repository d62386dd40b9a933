"""What Open-Reasoner-Zero's scenarios have in common."""

from pathlib import Path

#: Where it is to be cloned: it is in no package index, and pip installs none of its subpackages from git.
FOLDER = str(Path(__file__).parent / "programs" / "open_reasoner_zero")

#: What it imports.
PACKAGES = {
    "ray": "2.40.0", "loguru": "0.7.3", "omegaconf": "2.3.1", "tensorboard": "2.21.0", "hydra-core": "1.3.8",
    "tabulate": "0.10.0",
}  # fmt: skip
