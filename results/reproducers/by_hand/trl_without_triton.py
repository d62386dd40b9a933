# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.15.0 trl==1.15.0 datasets==5.2.0  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.15.0 trl==1.14.2 datasets==5.2.0  # does not: exit code 0
# with a torch for CPUs (--extra-index-url https://download.pytorch.org/whl/cpu), which brings no Triton
# python trl_without_triton.py
import sys

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

WORDS = {"<pad>": 0, "<eos>": 1, **{f"w{number}": number for number in range(2, 128)}}
tokens = Tokenizer(models.WordLevel(WORDS, unk_token="<pad>"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
arguments = GRPOConfig(
    "out",
    use_cpu=True,
    bf16=False,
    per_device_train_batch_size=2,
    num_generations=2,
    max_completion_length=4,
    max_steps=1,
    report_to="none",
    save_strategy="no",
)
trainer = GRPOTrainer(
    LlamaForCausalLM(LlamaConfig(vocab_size=128, eos_token_id=1, pad_token_id=0, **shape)),
    reward_funcs=lambda completions, **_: [float(len(one)) for one in completions],
    args=arguments,
    train_dataset=Dataset.from_dict({"prompt": ["w5 w6 w7 w8"] * 8}),
    processing_class=PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="<eos>", model_input_names=["input_ids", "attention_mask"]),
)
try:
    trainer.train()
except AttributeError as error:
    print(f"AttributeError: {error}")
    sys.exit(1)
print(f"trains {trainer.state.global_step} step")
