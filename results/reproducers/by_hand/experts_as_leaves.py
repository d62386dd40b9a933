# pip install torch==2.13.0 transformers==4.57.6 deepspeed==0.17.6  # shows it: exit code 1
# pip install torch==2.13.0 transformers==4.57.6 deepspeed==0.18.0  # does not: exit code 0
# torchrun --nproc-per-node 2 experts_as_leaves.py
#
# A mixture of experts under ZeRO-3: how many collectives has a forward, as it is, with its blocks of experts as leaf modules, and
# without any leaf modules?
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from transformers import MixtralConfig, MixtralForCausalLM
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
SIZES = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
EXPERTS = {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 512}


def collectives(leaves):
    small = dict.fromkeys(("stage3_max_live_parameters", "stage3_max_reuse_distance"), 30_000)
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0, **small}
    if leaves == "without" and "leaf_module" in DeepSpeedZeroConfig.model_fields:
        zero["leaf_module"] = {"classes": []}
    model = MixtralForCausalLM(MixtralConfig(**SIZES, **EXPERTS))
    if leaves == "with":
        deepspeed.utils.set_z3_leaf_modules(model, [MixtralSparseMoeBlock])
    config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": zero}
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters()), config=config)
    for _ in range(2):
        ids = torch.randint(512, (2, 64))
        with torch.profiler.profile() as profile:
            loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()
    return sum(event.name.startswith("c10d::") for event in profile.events())


found = {leaves: collectives(leaves) for leaves in ("as it is", "with", "without")}
if torch.distributed.get_rank() == 0:
    print(f"collectives in forward: {found['as it is']}; {found['with']} with leaf modules, {found['without']} without")
sys.exit(found["as it is"] > found["with"])
