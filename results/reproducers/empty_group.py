# pip install torch==2.13.0 transformers==4.57.6 peft==0.21.2 deepspeed==0.19.8  # shows the fault: exit code 1
# pip install torch==2.9.1 transformers==4.57.6 peft==0.21.2 deepspeed==0.19.8  # does not: exit code 0
# torchrun --nproc-per-node 1 empty_group.py
import os

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {"train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.0, "zero_optimization": {"stage": 0}}
SHAPE = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": False,
    "max_position_embeddings": 2048, "rope_theta": 10000.0, "use_cache": False,
}
model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPE))
model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
model.register_forward_hook(lambda module, inputs, output: output.loss)


def groups_of(model):
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    weights = [p for name, p in trained if name.endswith("weight")]
    others = [p for name, p in trained if not name.endswith("weight")]
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return groups


optimizer = torch.optim.AdamW(groups_of(model), lr=0.001)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, lr_scheduler=schedule, config=CONFIG)
for step in range(2):
    ids = torch.randint(512, (2, 64))
    loss = engine(input_ids=ids, labels=ids)
    engine.backward(loss)
    engine.step()
print("trains 2 steps")
