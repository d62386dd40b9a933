# pip install torch==2.13.0 deepspeed==0.18.9 accelerate==1.15.0 transformers==5.24.0  # shows it: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8 accelerate==1.15.0 transformers==4.57.6  # does not: exit code 0
# torchrun --nproc-per-node 1 mapped_checkpoint.py
#
# A checkpoint of several files is loaded under ZeRO-3: how much of it is in mapped pages of rank 0 at once?
import os
import re
import sys
import tempfile

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch
import transformers
from transformers.integrations import HfDeepSpeedConfig

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")
SHAPE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 256}
load_one_module = torch.nn.Module._load_from_state_dict
seen = []


def mapped_bytes(folder):
    """Return the bytes of mapped pages, in memory, of files in a folder."""
    with open("/proc/self/smaps") as mappings:
        return sum(int(kib) for kib in re.findall(rf" {folder}/.*\n(?:.*\n)*?Rss: +(\d+) kB", mappings.read())) * 1024


def watched(module, *arguments):
    load_one_module(module, *arguments)
    seen.append(mapped_bytes(folder))


with tempfile.TemporaryDirectory() as folder:
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)).save_pretrained(folder, max_shard_size="3MB")
    sizes = [one.stat().st_size for one in os.scandir(folder) if one.name.endswith(".safetensors")]
    kept = HfDeepSpeedConfig({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}})
    torch.nn.Module._load_from_state_dict = watched
    transformers.AutoModelForCausalLM.from_pretrained(folder)
if torch.distributed.get_rank() == 0:
    print(f"transformers {transformers.__version__}: at most {max(seen) / sum(sizes):.0%} of the {len(sizes)} files of a checkpoint in mapped pages at once")
sys.exit(torch.distributed.get_rank() == 0 and max(seen) > sum(sizes) / 2)
