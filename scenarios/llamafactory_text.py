"""LLaMA-Factory on text alone: SFT and DPO of Qwen2.5-7B, full and LoRA, ZeRO-3, by one line that every release can run.

Each rank is started by ``torchrun``, as ``llamafactory-cli`` starts them from 0.8.0 on; that of 0.7.1, the first on PyPI,
has one process. From 0.9.3 on the command also sets the allocator's ``expandable_segments``, and this line does not.
``unchecked`` is as in `scenarios/llamafactory_qwen2_vl_dpo.py`, whose settings, data and card are these.
"""

import os

from dsregress.probe.program import program

_LORA = {"finetuning": "lora"}
_SFT = {"stage": "sft", "dataset": "text_answers"}

SCENARIO = program(
    version=1,
    summary="LLaMA-Factory, full DPO of Qwen2.5-7B, ZeRO-3, fp16, 8 ranks, cutoff_len 4096",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "llamafactory"),
    line="DISABLE_VERSION_CHECK={unchecked} torchrun --nproc_per_node 8 train.py "
    "--model_name_or_path Qwen/Qwen2.5-7B-Instruct --stage {stage} --do_train true --finetuning_type {finetuning} "
    "--deepspeed ds_z3_config.json "
    "--dataset_dir data --dataset {dataset} --template qwen --cutoff_len {cutoff_len} "
    "--output_dir saves --logging_steps 1 --save_steps {save_steps} "
    "--per_device_train_batch_size 1 --gradient_accumulation_steps {accumulation} --learning_rate 5e-6 "
    "--lr_scheduler_type cosine --warmup_ratio 0.1 --num_train_epochs 30 --{precision} true",
    values={
        "dataset": "text_pairs", "stage": "dpo", "finetuning": "full", "cutoff_len": 4096, "accumulation": 1,
        "precision": "fp16", "save_steps": 500, "unchecked": 0,
    },
    gpu="V100-32G",
    packages={
        "llamafactory": "0.9.2", "trl": "0.9.6", "datasets": "3.2.0", "pyarrow": "19.0.1", "numpy": "1.26.4",
    },
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "precision": "bf16", "cutoff_len": 512}},
    variants=({}, _LORA, _SFT, {**_SFT, **_LORA}),
    remedies={"accumulation 8": {"accumulation": 8}, "saving every step": {"save_steps": 1}, "LoRA": _LORA},
)  # fmt: skip
