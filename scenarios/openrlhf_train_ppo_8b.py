"""OpenRLHF#858: OpenRLHF's `train_ppo` without Ray, all four 8B models in one process, on 4 cards of 48 GB.

Its command as it is, with the options of the report, but for 16 generated tokens in place of 1024, as transformers generates
them one by one. The report's message: A40 with 44.34 GiB, 10.19 MiB free, 43.69 GiB allocated by PyTorch, 20 MiB asked for.
The card here is an L40S, which has as much. There is no engine to share it: without Ray the actor itself generates.
"""

from dsregress.probe.program import program
from scenarios._openrlhf import FOLDER, PACKAGES

SCENARIO = program(
    version=1,
    summary="OpenRLHF's train_ppo: four 8B models on each of 4 ranks, ZeRO-2, optimizers on the host",
    folder=FOLDER,
    line="deepspeed --module openrlhf.cli.train_ppo --pretrain OpenRLHF/Llama-3-8b-sft-mixture"
    " --reward_pretrain OpenRLHF/Llama-3-8b-rm-mixture --save_path ./checkpoint --save_steps -1 --logging_steps 1"
    " --eval_steps -1 --micro_train_batch_size 1 --train_batch_size {train} --micro_rollout_batch_size 1"
    " --rollout_batch_size {train} --max_epochs 2 --prompt_max_len {prompt} --generate_max_len {answer}"
    " --zero_stage {stage} --bf16 --actor_learning_rate 5e-7 --critic_learning_rate 9e-6 --init_kl_coef 0.01"
    " --prompt_data OpenRLHF/prompt-collection-v0.1 --input_key context_messages --apply_chat_template --max_samples 100"
    " --normalize_reward --adam_offload {attention} --gradient_checkpointing",
    ranks=4,
    values={"stage": 2, "train": 4, "prompt": 1024, "answer": 16, "attention": "--flash_attn"},
    gpu="L40S",
    synthetic_data=True,
    packages=PACKAGES,
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "train": 2, "prompt": 48, "answer": 8}},
    remedies={"ZeRO-3": {"stage": 3}, "twice the GPUs": {"world_size": 8, "train": 8}},
)  # fmt: skip
