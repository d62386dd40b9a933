"""OpenRLHF#373, by OpenRLHF's own code: how PPO's actor is split over its GPUs, and what each way of splitting costs.

The question: does OpenRLHF split the actor over its GPUs, and what does a GPU hold under ZeRO-2 and ZeRO-3 as the actor gets
more of them? Not known in public, and chosen: Llama-3-8B (that of OpenRLHF's examples of the time), lengths of 1024 + 1024,
one sample to a micro-batch, the optimizer on the card. ``role=critic`` is the critic's step, in its own process as in the
Ray actors: the same model with a value head. See `openrlhf_ppo_70b` for what is OpenRLHF's and what is made up, and for
``gpu_memory_utilization``.
"""

from dsregress.probe.program import program
from scenarios._openrlhf import FOLDER, PACKAGES

#: Ranks, and batches with one micro-batch to a step and two steps to a rollout.
_SIZES = tuple({"world_size": ranks, "train": ranks, "rollout": ranks // 2} for ranks in (2, 4, 8, 16, 32))

SCENARIO = program(
    version=1,
    summary="OpenRLHF's PPO actor: Llama-3-8B under ZeRO 1-3 and hpz, 2 to 32 GPUs, accumulation 1 to 16",
    folder=FOLDER,
    line="torchrun ppo_role.py --role {role} --pretrain meta-llama/Meta-Llama-3-8B --zero_stage {stage} --zpg {zpg} --bf16"
    " {adam} {packed} --gradient_checkpointing --train_batch_size {train} --rollout_batch_size {rollout}"
    " --prompt_max_len {prompt} --generate_max_len {answer}",
    ranks=8,
    values={
        "role": "actor", "stage": 3, "zpg": 1, "adam": "", "packed": "--flash_attn --packing_samples", "train": 8,
        "rollout": 4, "prompt": 1024, "answer": 1024, "gpu_memory_utilization": 0.0,
    },
    gpu="A100-80G",
    packages=PACKAGES,
    devices={
        "sim": {},
        "cpu": {"tiny": True, "world_size": 2, "train": 4, "rollout": 1, "prompt": 24, "answer": 24},
    },
    variants=(
        {},
        {"gpu_memory_utilization": 0.5},
        {"role": "critic"},
        *({"stage": stage, **size} for stage in (1, 2, 3) for size in _SIZES),
        *({"stage": stage, "train": 8 * steps, "rollout": max(4, 2 * steps)} for stage in (1, 2, 3) for steps in (4, 16)),
        *({"zpg": zpg, **size} for zpg in (2, 8) for size in _SIZES[3:]),
    ),
    remedies={
        "ZeRO-1": {"stage": 1},
        "ZeRO-2": {"stage": 2},
        "ZeRO-3 within a node (hpz 8)": {"zpg": 8},
        "accumulation 16": {"train": 128, "rollout": 32},
        "offload the optimizer": {"adam": "--adam_offload"},
        "twice the GPUs": {"world_size": 16, "train": 16, "rollout": 8},
        "serve on other GPUs": {"gpu_memory_utilization": 0.0},
    },
)  # fmt: skip
