"""`python -m openrlhf.cli.train_ppo_ray` with its options as the installed release spells them.

Options are given as 0.7 has them, and the lengths as both generations count them: prompt and answer, or all and answer. What
is declared in the command's source decides; of an option below that it has in no spelling, nothing is passed on.
"""

import importlib.util
import runpy
import sys
from pathlib import Path

MODULE = "openrlhf.cli.train_ppo_ray"

#: An option of 0.7: its later spellings.
SPELLINGS = {
    "--pretrain": ("--actor.model_name_or_path",),
    "--actor_num_nodes": ("--actor.num_nodes",),
    "--actor_num_gpus_per_node": ("--actor.num_gpus_per_node",),
    "--critic_num_nodes": ("--critic.num_nodes",),
    "--critic_num_gpus_per_node": ("--critic.num_gpus_per_node",),
    "--ref_num_nodes": ("--ref.num_nodes",),
    "--ref_num_gpus_per_node": ("--ref.num_gpus_per_node",),
    "--colocate_all_models": ("--train.colocate_all",),
    "--vllm_num_engines": ("--vllm.num_engines",),
    "--remote_rm_url": ("--reward.remote_url",),
    "--init_kl_coef": ("--algo.kl.init_coef",),
    "--advantage_estimator": ("--algo.advantage.estimator",),
    "--n_samples_per_prompt": ("--rollout.n_samples_per_prompt",),
    "--rollout_batch_size": ("--rollout.batch_size",),
    "--micro_rollout_batch_size": ("--rollout.micro_batch_size",),
    "--train_batch_size": ("--train.batch_size",),
    "--micro_train_batch_size": ("--train.micro_batch_size",),
    "--prompt_max_len": (),
    "--generate_max_len": ("--max_new_tokens", "--rollout.max_new_tokens"),
    "--max_len": ("--data.max_len",),
    "--prompt_data": ("--data.prompt_dataset",),
    "--input_key": ("--data.input_key",),
    "--num_episodes": ("--train.num_episodes",),
    "--zero_stage": ("--ds.zero_stage",),
    "--bf16": ("--param_dtype bf16", "--ds.param_dtype bf16"),
    "--flash_attn": ("--attn_implementation flash_attention_2", "--ds.attn_implementation flash_attention_2"),
    "--packing_samples": ("--ds.packing_samples",),
    "--adam_offload": ("--ds.adam_offload",),
    "--deepspeed_enable_sleep": ("--ds.enable_sleep",),
    "--gradient_checkpointing": ("--actor.gradient_checkpointing_enable",),
    "--gradient_checkpointing_use_reentrant": ("--actor.gradient_checkpointing_reentrant",),
    "--save_path": ("--ckpt.output_dir",),
}


def spelled(words, source):
    left_out = False
    for word in words:
        if not word.startswith("--"):
            if not left_out:
                yield word
            continue
        known = (word, *SPELLINGS.get(word, ()))
        option = next((option for option in known if f'"{option.split()[0]}"' in source), None)
        left_out = option is None and word in SPELLINGS
        if not left_out:
            yield from (option or word).split(" ")


if __name__ == "__main__":
    source = Path(importlib.util.find_spec(MODULE).origin).read_text()
    sys.argv = [MODULE, *spelled(sys.argv[1:], source)]
    print(f"python -m {' '.join(sys.argv)}", flush=True)
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
