# pip install torch==2.13.0 transformers==4.57.6 accelerate==1.15.0 datasets==5.0.1 trl==0.26.0  # shows it: exit code 1
# pip install torch==2.13.0 transformers==4.57.6 accelerate==1.15.0 datasets==5.0.1 trl==0.25.1  # does not: exit code 0
# python trl_prompt_length.py
#
# GRPOTrainer with `max_prompt_length=16` on prompts of 72 tokens, of which it generates 8 more: how long are the rows that it trains on?
import sys
import tempfile

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

PROMPT, COMPLETION = 16, 8
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
}
words = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, **{f"w{one}": one for one in range(2, 64)}}, unk_token="w2"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words,
    pad_token="<pad>",
    eos_token="<eos>",
    padding_side="left",
    model_input_names=["input_ids", "attention_mask"],
)
lengths = []


class Watched(Qwen2ForCausalLM):
    def forward(self, input_ids=None, **others):
        if torch.is_grad_enabled() and input_ids is not None:
            lengths.append(input_ids.shape[1])
        return super().forward(input_ids=input_ids, **others)


torch.manual_seed(0)
arguments = GRPOConfig(
    tempfile.mkdtemp(),
    max_prompt_length=PROMPT,
    max_completion_length=COMPLETION,
    num_generations=2,
    per_device_train_batch_size=2,
    max_steps=1,
    report_to="none",
    save_strategy="no",
    use_cpu=True,
    bf16=False,
)
rows = Dataset.from_dict({"prompt": [" ".join(f"w{2 + one % 60}" for one in range(72))] * 4})
model = Watched(Qwen2Config(**SIZES))
GRPOTrainer(model, lambda completions, **_: [1.0] * len(completions), arguments, rows, processing_class=tokenizer).train()
print(f"trl {trl.__version__}: rows of {max(lengths)} tokens, where at most {PROMPT + COMPLETION} are allowed")
sys.exit(max(lengths) > PROMPT + COMPLETION)
