"""OpenRLHF's `train_ppo_ray`, its newest classes too: the actor of Llama-3-8B, ZeRO-3 on 8 ranks, group_norm.

The command is OpenRLHF's, from 0.7.1 on, where a single controller drives all roles: its controller, experience maker,
actor, replay buffer, loss and the sending of weights. `programs/openrlhf_ray/no_cluster` is there in place of Ray, which
would start each actor as a process on a card of its own, and of vLLM, which needs a GPU: each rank is the process of one
actor, and an answer is as long as was allowed. `programs/openrlhf_ray/command.py` spells the options as the release does.

Not known in public, and chosen: no reference (a KL coefficient of 0), so that the card holds the actor alone, a reward
function, 4 prompts that fill 1024 tokens, and one optimizer step to a rollout.

``estimator`` gae has a critic as well: the same model with a value head, on the cards of the actor. Here one process is
both, so what one role holds is there while the other trains, unless ``--deepspeed_enable_sleep`` has them take turns.

OpenRLHF's engines have cards of their own unless ``--colocate_all_models`` puts everything onto the same ones, where each
takes its ``--vllm_gpu_memory_utilization`` of the card (0.95 unless given). It is a process of its own, so
``gpu_memory_utilization`` is the share that it keeps of this card: 0 where it is elsewhere, or asleep while the actor trains
(``--vllm_enable_sleep``).
"""

from dsregress.probe.program import program
from scenarios._openrlhf import PACKAGES, RAY

SCENARIO = program(
    version=1,
    summary="OpenRLHF's train_ppo_ray in any release from 0.7.1 on: the actor of Llama-3-8B on 8 ranks, ZeRO-3",
    folder=RAY,
    line="PYTHONPATH=no_cluster torchrun command.py --pretrain {pretrain} --actor_num_nodes 1"
    " --actor_num_gpus_per_node {actors} --vllm_num_engines 1 --remote_rm_url reward.py --init_kl_coef 0"
    " --critic_num_nodes 1 --critic_num_gpus_per_node {actors} --advantage_estimator {estimator}"
    " --n_samples_per_prompt 4 --rollout_batch_size 4 --micro_rollout_batch_size 1 --train_batch_size 16"
    " --micro_train_batch_size 1 --prompt_max_len {prompt} --generate_max_len {answer}"
    " --max_len {length} --prompt_data prompts.jsonl --input_key prompt --num_episodes 8 --zero_stage {stage} --bf16"
    " --flash_attn --packing_samples {checkpointing} {more} --save_path ./checkpoint",
    ranks=8,
    values={
        "pretrain": "OpenRLHF/Llama-3-8b-sft-mixture", "prompt": 1024, "answer": 1024, "length": 2048, "stage": 3,
        "actors": 8, "estimator": "group_norm",
        "checkpointing": "--gradient_checkpointing", "more": "", "gpu_memory_utilization": 0.0,
    },
    gpu="A100-80G",
    packages={**PACKAGES, "openrlhf": "0.11.2", "pillow": "13.0.0"},
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "actors": 2, "prompt": 24, "answer": 24, "length": 48}},
    variants=(
        {},
        {"gpu_memory_utilization": 0.5},
        {"gpu_memory_utilization": 0.95},
        {"estimator": "gae", "warmup_steps": 2},
        {"estimator": "gae", "more": "--deepspeed_enable_sleep", "warmup_steps": 2},
    ),
    remedies={
        "ZeRO-2": {"stage": 2},
        "the optimizer on the host": {"more": "--adam_offload"},
        "serve on other GPUs": {"gpu_memory_utilization": 0.0},
    },
)  # fmt: skip
