# pip install torch==2.13.0 transformers==4.57.6 peft==0.17.1  # shows the fault: exit code 1
# python head_token_indices.py
#
# Single rows of an output head that is not tied to the embeddings are trained beside LoRA adapters.
import sys

import peft
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
model = LlamaForCausalLM(LlamaConfig(tie_word_embeddings=False, **sizes))
config = LoraConfig(target_modules=["q_proj"], trainable_token_indices={"lm_head": [5, 6], "embed_tokens": [5, 6]})
try:
    ids = torch.arange(8)[None]
    get_peft_model(model, config)(input_ids=ids, labels=ids).loss.backward()
    said = "trains"
except AttributeError as error:
    said = f"{type(error).__name__}: {error}"
print(f"peft {peft.__version__}: {said}")
sys.exit(said != "trains")
