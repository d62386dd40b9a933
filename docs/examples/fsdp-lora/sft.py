import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from peft.utils.other import fsdp_auto_wrap_policy
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    name = "ibm-granite/granite-8b-code-base"
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    model = get_peft_model(
        model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    accelerator = Accelerator()
    accelerator.state.fsdp_plugin.auto_wrap_policy = fsdp_auto_wrap_policy(model)
    model = accelerator.prepare(model)
    optimizer = accelerator.prepare(torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4))
    model.train()
    for _ in range(4):
        batch = tokenizer(
            ["def f(x): return x " * 100] * 2,
            return_tensors="pt",
            max_length=512,
            truncation=True,
            padding="max_length",
        ).to(accelerator.device)
        loss = model(**batch, labels=batch["input_ids"]).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.print(torch.cuda.max_memory_allocated() / 2**30)


main()
