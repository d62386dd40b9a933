"""Open-Reasoner-Zero's own `playground/orz_1p5b_ppo.py`, its trainer and all its roles, in one process for each GPU.

    git clone https://github.com/Open-Reasoner-Zero/Open-Reasoner-Zero
    PYTHONPATH=no_engine:../openrlhf_ray/no_cluster torchrun --nproc_per_node 4 train.py exp.adam_offload=true

Its driver starts a process for each role on every GPU, by Ray. Here `no_cluster` is there in place of Ray: each rank is the
driver, and of each role the actor of its own rank, so what a GPU's roles have on it is one sum. `no_engine` is there in place
of vLLM. After each call of an actor of its own it prints what the process has on its GPU.

Settings are those of the playground, with what Open-Reasoner-Zero#24 changed; its own ``exp.NAME=VALUE`` sets another one.
"""

import argparse
import errno
import functools
import json
import os
import runpy
import sys

import one_process
import ray
from deepspeed.runtime.utils import see_memory_usage

ROLES = ("policy", "critic", "ref")

#: What an actor does in a call of the trainer's.
TURNS = {
    "init_model_from_pretrained": "loaded",
    "offload_to_cpu": "offloaded",
    "backload_to_gpu": "reloaded",
    "forward": "scored",
    "ppo_train": "trained",
    "_broadcast_to_vllm_cudaipc": "synchronized",
    "save_model": "saved",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orz", default="Open-Reasoner-Zero", help="folder of a checkout of Open-Reasoner-Zero")
    parser.add_argument("--prompt", type=int, default=1024, help="tokens")
    parser.add_argument("--answer", type=int, default=1024, help="tokens")
    parser.add_argument("--samples", type=int, default=2, help="for each rank and iteration")
    parser.add_argument("--iterations", type=int, default=8)
    return parser.parse_known_args()


def settings(args, ranks):
    groups = {f"{role}_num_nodes": ranks for role in ("actor", "critic", "ref")}
    return {
        **groups,
        "vllm_num_engines": ranks,
        "rollout_batch_size": ranks * args.samples,
        "train_batch_size": ranks * args.samples,
        "micro_rollout_batch_size": 2,
        "n_samples_per_prompt": 1,
        "prompt_max_len": args.prompt,
        "generate_max_len": args.answer,
        "packing_max_len": args.prompt + args.answer,
        "critic_update_steps": 1,
        "prompt_data": "[prompts.json]",
        "eval_prompt_data": "[]",
        "enable_eval": "false",
        "save_interval": 1,
    }


def write_prompts(args, ranks):
    """Sums that fill the tokens of a prompt: each number is one at least."""
    sums = " + ".join(map(str, range(args.prompt)))
    dialogue = [{"value": f"What is {sums}?"}, {"ground_truth": {"value": "42"}}]
    with open("prompts.json", "w") as file:
        json.dump([dialogue] * (ranks * args.samples * args.iterations), file)


def watched(kind, role):
    """An actor's class that says what is on the GPU after each of its turns."""

    def turn(name, done):
        original = getattr(kind, name)

        @functools.wraps(original)
        def called(*args, **named):
            answer = original(*args, **named)
            see_memory_usage(f"{role} {done}", force=True)
            return answer

        return called

    return type(kind.__name__, (kind,), {name: turn(name, done) for name, done in TURNS.items() if hasattr(kind, name)})


def main():
    args, given = arguments()
    if not os.path.isdir(os.path.join(args.orz, "orz", "ppo")):
        clone = "git clone https://github.com/Open-Reasoner-Zero/Open-Reasoner-Zero"
        raise FileNotFoundError(errno.ENOENT, clone, args.orz)
    ranks = int(os.environ["WORLD_SIZE"])
    sys.path.insert(0, os.path.abspath(args.orz))
    from orz.exp_engine.parallels import orz_distributed_c10d as between_processes

    # An engine is a process of its own: it makes a group with the policy's, and opens a parameter by its address.
    between_processes.orz_init_process_group = lambda **settings: None
    between_processes.CUDAIPCHandle = one_process.CUDAIPCHandle
    from orz.exps.examples.ppo import ppo_base_exp
    from orz.ppo import actors

    actors._SET_AFFINITY = True  # a process is not bound to the cores near its GPU, for which libnuma is needed
    for role in ROLES:
        name = f"{role.capitalize()}RayActor"
        setattr(ppo_base_exp, name, ray.remote(num_gpus=1)(watched(getattr(actors, f"{name}Base"), role)))
    write_prompts(args, ranks)
    sys.argv[1:] = [*(f"exp.{name}={value}" for name, value in settings(args, ranks).items()), *given]
    runpy.run_module("playground.orz_1p5b_ppo", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
