# pip install openrlhf==0.7.1  # shows the fault: exit code 1
# pip install openrlhf==0.8.0  # does not: exit code 0
# without vllm, which is an extra of OpenRLHF's
# python openrlhf_without_vllm.py
import importlib
import multiprocessing
import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from unittest.mock import MagicMock

for name in ("flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed"):
    sys.modules[name] = MagicMock(__spec__=ModuleSpec(name, None))  # imported there, and built for GPUs alone: nothing of it runs


def imported(name):
    """Import a command of OpenRLHF's; return how that ends."""
    try:
        importlib.import_module(f"openrlhf.cli.{name}")
    except ModuleNotFoundError as error:
        return str(error)
    return "imports"


NAMES = ("train_sft", "train_dpo")
with multiprocessing.Pool(1, maxtasksperchild=1) as pool:  # a process for each, as for the commands
    ends = pool.map(imported, NAMES, chunksize=1)
print(f"openrlhf {version('openrlhf')}:", "; ".join(f"{name}: {end}" for name, end in zip(NAMES, ends)))
sys.exit(any("vllm" in end for end in ends))
