"""One process of Open-Reasoner-Zero's PPO under ``colocate_all``: one role on one GPU.

    git clone https://github.com/Open-Reasoner-Zero/Open-Reasoner-Zero
    torchrun --nproc_per_node 4 role.py --role policy adam_offload=true

Its trainer has a process for each role on every GPU, and they take turns. This runs a role's own class, of
``orz.ppo.actors``, without Ray's decorator around it, and calls it in the order of `orz.ppo.trainer.RayPPOTrainer`.
After each turn it prints what the process has on its GPU. Data are random, also those that other processes would
hand over; what is handed to vLLM is dropped.

Settings are those of ``playground/orz_1p5b_ppo.py``, with what Open-Reasoner-Zero#24 changed. ``NAME=VALUE`` sets
another one.
"""

import argparse
import ast
import dataclasses
import errno
import importlib.util
import os
import sys
import types

import torch
from deepspeed.runtime.utils import see_memory_usage
from transformers import AutoTokenizer

#: ``playground/orz_1p5b_ppo.py``, and steps as of Open-Reasoner-Zero#24: 4 GPUs, rollout and micro-rollout batch 2.
SETTINGS = {
    "colocate_all": True,
    "zero_stage": 3,
    "adam_offload": False,
    "actor_learning_rate": 1e-6,
    "critic_learning_rate": 5e-6,
    "num_warmup_steps": 50,
    "policy_update_steps": 1,
    "critic_update_steps": 1,
    "micro_train_batch_size": 1,
    "micro_forward_batch_size": 1,
    "use_kl_loss": True,
    "use_kl_estimator_k3": True,
    "reward_pretrain": None,
    "use_compute_reward_fn": True,
    "rollout_batch_size": 2,
    "micro_rollout_batch_size": 2,
    "save_path": "saved",
    "ckpt_path": "checkpoints",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", choices=sorted(ROLES), default="policy")
    parser.add_argument("--orz", default="Open-Reasoner-Zero", help="folder of a checkout of Open-Reasoner-Zero")
    parser.add_argument("--model", default="Qwen/Qwen2.5-1.5B")
    parser.add_argument("--prompt", type=int, default=1024, help="tokens")
    parser.add_argument("--answer", type=int, default=1024, help="tokens")
    parser.add_argument("--samples", type=int, default=2, help="packed samples for each rank and iteration")
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE", help="of Open-Reasoner-Zero's configuration")
    return parser.parse_args()


def import_orz(folder: str) -> None:
    if not os.path.isdir(os.path.join(folder, "orz", "ppo")):
        clone = "git clone https://github.com/Open-Reasoner-Zero/Open-Reasoner-Zero"
        raise FileNotFoundError(errno.ENOENT, clone, folder)
    sys.path.insert(0, os.path.abspath(folder))
    if importlib.util.find_spec("vllm") is None:  # which needs a GPU; its modules name one class when they are imported
        for name in ("vllm", "vllm.core", "vllm.core.scheduler"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["vllm.core.scheduler"].Scheduler = object
    from orz.ppo import actors

    actors._SET_AFFINITY = True  # a process is not bound to the cores near its GPU, for which libnuma is needed


def configuration(args: argparse.Namespace):
    from orz.exps.examples.ppo.ppo_base_exp import BasePPOExpConfig

    given = {
        **SETTINGS,
        "pretrain": args.model,
        "critic_pretrain": args.model,
        "prompt_max_len": args.prompt,
        "generate_max_len": args.answer,
    }
    known = {field.name for field in dataclasses.fields(BasePPOExpConfig)}
    for setting in args.settings:
        name, _, value = setting.partition("=")
        if name not in known:
            sys.exit(f"Open-Reasoner-Zero has no setting {name!r}")
        given[name] = value_of(value)
    return BasePPOExpConfig(**given)


def value_of(text: str):
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


class Role:
    """The turns of a process, and what it has on the GPU after each."""

    actor_class = ""

    def __init__(self, args: argparse.Namespace) -> None:
        from orz.ppo import actors, utils

        self.args, self.config = args, configuration(args)
        self.strategy = utils.get_strategy(self.config)
        environment = os.environ
        self.actor = getattr(actors, self.actor_class)(
            int(environment["WORLD_SIZE"]),
            int(environment["RANK"]),
            0,  # Ray shows each process one GPU
            environment["MASTER_ADDR"],
            environment["MASTER_PORT"],
        )

    def run(self) -> None:
        self.load()
        for iteration in range(self.args.iterations):
            self.iterate(iteration)

    def iterate(self, iteration: int) -> None:
        raise NotImplementedError

    def load(self) -> None:
        self.actor.init_model_from_pretrained(self.strategy, self.args.model)
        see_memory_usage("loaded", force=True)

    def others_turn(self, what: str) -> None:
        see_memory_usage(f"waits while others {what}", force=True)

    def offload(self, after: str) -> None:
        self.actor.offload_to_cpu()
        see_memory_usage(f"offloaded after {after}", force=True)

    def reload(self, before: str) -> None:
        self.actor.backload_to_gpu()
        see_memory_usage(f"reloaded to {before}", force=True)

    def score(self) -> list[torch.Tensor]:
        scores = [self.actor.forward(**sample) for sample in self.samples()]
        see_memory_usage("scored", force=True)
        return scores

    def save(self, iteration: int) -> None:
        self.actor.save_model(AutoTokenizer.from_pretrained(self.args.model), iteration)
        see_memory_usage("saved", force=True)

    def samples(self) -> list[dict]:
        """Of vLLM's answers, packed to prompt + answer tokens: here one of each."""
        total = self.args.prompt + self.args.answer
        return [
            {
                "sequences": torch.randint(100, 200, (1, total)),
                "attention_mask": torch.ones((1, total), dtype=torch.int),
                "num_actions": [self.args.answer],
                "packed_seq_lens": [total],
            }
            for _ in range(self.args.samples)
        ]

    def experience(self, scores: list[torch.Tensor]):
        """What the trainer has made of every role's scores, on the host."""
        from orz.ppo.replay_buffer import Experience, NaiveReplayBuffer

        buffer = NaiveReplayBuffer(self.config.micro_train_batch_size, cpu_offload=True, packing_samples=True)
        for sample, score in zip(self.samples(), scores, strict=True):
            lengths = {"response_length": sample["num_actions"], "total_length": sample["packed_seq_lens"]}
            buffer.append(
                Experience(
                    sequences=sample["sequences"],
                    attention_mask=sample["attention_mask"],
                    action_mask=None,
                    action_log_probs=score,
                    base_action_log_probs=score.clone(),
                    values=score.clone(),
                    returns=torch.randn(score.shape),
                    advantages=torch.randn(score.shape),
                    num_actions=torch.tensor([sample["num_actions"]], dtype=torch.float32),
                    packed_seq_lens=torch.tensor([sample["packed_seq_lens"]], dtype=torch.float32),
                    info={
                        **{name: torch.tensor(length, dtype=torch.float32) for name, length in lengths.items()},
                        "kl": torch.zeros(1),
                        "return": torch.ones(1),
                    },
                )
            )
        return buffer


class Policy(Role):
    actor_class = "PolicyRayActorBase"

    def load(self) -> None:
        super().load()
        self.actor._set_pad_token_id(0)
        self.offload("loading")
        self.reload("sync")  # while the engine wakes up
        self.sync()
        self.offload("sync")

    def iterate(self, iteration: int) -> None:
        self.others_turn("generate and score")
        self.reload("score")
        scores = self.score()
        self.offload("scoring")
        self.others_turn("train the critic")
        self.reload("train")
        self.actor.ppo_train(iteration, self.experience(scores))
        self.actor.empty_cache()
        see_memory_usage("trained", force=True)
        self.sync()
        self.offload("sync")
        self.save(iteration)

    def sync(self) -> None:
        """Hands one whole parameter after another to the engine on the same GPU, by the address of its memory."""
        from orz.ppo import actors

        actors.CUDAIPCHandle = types.SimpleNamespace(from_tensor=lambda tensor: None)
        actors.ray = types.SimpleNamespace(get=lambda references: None)
        update = types.SimpleNamespace(remote=lambda *args, **kwargs: None)
        engine = types.SimpleNamespace(update_weight_internal_with_cuda_ipc=update)
        self.actor._broadcast_to_vllm_cudaipc([engine] * int(os.environ["WORLD_SIZE"]))
        see_memory_usage("synchronized", force=True)


class Critic(Role):
    actor_class = "CriticRayActorBase"

    def load(self) -> None:
        super().load()
        self.offload("loading")

    def iterate(self, iteration: int) -> None:
        self.others_turn("generate")
        self.reload("score")
        scores = self.score()
        self.offload("scoring")
        self.others_turn("score")
        self.reload("train")
        self.actor.ppo_train(iteration, self.experience(scores))
        see_memory_usage("trained", force=True)
        self.offload("training")
        self.others_turn("train the policy and synchronize it")
        self.save(iteration)


class Reference(Role):
    actor_class = "RefRayActorBase"

    def iterate(self, iteration: int) -> None:
        self.others_turn("generate")
        self.score()
        self.actor.empty_cache()
        self.others_turn("train")


ROLES = {"policy": Policy, "critic": Critic, "reference": Reference}

if __name__ == "__main__":
    given = arguments()
    import_orz(given.orz)
    ROLES[given.role](given).run()
