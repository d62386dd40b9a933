"""OpenRLHF#776 and #821, DeepSpeed#7116, by OpenRLHF's own code: PPO of Llama-3-70B, the actor on 4 nodes of 8 A800-80G.

The options are those of the report's `train_ppo_ray`. The reference model had four nodes of its own and vLLM one, so the
actor's cards hold the actor alone; what those send is made up by `programs/openrlhf/ppo_role.py`, and the model, its
configuration, optimizer, engine and training are OpenRLHF's. Each rollout is of 32 prompts, not of the report's 256: then
one optimizer step follows each rollout instead of eight, and the measured step has both.

``gpu_memory_utilization`` is the share that an engine beside the actor keeps: none here, 0.5 with
``--colocate_all_models --vllm_gpu_memory_utilization 0.5`` unless ``--vllm_enable_sleep`` puts it to sleep.
"""

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one
from scenarios._openrlhf import FOLDER, PACKAGES

SCENARIO = program(
    version=1,
    summary="OpenRLHF's PPO actor: Llama-3-70B on 32 ranks, ZeRO-3, optimizer on the host, packed samples of 2048 tokens",
    folder=FOLDER,
    line="torchrun ppo_role.py --pretrain meta-llama/Meta-Llama-3-70B --zero_stage {stage} --zpg {zpg} {bf16} {adam}"
    " {packed} {checkpointing} {reentrant} {more} --micro_train_batch_size {micro} --train_batch_size {train}"
    " --rollout_batch_size {rollout} --prompt_max_len {prompt} --generate_max_len {answer}",
    ranks=32,
    values={
        "stage": 3, "zpg": 1, "bf16": "--bf16", "adam": "--adam_offload", "packed": "--flash_attn --packing_samples",
        "checkpointing": "--gradient_checkpointing", "reentrant": "", "more": "", "micro": 1, "train": 128, "rollout": 32,
        "prompt": 1024, "answer": 1024, "gpu_memory_utilization": 0.0,
    },
    gpu="A800-80G",
    packages=PACKAGES,
    devices={
        "sim": {},
        "cpu": {"tiny": True, "world_size": 2, "train": 4, "rollout": 1, "prompt": 24, "answer": 24},
    },
    variants=(
        {},
        *one_by_one(
            train=(64,),
            reentrant=("--gradient_checkpointing_use_reentrant",),
            checkpointing=("",),
            adam=("",),
            bf16=("",),
            more=("--overlap_comm",),
            zpg=(8,),
            answer=(512,),
            gpu_memory_utilization=(0.5,),
        ),
    ),
    remedies={
        "reentrant checkpointing": {"reentrant": "--gradient_checkpointing_use_reentrant"},
        "twice the nodes": {"world_size": 64},
        "four times the nodes": {"world_size": 128, "rollout": 64},
        "a shorter answer (512)": {"answer": 512},
        "ZeRO-3 within a node (hpz 8)": {"zpg": 8},
        "half the batch of a step": {"train": 64},
        "no bf16": {"bf16": ""},
        "overlap communication": {"more": "--overlap_comm"},
        "serve on other GPUs": {"gpu_memory_utilization": 0.0},
    },
    pins={"pin DeepSpeed 0.15.0": {"deepspeed": "0.15.0"}, "pin DeepSpeed 0.16.8": {"deepspeed": "0.16.8"}},
)  # fmt: skip
