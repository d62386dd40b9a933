# pip install torch==2.13.0 deepspeed==0.18.9 transformers==4.57.6 accelerate==1.10.1 peft==0.17.1 datasets==3.6.0 trl==0.17.0  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.9 transformers==4.57.6 accelerate==1.10.1 peft==0.17.1 datasets==3.6.0 trl==0.19.1  # does not: exit code 0
# torchrun --nproc-per-node 1 grpo_reference.py
#
# GRPO with LoRA under ZeRO-3, whose reference is the model without its adapters: is a second model loaded for it?
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")
import trl
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
LlamaForCausalLM(LlamaConfig(vocab_size=128, **SHAPE)).save_pretrained("saved")
arguments = trl.GRPOConfig(
    "out",
    beta=0.04,
    use_cpu=True,
    bf16=False,
    per_device_train_batch_size=2,
    num_generations=2,
    report_to="none",
    deepspeed={"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}},
)
trainer = trl.GRPOTrainer(
    "saved",
    reward_funcs=lambda completions, **_: [0.0] * len(completions),
    args=arguments,
    train_dataset=Dataset.from_dict({"prompt": ["a"] * 8}),
    processing_class=PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")), pad_token="a", eos_token="b"),
    peft_config=LoraConfig(target_modules=["q_proj"]),
)
print(f"trl {trl.__version__}: {'a second model is' if trainer.ref_model is not None else 'no other model is'} loaded as reference")
sys.exit(trainer.ref_model is not None)
