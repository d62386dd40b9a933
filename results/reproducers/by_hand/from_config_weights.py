# pip install torch==2.13.0 deepspeed==0.18.9 transformers==4.57.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.9 transformers==4.51.3  # does not: exit code 0
# torchrun --nproc-per-node 1 from_config_weights.py
import math
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
from transformers import AutoModelForCausalLM, Qwen2Config
from transformers.integrations import HfDeepSpeedConfig

SHAPE = Qwen2Config(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=512,
    tie_word_embeddings=True,
)
CONFIG = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}


def begins_with(model):
    """The standard deviation of the embedding's initial values, and the loss of random tokens."""
    ids = torch.randint(SHAPE.vocab_size, (4, 128), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), deepspeed.zero.GatheredParameters(list(model.parameters())):
        return model.get_input_embeddings().weight.float().std().item(), model(input_ids=ids, labels=ids).loss.item()


def built():
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(SHAPE, torch_dtype=torch.bfloat16)


deepspeed.init_distributed(dist_backend="gloo")
found = {"plain": begins_with(built())}
with deepspeed.zero.Init(config_dict_or_path=CONFIG):
    model = built()
found["zero.Init"] = begins_with(model)
for_transformers = HfDeepSpeedConfig(CONFIG)  # as Trainer makes it
found["HfDeepSpeedConfig"] = begins_with(built())
print("; ".join(f"{name}: embedding's deviation {deviation:.3f}, loss {loss:.2f}" for name, (deviation, loss) in found.items()), f"; chance {math.log(SHAPE.vocab_size):.2f}")
sys.exit(any(deviation > 2 * SHAPE.initializer_range for deviation, _ in found.values()))
