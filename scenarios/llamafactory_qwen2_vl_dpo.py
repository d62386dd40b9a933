"""LLaMA-Factory by its own command, as reported: full DPO of Qwen2-VL-7B-Instruct on 8 V100-32G (LlamaFactory#6800).

Reported: ``ds_z3_config.json``, fp16, batch 1, cutoff_len 4096, vision tower frozen; out of memory in forward, in
``cross_entropy`` ("Tried to allocate 4.64 GiB", 31.74 total, 1.41 free, 23.51 allocated, 5.51 reserved but unallocated).
The same model and data train as SFT on a single card. The job as a file of settings is ``dpo.yaml`` in
``programs/llamafactory``; the line below is that file's, option by option.

Not known in public, and chosen: the data (one picture of 324 tokens, and answers that fill cutoff_len), accumulation 1,
and whether the SFT that trained was LoRA. ``unchecked`` sets DISABLE_VERSION_CHECK: without it LLaMA-Factory refuses
releases that its metadata does not name, such as DeepSpeed after 0.16.4 (0.9.2) or 0.16.9 (0.9.3 and 0.9.4).
"""

import os

from dsregress.probe.program import program

_LORA = {"finetuning": "lora"}
_SFT = {"stage": "sft", "dataset": "image_answers"}
_TEXT = {"base_model": "Qwen2.5-7B-Instruct", "template": "qwen", "dataset": "text_pairs"}
_TEXT_SFT = {**_TEXT, "stage": "sft", "dataset": "text_answers"}
_OFFLOAD = {"zero": "ds_z3_offload_config.json"}
_SEGMENTS = {"segments": "True"}
_NON_REENTRANT = {"arguments": "--use_reentrant_gc=false"}
_ONE_CARD = {**_SFT, "world_size": 1}

SCENARIO = program(
    version=1,
    summary="LLaMA-Factory, full DPO of Qwen2-VL-7B with its vision tower frozen, ZeRO-3, fp16, 8 ranks, cutoff_len 4096",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "llamafactory"),
    line="FORCE_TORCHRUN=1 DISABLE_VERSION_CHECK={unchecked} "  # or it starts no rank on one card, and takes no DeepSpeed
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:{segments} llamafactory-cli train "
    "--model_name_or_path Qwen/{base_model} --stage {stage} --do_train true --finetuning_type {finetuning} "
    "--deepspeed '{zero}' "
    "--dataset_dir data --dataset {dataset} --template {template} --cutoff_len {cutoff_len} "
    "--output_dir saves --overwrite_output_dir true --logging_steps 1 --save_steps {save_steps} "
    "--per_device_train_batch_size 1 --gradient_accumulation_steps {accumulation} --learning_rate 5e-6 "
    "--lr_scheduler_type cosine --warmup_ratio 0.1 --num_train_epochs 30 --{precision} true",
    values={
        "base_model": "Qwen2-VL-7B-Instruct", "template": "qwen2_vl", "dataset": "image_pairs",
        "stage": "dpo", "finetuning": "full", "zero": "ds_z3_config.json", "cutoff_len": 4096, "accumulation": 1,
        "precision": "fp16", "save_steps": 500, "segments": "False", "unchecked": 0,
    },
    ranks=8,
    gpu="V100-32G",
    # pyarrow from 20 on wants NumPy 2, which LLaMA-Factory's metadata excludes up to 0.9.3
    packages={
        "llamafactory": "0.9.2", "trl": "0.9.6", "datasets": "3.2.0", "pyarrow": "19.0.1", "numpy": "1.26.4",
    },
    # DeepSpeed refuses fp16 on most CPUs, and transformers bf16 on a V100
    devices={
        "sim": {},
        "cpu": {"tiny": True, "world_size": 2, "gpu": "A100-80G", "precision": "bf16", "cutoff_len": 2048},
    },
    variants=(
        {}, _LORA, _SFT, {**_SFT, **_LORA},
        {**_LORA, **_NON_REENTRANT}, {**_SFT, **_LORA, **_NON_REENTRANT},
        _TEXT, {**_TEXT, **_LORA}, _TEXT_SFT, {**_TEXT_SFT, **_LORA},
        {**_TEXT, **_LORA, **_NON_REENTRANT}, {**_TEXT_SFT, **_LORA, **_NON_REENTRANT},
        _ONE_CARD, {**_ONE_CARD, **_OFFLOAD}, {**_ONE_CARD, **_LORA}, {**_ONE_CARD, **_LORA, "zero": ""},
    ),
    remedies={
        "bf16 over fp16": {"precision": "bf16"},
        "cutoff_len 2048": {"cutoff_len": 2048},
        "expandable segments": _SEGMENTS,
        "cutoff_len 2048 and expandable segments": {"cutoff_len": 2048, **_SEGMENTS},
        "torch.compile": {"arguments": "--torch_compile=true"},
        "accumulation 8": {"accumulation": 8},
        "ZeRO-2 in place of ZeRO-3": {"zero": "ds_z2_config.json"},
        "offload parameters and optimizer": _OFFLOAD,
        "saving every step": {"save_steps": 1},
        "LoRA": _LORA,
        "LoRA and cutoff_len 2048": {**_LORA, "cutoff_len": 2048},
    },
)  # fmt: skip
