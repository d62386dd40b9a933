"""Files that a DeepSpeed engine writes: checkpoints, universal ones, and weights for other programs to read. Collective."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from dsregress.probe.process import meeting


def shared_folder(name: str) -> str:
    """Return the folder in which all ranks of a job write files together. Raise RuntimeError if the ranks span machines."""
    if meeting.spans_machines():
        raise RuntimeError("a checkpoint needs a folder that all ranks share, and these ranks span machines")
    return os.path.join(os.path.dirname(os.environ["DSREGRESS_RENDEZVOUS"].removeprefix("file://")), name)


def universal(folder: str, tag: str, rank: int) -> str:
    """Convert a checkpoint, as a user does between two jobs of different sizes. Return the tag of the universal one."""
    import torch.distributed as dist
    from deepspeed.checkpoint import ds_to_universal

    made = f"{tag}_universal"
    dist.barrier()
    if rank == 0:
        ds_to_universal.main(
            argparse.Namespace(
                input_folder=os.path.join(folder, tag),
                output_folder=os.path.join(folder, made),
                num_extract_workers=1,
                num_merge_workers=1,
                keep_temp_folder=False,
                strict=True,
                inject_missing_state=True,
            )
        )
    dist.barrier()
    return made


def exported_parameters(engine: Any, kind: str, folder: str) -> Mapping[str, object]:
    """Return the trained weights as other programs read them: ``zero_to_fp32`` of a checkpoint, or those of a file in 16
    bits. Raise ValueError for another kind."""
    import torch
    import torch.distributed as dist

    if kind == "zero_to_fp32":
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        engine.save_checkpoint(folder, tag="saved")
        dist.barrier()
        found = get_fp32_state_dict_from_zero_checkpoint(folder, tag="saved")
    elif kind == "16bit":
        engine.save_16bit_model(folder, "weights.bin")
        dist.barrier()
        found = torch.load(os.path.join(folder, "weights.bin"), map_location="cpu", weights_only=True)
    else:
        raise ValueError(f"no such kind of file: {kind} (known: 16bit, zero_to_fp32)")
    return {name: values.detach().clone() for name, values in found.items()}
