# pip install llamafactory==0.9.3 'pyarrow<26'  # shows the fault: exit code 1
# python llamafactory_dpo_loss.py
#
# The forward of LLaMA-Factory's DPO on a tiny model: how many cross entropies does it compute, of which its loss takes none?
import sys
from importlib.metadata import version
from types import SimpleNamespace

import torch
from llamafactory.train.dpo.trainer import CustomDPOTrainer
from transformers import LlamaConfig, LlamaForCausalLM

counted = []
real = torch.nn.functional.cross_entropy
torch.nn.functional.cross_entropy = lambda logits, *given, **named: (counted.append(logits.dtype), real(logits, *given, **named))[1]
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}
model = LlamaForCausalLM(LlamaConfig(**SHAPE)).to(torch.bfloat16)
tokens = torch.arange(16).reshape(2, 8)
settings = SimpleNamespace(finetuning_args=SimpleNamespace(use_ref_model=True), loss_type="sigmoid", ld_alpha=None, label_pad_token_id=-100)
CustomDPOTrainer.concatenated_forward(settings, model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens})
print(f"llamafactory {version('llamafactory')}: {len(counted)} cross entropies in a forward of DPO{'' if not counted else f', in {counted[0]}'}")
sys.exit(bool(counted))
