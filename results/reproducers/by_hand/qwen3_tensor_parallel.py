# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.15.0  # shows the fault: exit code 1
# torchrun --nproc-per-node 2 qwen3_tensor_parallel.py
#
# Gradients of Qwen3's `q_norm` and `k_norm` under `tp_plan="auto"` beside the whole model's, after one backward and after two.
import sys

import torch
import torch.distributed as dist
import transformers
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

dist.init_process_group("gloo")
torch.manual_seed(0)
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 64}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
if dist.get_rank() == 0:
    Qwen3ForCausalLM(Qwen3Config(**sizes, **heads)).save_pretrained("small-qwen3")
dist.barrier()
whole = AutoModelForCausalLM.from_pretrained("small-qwen3", dtype=torch.float32).train()
parts = AutoModelForCausalLM.from_pretrained("small-qwen3", tp_plan="auto", dtype=torch.float32).train()
found = []
for seed in (1, 2):
    ids = torch.randint(64, (2, 16), generator=torch.Generator().manual_seed(seed))
    for model in (whole, parts):
        model(input_ids=ids, labels=ids).loss.backward()
    for name in ("q_norm", "k_norm"):
        own, true = (getattr(m.model.layers[0].self_attn, name).weight.grad for m in (parts, whole))
        own = own.full_tensor() if hasattr(own, "full_tensor") else own
        found.append((f"{name} after {seed}", float(own.norm() / true.norm())))
if dist.get_rank() == 0:
    print(f"transformers {transformers.__version__}: of the whole model's gradient norm: {', '.join(f'{name}: {ratio:.3f}' for name, ratio in found)}")
sys.exit(any(abs(ratio - 1) > 1e-3 for _, ratio in found))
