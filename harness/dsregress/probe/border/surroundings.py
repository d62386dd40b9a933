"""The environment variables of every measured process. The host reads them too."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu.json_tables import decoded_text, table_beside

#: The folder of checkpoints that stand for those of known models (see `dsregress.programs.substitutes.local_weights`).
SKELETONS = "DSREGRESS_SKELETONS"

#: The folder in which plain PyTorch's training is kept (see `dsregress.probe.oracles.truth_store`); empty: it is not kept.
TRUTHS = "DSREGRESS_TRUTHS"

#: Set for every measured process: one thread (ranks share the cores, and sums must not depend on how many there are),
#: fixed hashing, no network.
ENVIRONMENT: Mapping[str, str] = {name: decoded_text(value) for name, value in table_beside(__file__).items()}
