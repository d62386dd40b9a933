# pip install torch==2.13.0 transformers==4.36.2 accelerate==0.25.0 peft==0.6.2 datasets==2.16.1 'numpy<2' 'pyarrow<20' trl==0.7.2  # shows it: exit code 1
# pip install torch==2.13.0 transformers==4.36.2 accelerate==0.25.0 peft==0.6.2 datasets==2.16.1 'numpy<2' 'pyarrow<20' trl==0.7.1  # does not: exit code 0
# python trl_quantized_checkpointing.py
#
# SFTTrainer with LoRA on a model with the mark of a quantized one, since its quantization needs a GPU: does it checkpoint activations?
import sys
from importlib.metadata import version

from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainingArguments
from trl import SFTTrainer

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}
model = LlamaForCausalLM(LlamaConfig(**SHAPE))
model.is_loaded_in_4bit = True
trainer = SFTTrainer(
    model,
    TrainingArguments("out", report_to="none", use_cpu=True),
    train_dataset=Dataset.from_dict({"text": ["a b a"] * 4}),
    dataset_text_field="text",
    max_seq_length=8,
    tokenizer=PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")), pad_token="a", eos_token="b"),
    peft_config=LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"),
)
checkpoints = trainer.model.is_gradient_checkpointing
print(f"trl {version('trl')}: activations are {'' if checkpoints else 'not '}checkpointed")
sys.exit(not checkpoints)
