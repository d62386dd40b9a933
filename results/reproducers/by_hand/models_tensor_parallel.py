# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.15.0  # shows the fault: exit code 1
# torchrun --nproc-per-node 2 models_tensor_parallel.py
#
# Gradients under `tp_plan="auto"` beside the whole model's, after one backward and after two, for models of several kinds.
import sys

import torch
import torch.distributed as dist
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

dist.init_process_group("gloo")
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 64, "pad_token_id": 0}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
dtype = "torch_dtype" if transformers.__version__ < "4.56" else "dtype"
wrong = 0
for kind in ("llama", "mistral", "qwen2", "phi3", "glm4", "olmo2", "qwen3", "gemma3_text", "qwen3_moe"):
    torch.manual_seed(0)
    if dist.get_rank() == 0:
        AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **heads)).save_pretrained(f"small-{kind}")
    dist.barrier()
    whole, parts = (
        AutoModelForCausalLM.from_pretrained(f"small-{kind}", **plan, **{dtype: torch.float32}).train()
        for plan in ({}, {"tp_plan": "auto"})
    )
    true = dict(whole.named_parameters())
    for seed in (1, 2):
        ids = torch.randint(64, (2, 16), generator=torch.Generator().manual_seed(seed))
        for model in (whole, parts):
            model(input_ids=ids, labels=ids).loss.backward()
        errors = {}
        for name, parameter in parts.named_parameters():
            own = parameter.grad.full_tensor() if hasattr(parameter.grad, "full_tensor") else parameter.grad
            if own.shape == true[name].shape:  # a rank's part of a weight is no tensor of the whole's shape
                errors[name.rpartition("layers.0.")[2]] = float((own - true[name].grad).norm() / true[name].grad.norm())
        worst = max(errors, key=errors.get)
        if dist.get_rank() == 0:
            print(f"transformers {transformers.__version__}: {kind}, backward {seed}: off by {errors[worst]:.3f} at most, {worst}")
        wrong += errors[worst] > 1e-3
sys.exit(wrong > 0)
