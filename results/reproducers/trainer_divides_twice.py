# pip install torch==2.13.0 transformers==4.48.3 accelerate==1.15.0 deepspeed==0.16.8  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==4.48.0 accelerate==1.15.0 deepspeed==0.16.8  # does not: exit code 0
# torchrun --nproc-per-node 1 trainer_divides_twice.py
import copy
import os
import sys

import torch
import transformers.training_args
from accelerate import state
from accelerate.utils import DistributedType
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
state.PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_CPU)  # else it looks for GPUs
transformers.training_args.is_torch_bf16_gpu_available = lambda: True  # so is a processor able to
CONFIG = {
    "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"},
    "gradient_clipping": "auto", "zero_optimization": {"stage": 0},
}
SHAPE = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": False,
    "max_position_embeddings": 2048, "rope_theta": 10000.0, "use_cache": False,
}
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPE))
samples = torch.randint(512, (4, 64))  # of one step of all ranks
plain = copy.deepcopy(model)
true_loss = plain(input_ids=samples, labels=samples).loss
true_loss.backward()
true_norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), float("inf"))
arguments = TrainingArguments(
    output_dir="trainer", deepspeed=CONFIG, per_device_train_batch_size=2, gradient_accumulation_steps=2,
    max_grad_norm=0.0, bf16=True, lr_scheduler_type="constant", max_steps=1, save_strategy="no", logging_steps=1,
    report_to=[], remove_unused_columns=False,
)
dataset = [{"input_ids": ids, "labels": ids} for ids in samples]
trainer = Trainer(model=model, args=arguments, train_dataset=dataset)
trainer.train()
norm, true_norm = float(trainer.accelerator.deepspeed_engine_wrapped.engine.get_global_grad_norm()), float(true_norm)
print(f"gradient norm {norm:.4f}, plain PyTorch {true_norm:.4f}, ratio {norm / true_norm:.3f}")
sys.exit(not abs(norm / true_norm - 1) < 0.02)
