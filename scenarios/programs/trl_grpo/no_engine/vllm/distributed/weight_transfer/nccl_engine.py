"""The trainer's side up to vLLM 0.27."""

from dataclasses import dataclass
from typing import Any

from vllm.distributed.weight_transfer import nccl_common
from vllm.distributed.weight_transfer.packed_tensor import packed_nccl_broadcast_producer


@dataclass
class NCCLTrainerSendWeightsArgs:
    group: Any
    src: int = 0
    packed: bool = False


class NCCLWeightTransferEngine:
    trainer_init = staticmethod(nccl_common.trainer_init)

    @staticmethod
    def trainer_send_weights(iterator, trainer_args):
        if trainer_args.packed:
            packed_nccl_broadcast_producer(iterator, trainer_args.group, trainer_args.src, lambda item: item[1])
            return
        for _, weight in iterator:
            trainer_args.group.broadcast(weight, src=trainer_args.src)
