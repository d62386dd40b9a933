# pip install torch==2.13.0 transformers==4.57.6 peft==0.21.2 deepspeed==0.18.9  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==4.57.6 peft==0.21.2 deepspeed==0.19.8  # does not: exit code 0
# torchrun --nproc-per-node 1 frozen_recomputed.py
import os

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.0,
    "zero_optimization": {
        "stage": 3, "reduce_bucket_size": 4096, "stage3_param_persistence_threshold": 0,
        "stage3_max_live_parameters": 30000, "stage3_max_reuse_distance": 30000,
    },
}
SHAPE = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": False,
    "max_position_embeddings": 2048, "rope_theta": 10000.0, "use_cache": False,
}
model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPE))
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
model.register_forward_hook(lambda module, inputs, output: output.loss)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.001)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
for step in range(2):
    ids = torch.randint(512, (2, 64))
    loss = engine(input_ids=ids, labels=ids)
    engine.backward(loss)
    engine.step()
print("trains 2 steps")
