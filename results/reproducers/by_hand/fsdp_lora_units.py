# pip install torch==2.13.0 peft==0.21.2 accelerate==1.15.0 transformers==4.50.0  # shows the fault: exit code 1
# pip install torch==2.13.0 peft==0.21.2 accelerate==1.15.0 transformers==4.49.0  # does not: exit code 0
# torchrun --nproc-per-node 2 fsdp_lora_units.py
import sys

import torch
import transformers
from peft import LoraConfig, get_peft_model
from peft.utils.other import fsdp_auto_wrap_policy
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS = 8
torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=96, num_hidden_layers=LAYERS, **sizes))
model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
policy = fsdp_auto_wrap_policy(model)
model = FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=torch.device("cpu"))
units = [unit for unit in FullyShardedDataParallel.fsdp_modules(model) if unit._handle is not None]
whole = []


def count(*_):
    """The units whose gathered parameters are in memory."""
    gathered = (unit._handle.flat_param._full_param_padded.untyped_storage().size() for unit in units)
    whole.append(sum(size > 0 for size in gathered))


first = next(module for module in model.modules() if type(module).__name__ == "LlamaDecoderLayer")
first.mlp.down_proj.register_full_backward_pre_hook(count)
tokens = torch.randint(0, 96, (1, 16))
model(input_ids=tokens, labels=tokens).loss.backward()
if torch.distributed.get_rank() == 0:
    print(
        f"transformers {transformers.__version__}: when backward reaches the first of {LAYERS} layers, {whole[0]} of {len(units)} units are whole"
    )
torch.distributed.destroy_process_group()
sys.exit(whole[0] > LAYERS)
