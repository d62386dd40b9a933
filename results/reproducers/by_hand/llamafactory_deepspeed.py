# pip install llamafactory==0.9.3 deepspeed==0.17.0 'pyarrow<26'  # shows the fault: exit code 1
# pip install llamafactory==0.9.5 deepspeed==0.17.0  # does not: exit code 0
# torchrun --nproc_per_node 1 llamafactory_deepspeed.py
#
# LLaMA-Factory reads settings of an SFT under DeepSpeed's ZeRO-2: does it take them with the DeepSpeed that is installed?
import json
import os
import sys
import tempfile

from llamafactory.hparams import get_train_args

with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "ds.json"), "w") as file:
        json.dump({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}, file)
    settings = {
        "model_name_or_path": "model",
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "lora",
        "dataset": "identity",
        "template": "qwen",
        "output_dir": folder,
        "deepspeed": file.name,
    }
    try:
        get_train_args(settings)
    except ImportError as error:
        print(f"ImportError: {str(error).splitlines()[0]}")
        sys.exit(1)
print("takes them")
