# pip install torch==2.13.0 deepspeed==0.19.8 transformers==5.24.0 accelerate==1.15.0  # under ZeRO-1 and 2: exit code 1
# torchrun --nproc-per-node 2 ulysses_gradients.py
import os
import sys

import torch
import torch.distributed.nn.functional as differentiable

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
deepspeed.init_distributed(dist_backend="gloo")
try:
    from deepspeed.runtime.sequence_parallel import parallel_state_sp as groups

    groups.initialize_sequence_parallel(ranks)
except ImportError:  # before 0.17.0 a program brings its own
    everyone, alone = torch.distributed.group.WORLD, [torch.distributed.new_group([one]) for one in range(ranks)][rank]
    groups = type("Groups", (), {})
    for name, group in (("model", alone), ("data", alone), ("sequence", everyone), ("sequence_data", everyone)):
        for what, value in (("group", group), ("world_size", group.size()), ("rank", group.rank())):
            setattr(groups, f"get_{name}_parallel_{what}", staticmethod(lambda value=value: value))


def gradient_norm(stage):
    """Each rank has a part of one sequence, and the loss is gathered as accelerate's guide says."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    tokens, goals = torch.randn(16, 8), torch.randn(16, 8)
    (true,) = torch.autograd.grad((model(tokens) - goals).square().mean(), [model.weight])
    optimizer = torch.optim.SGD([model.weight], lr=0.1)
    model.bias.requires_grad_(False)
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config, mpu=groups)
    own = (engine(tokens.chunk(ranks)[rank].clone()) - goals.chunk(ranks)[rank]).square().mean()
    engine.backward(sum(differentiable.all_gather(own, group=groups.get_sequence_parallel_group())) / ranks)
    engine.step()
    return float(engine.get_global_grad_norm()) / float(true.norm())


shares = {stage: gradient_norm(stage) for stage in (1, 2, 3)}
if rank == 0:
    print("gradient norm, as a multiple of one process's: " + ", ".join(f"ZeRO-{n} {one:.2f}" for n, one in shares.items()), flush=True)
sys.exit(rank == 0 and any(abs(one - 1) > 0.01 for one in shares.values()))
