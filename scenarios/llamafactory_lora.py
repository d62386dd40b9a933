"""LLaMA-Factory's newest release on the configured stack: SFT and DPO of Qwen2.5-7B on text, LoRA and full, ZeRO-3.

Its metadata names older releases of accelerate and peft than the stack's. ``DISABLE_VERSION_CHECK`` is what it offers to
those who have newer ones. LoRA ends as LlamaFactory#10144 reports (see `scenarios/trainer_lora.py`); with a ``scheduler``
in the DeepSpeed configuration the same job trains. The report's own job and versions are `llamafactory_qwen2_vl_dpo`.
"""

import os

from dsregress.probe.program import program

_FULL = {"finetuning": "full"}
_DPO = {"stage": "dpo", "dataset": "text_pairs"}
_DEEPSPEED_SCHEDULE = {"settings": "ds_z3_scheduler.json"}

SCENARIO = program(
    version=1,
    summary="LLaMA-Factory 0.9.5, LoRA of Qwen2.5-7B by SFT, ZeRO-3, bf16, 8 ranks, cutoff_len 4096",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "llamafactory"),
    line="DISABLE_VERSION_CHECK=1 llamafactory-cli train "
    "--model_name_or_path Qwen/Qwen2.5-7B-Instruct --stage {stage} --do_train true --finetuning_type {finetuning} "
    "--deepspeed {settings} --dataset_dir data --dataset {dataset} --template qwen --cutoff_len {cutoff_len} "
    "--output_dir saves --logging_steps 1 "
    "--per_device_train_batch_size 1 --gradient_accumulation_steps {accumulation} --learning_rate 1e-4 "
    "--lr_scheduler_type cosine --warmup_ratio 0.1 --num_train_epochs 30 --bf16 true",
    values={
        "dataset": "text_answers", "stage": "sft", "finetuning": "lora", "cutoff_len": 4096, "accumulation": 1,
        "settings": "ds_z3_config.json",
    },
    ranks=8,
    gpu="A800-80G",
    packages={"llamafactory": "0.9.5", "trl": "0.24.0", "datasets": "4.0.0"},
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "cutoff_len": 512}},
    variants=(
        {}, _DEEPSPEED_SCHEDULE, _FULL, _DPO, {**_DPO, **_DEEPSPEED_SCHEDULE}, {**_DPO, **_FULL},
    ),
)  # fmt: skip
