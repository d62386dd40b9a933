# pip install torch==2.13.0 deepspeed==0.15.4 transformers==4.57.6 accelerate==1.15.0 peft==0.21.2  # shows it: exit code 1
# pip install torch==2.13.0 deepspeed==0.15.3 transformers==4.57.6 accelerate==1.15.0 peft==0.21.2  # does not: exit code 0
# torchrun --nproc-per-node 2 trainer_evaluation.py; with --full all parameters train
#
# LoRA by transformers' Trainer under ZeRO-3, evaluated after each step: how much of the model is still gathered?
import os
import sys
import tempfile

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch
from accelerate import state
from accelerate.utils import DistributedType
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
state.PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_CPU)  # else it looks for GPUs
ZERO = {"stage": 3, "stage3_param_persistence_threshold": 0}
SCHEDULE = {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}  # one of torch's ends by peft's empty group
ZERO3 = {"zero_optimization": ZERO, "train_micro_batch_size_per_gpu": "auto", "scheduler": SCHEDULE}
SHAPE = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 512}
gathered = {}


class Gathered(TrainerCallback):
    def count(self, when, model):
        parameters = list(model.parameters())
        whole = sum(p.ds_numel for p in parameters if p.numel() == p.ds_numel)
        gathered[when] = whole / sum(p.ds_numel for p in parameters)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.count("the step", model)

    def on_evaluate(self, args, state, control, model=None, **kwargs):
        self.count("the evaluation", model)


torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(**SHAPE))
if "--full" not in sys.argv:
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=8))
rows = [{"input_ids": torch.arange(32), "labels": torch.arange(32)}] * 8
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=2,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        eval_strategy="steps",
        eval_steps=1,
        max_grad_norm=0.0,
        report_to="none",
        save_strategy="no",
        deepspeed=ZERO3,
    )
    Trainer(model, arguments, train_dataset=rows, eval_dataset=rows, callbacks=[Gathered()]).train()
if os.environ["RANK"] == "0":
    print("of the model is gathered: " + ", ".join(f"{share:.1%} after {when}" for when, share in gathered.items()))
sys.exit(gathered["the evaluation"] > gathered["the step"] + 0.1)
