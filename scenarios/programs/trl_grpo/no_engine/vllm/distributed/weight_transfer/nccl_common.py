from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
from vllm.distributed.utils import StatelessProcessGroup


def trainer_init(init_info):
    return PyNcclCommunicator(StatelessProcessGroup.create(init_info["master_address"], init_info["master_port"], 0, 2))
