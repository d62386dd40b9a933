"""The actor of OpenRLHF's PPO, or its critic, alone on its cards, without Ray and vLLM.

OpenRLHF's own (0.3.6 to 0.6, packed samples from 0.5 on): the model, the DeepSpeed configuration, the optimizer, the engine,
the replay buffer and all of ``PPOTrainer.ppo_train``, which its Ray actors run as well. Random here: the answers, their
rewards and advantages, which ``train_ppo_ray`` gets from vLLM, a reward server and other cards. The options are those of
``train_ppo_ray``, and ``--role``.
"""

import argparse
import math

import torch
from openrlhf.models import Actor, get_llm_for_sequence_regression
from openrlhf.trainer import PPOTrainer
from openrlhf.trainer.ppo_utils import Experience
from openrlhf.utils import get_strategy, get_tokenizer
from transformers.trainer import get_scheduler


class RoleTrainer(PPOTrainer):
    """As the trainers of its Ray actors, whose modules import vLLM: the other role trains elsewhere."""

    def training_step(self, experience, global_steps):
        if self.critic is None:
            return self.training_step_actor(experience)
        return self.strategy.all_reduce(self.training_step_critic(experience))


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrain", required=True)
    parser.add_argument("--role", choices=("actor", "critic"), default="actor")
    parser.add_argument("--micro_train_batch_size", type=int, default=1)
    parser.add_argument("--train_batch_size", type=int, default=128)
    parser.add_argument("--micro_rollout_batch_size", type=int, default=2)
    parser.add_argument("--rollout_batch_size", type=int, default=32)
    parser.add_argument("--n_samples_per_prompt", type=int, default=4)
    parser.add_argument("--num_episodes", type=int, default=4)
    parser.add_argument("--prompt_max_len", type=int, default=1024)
    parser.add_argument("--generate_max_len", type=int, default=1024)
    parser.add_argument("--zero_stage", type=int, default=3)
    parser.add_argument("--zpg", type=int, default=1)
    parser.add_argument("--actor_learning_rate", type=float, default=5e-7)
    parser.add_argument("--critic_learning_rate", type=float, default=9e-6)
    parser.add_argument("--init_kl_coef", type=float, default=0.01)
    parser.add_argument("--grad_accum_dtype", default=None)
    parser.add_argument("--local_rank", type=int, default=-1)
    for flag in ("bf16", "adam_offload", "flash_attn", "packing_samples", "overlap_comm"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--gradient_checkpointing_use_reentrant", action="store_true")
    args = parser.parse_args()
    unused = {
        "pretrain_data": None,
        "use_wandb": None,
        "use_tensorboard": None,
        "aux_loss_coef": 0.0,
        "enable_ema": False,
    }
    vars(args).update(unused, colocate_all_models=False, advantage_estimator="group_norm")
    return args


def answered(args, vocabulary, device):
    """A packed batch of prompts with answers, as an engine returns them: tokens, and which sample each is of."""
    length = args.prompt_max_len + args.generate_max_len
    tokens = torch.randint(0, vocabulary, (1, args.micro_rollout_batch_size * length), device=device)
    owners = torch.arange(1, args.micro_rollout_batch_size + 1, device=device).repeat_interleave(length).unsqueeze(0)
    return tokens, owners, [length] * args.micro_rollout_batch_size


@torch.no_grad()
def experience(args, model, vocabulary):
    """The role's own pass over the answers, and what others would have sent."""
    count, device = args.micro_rollout_batch_size, torch.cuda.current_device()
    tokens, owners, lengths = answered(args, vocabulary, device)
    actions = [args.generate_max_len] * count
    model.eval()
    if args.packing_samples:
        from openrlhf.models.utils import unpacking_samples

        own = unpacking_samples(model(tokens, actions, owners, packed_seq_lens=lengths), actions)
        sequences, seen, taken = unpacking_samples(tokens, lengths), None, None
    else:
        sequences = tokens.view(count, -1)
        seen = torch.ones_like(sequences)
        own = model(sequences, args.generate_max_len, seen)
        taken = torch.ones_like(own, dtype=torch.bool)
    model.train()
    rewards = torch.randn(count, device=device)
    advantages = [torch.full_like(part, float(reward)) for part, reward in zip(own, torch.randn(count).tolist())]
    if not args.packing_samples:
        advantages = torch.stack(advantages)
    ones = torch.ones(count, device=device)
    info = {"kl": 0 * ones, "reward": rewards, "return": rewards, "response_length": ones * args.generate_max_len,
            "total_length": ones * lengths[0]}  # fmt: skip
    # An actor alone has no values; buffers of 2024 do not take None.
    values = own if args.role == "critic" else None if args.packing_samples else torch.zeros_like(own)
    return Experience(sequences, own, values, advantages, advantages, seen, taken, info)


def model_of(args, strategy):
    """As its Ray actors build them."""
    settings = {
        "use_flash_attention_2": args.flash_attn,
        "bf16": args.bf16,
        "ds_config": strategy.get_ds_train_config(is_actor=args.role == "actor"),
        "packing_samples": args.packing_samples,
    }
    if args.role == "actor":
        return Actor(args.pretrain, **settings)
    return get_llm_for_sequence_regression(args.pretrain, "critic", init_value_head=True, **settings)


def main():
    args = parsed()
    is_actor = args.role == "actor"
    strategy = get_strategy(args)
    strategy.setup_distributed()
    model = model_of(args, strategy)
    tokenizer = get_tokenizer(args.pretrain, model.model if is_actor else model, "left", strategy)
    rate = args.actor_learning_rate if is_actor else args.critic_learning_rate
    optimizer = strategy.create_optimizer(model, lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    samples = args.rollout_batch_size * args.n_samples_per_prompt
    steps = args.num_episodes * max(1, samples // args.train_batch_size)
    scheduler = get_scheduler(
        "cosine_with_min_lr",
        optimizer,
        num_warmup_steps=math.ceil(0.03 * steps),
        num_training_steps=steps,
        scheduler_specific_kwargs={"min_lr": rate * 0.1},
    )
    if args.gradient_checkpointing:
        kind = {"use_reentrant": args.gradient_checkpointing_use_reentrant}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kind)
    model, optimizer, scheduler = strategy.prepare((model, optimizer, scheduler), is_rlhf=True)
    actor, critic = (model, None) if is_actor else (None, model)
    trainer = RoleTrainer(
        strategy, actor, critic, None, None, None, None, None, scheduler, scheduler,
        micro_train_batch_size=args.micro_train_batch_size, micro_rollout_batch_size=args.micro_rollout_batch_size,
        init_kl_coef=args.init_kl_coef, tokenizer=tokenizer, prompt_max_len=args.prompt_max_len,
    )  # fmt: skip
    trainer.pretrain_dataloader = None
    for episode in range(1, args.num_episodes + 1):
        for _ in range(samples // strategy.world_size // args.micro_rollout_batch_size):
            trainer.replay_buffer.append(experience(args, model, len(tokenizer)))
        torch.cuda.empty_cache()
        if is_actor:
            trainer.replay_buffer.normalize("advantages", strategy)
        strategy.print(trainer.ppo_train(episode))
        trainer.replay_buffer.clear()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
