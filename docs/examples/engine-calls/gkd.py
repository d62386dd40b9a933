from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GKDConfig, GKDTrainer

ROWS = [
    [{"role": "user", "content": f"What is {n} and {n}?"}, {"role": "assistant", "content": f"It is {2 * n}."}]
    for n in range(64)
]
NAME = "Qwen/Qwen2.5-0.5B-Instruct"

if __name__ == "__main__":
    args = GKDConfig(
        output_dir="out",
        deepspeed="zero3.json",
        bf16=True,
        lmbda=1.0,
        max_new_tokens=8,
        per_device_train_batch_size=1,
        max_steps=20,
        logging_steps=1,
        report_to=[],
    )
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    trainer = GKDTrainer(
        model=AutoModelForCausalLM.from_pretrained(NAME),
        teacher_model=AutoModelForCausalLM.from_pretrained(NAME),
        args=args,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"messages": ROWS}),
    )
    trainer.train()
