"""QLoRA by TRL 0.7's SFTTrainer as its users wrote it in 2023: nothing is said of gradient checkpointing."""

import datasets
import peft
import torch
import transformers
import trl

MODEL = "meta-llama/Llama-2-7b-hf"

model = transformers.AutoModelForCausalLM.from_pretrained(
    MODEL,
    quantization_config=transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
    ),
)
tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
tokenizer.pad_token = tokenizer.eos_token
trainer = trl.SFTTrainer(
    model=model,
    tokenizer=tokenizer,
    train_dataset=datasets.load_dataset("timdettmers/openassistant-guanaco", split="train"),
    dataset_text_field="text",
    max_seq_length=1024,
    packing=True,
    peft_config=peft.LoraConfig(r=16, lora_alpha=32, task_type="CAUSAL_LM"),
    args=transformers.TrainingArguments("out", bf16=True, per_device_train_batch_size=4),
)
trainer.train()
