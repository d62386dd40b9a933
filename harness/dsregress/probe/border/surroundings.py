"""The environment variables of every measured process. The host reads them too."""

from __future__ import annotations

from collections.abc import Mapping

#: The folder of checkpoints that stand for those of known models (see `dsregress.programs.substitutes.local_weights`).
SKELETONS = "DSREGRESS_SKELETONS"

#: The folder in which plain PyTorch's training is kept (see `dsregress.probe.oracles.truth_store`); empty: it is not kept.
TRUTHS = "DSREGRESS_TRUTHS"

#: Set for every measured process: one thread (ranks share the cores, and sums must not depend on how many there are),
#: fixed hashing, no network.
ENVIRONMENT: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "GLOO_SOCKET_IFNAME": "lo",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}
