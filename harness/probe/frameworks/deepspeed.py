"""DeepSpeed's adapter: ZeRO training of transformers models."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from harness.probe.border.wire import Numerics
from harness.probe.framework import Meter
from harness.probe.process import meeting
from harness.probe.workloads.flatten import flatten


@dataclasses.dataclass(frozen=True)
class Sharding:
    """The part of a scenario's parameters that is DeepSpeed's. None leaves the framework's default in force; "auto" is
    resolved by whom ``integration`` names (`harness.probe.frameworks.integrations`)."""

    zero_stage: int = 3
    integration: str = "transformers"  #: who completes the configuration: transformers, accelerate or none
    zero_init: bool = True  #: build the model under zero.Init, through transformers, as from_pretrained does
    offload_optimizer: bool = False
    offload_param: bool = False
    gradient_accumulation_dtype: str | None = None
    reduce_bucket_size: Any = None  #: elements
    prefetch_bucket_size: Any = None  #: elements
    persistence_threshold: Any = None  #: elements
    max_live_parameters: int | None = None
    max_reuse_distance: int | None = None
    sub_group_size: int | None = None
    overlap_comm: bool | None = None
    contiguous_gradients: bool | None = None
    hpz_partition_size: int | None = None
    allgather_bucket_size: int | None = None  #: elements; below stage 3
    reduce_scatter: bool | None = None
    round_robin_gradients: bool | None = None
    gather_16bit_weights: bool | None = None  #: when a checkpoint is saved
    load_on_device: bool = False  #: the whole model goes to the accelerator before DeepSpeed sees it
    compile_backend: str = "none"  #: of torch.compile
    loss_scale_power: int = 8  #: the first loss scale of fp16 is two to this


def preload(device: str) -> None:
    os.environ["DS_ACCELERATOR"] = {"cpu": "cpu", "sim": "cpu", "cuda": "cuda"}[device]
    import torch

    torch.set_num_threads(1)
    import deepspeed
    import torch._dynamo  # which some stacks import lazily, and which does not survive that under zero.Init
    from transformers.models.llama import modeling_llama  # noqa: F401  (transformers loads lazily: pay once, here)
    from transformers.models.qwen2 import modeling_qwen2  # noqa: F401

    # From 0.14.3 on, init_distributed compiles an all-reduce in shared memory, for 40 s, which no training step uses.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    import transformers.integrations.deepspeed  # noqa: F401

    import harness.probe.meters.meter
    import harness.probe.oracles.truth  # noqa: F401

    if device == "cuda":
        from harness.probe.gpu import cuda

        cuda.assert_untouched()


def world_size(parameters: Mapping[str, Any], device: str) -> int:
    size = int(parameters["world_size"])
    if device == "cuda":
        from harness.probe.gpu import cuda, nvml

        return cuda.processes(size, nvml.gpu_count())
    return 1 if device == "sim" else size


def stopwatch(device: str) -> Any:
    """CUDA events on a GPU; elsewhere the host's clock will do."""
    if device != "cuda":
        return None
    from harness.probe.gpu import cuda

    return cuda.stopwatch()


def _one_of_many(parameters: Mapping[str, Any], device: str) -> bool:
    """Whether this process stands for rank 0 of a job whose other ranks are not there."""
    if device != "cuda":
        return device == "sim"
    if meeting.spans_machines():
        return False
    from harness.probe.gpu import cuda, nvml

    return cuda.stubbed(int(parameters["world_size"]), nvml.gpu_count())


@contextlib.contextmanager
def surroundings(parameters: Mapping[str, Any], device: str) -> Iterator[Meter]:
    if device == "sim":
        from harness.probe.allocator.model import AllocatorSettings
        from harness.probe.sim import Simulation
        from harness.probe.workloads.workload import pick

        allocator = pick(AllocatorSettings, parameters)
        with Simulation(rank=0, world_size=int(parameters["world_size"]), allocator=allocator) as simulation:
            yield simulation.meter
    elif device == "cuda":
        with _on_gpu(parameters) as cuda_meter:
            yield cuda_meter
    else:
        from harness.probe.meters.meter import TorchMeter

        yield TorchMeter(device=device)


@contextlib.contextmanager
def _on_gpu(parameters: Mapping[str, Any]) -> Iterator[Meter]:
    from harness.probe.allocator.model import AllocatorSettings
    from harness.probe.gpu import cuda, nvml
    from harness.probe.workloads.workload import pick

    with contextlib.ExitStack() as stack:
        meter = stack.enter_context(cuda.on_gpu(pick(AllocatorSettings, parameters), nvml.gpu_count()))
        if _one_of_many(parameters, "cuda"):
            stack.enter_context(_alone(int(parameters["world_size"])))
        yield meter


@contextlib.contextmanager
def _alone(world_size: int) -> Iterator[None]:
    """This process as rank 0 of many, with a process group that does nothing."""
    from harness.probe.sim.deepspeed_release import ranks_agree
    from harness.probe.sim.simulation import environment, process_group

    with environment(0, world_size, min(8, world_size)), process_group(0, world_size), ranks_agree():
        yield


def config(parameters: Mapping[str, Any], hidden_size: int) -> dict[str, Any]:
    """The dictionary that ``deepspeed.initialize`` gets."""
    from harness.probe.frameworks import integrations
    from harness.probe.workloads.workload import Workload, pick

    work, shard = pick(Workload, parameters), pick(Sharding, parameters)
    zero = {
        "stage": shard.zero_stage,
        "overlap_comm": shard.overlap_comm,
        "contiguous_gradients": shard.contiguous_gradients,
        "reduce_bucket_size": shard.reduce_bucket_size,
        "allgather_bucket_size": shard.allgather_bucket_size,
        "reduce_scatter": shard.reduce_scatter,
        "round_robin_gradients": shard.round_robin_gradients,
        "sub_group_size": shard.sub_group_size,
        "zero_hpz_partition_size": shard.hpz_partition_size,
    }
    if shard.zero_stage == 3:
        zero["stage3_prefetch_bucket_size"] = shard.prefetch_bucket_size
        zero["stage3_param_persistence_threshold"] = shard.persistence_threshold
        zero["stage3_max_live_parameters"] = shard.max_live_parameters
        zero["stage3_max_reuse_distance"] = shard.max_reuse_distance
        zero["stage3_gather_16bit_weights_on_model_save"] = shard.gather_16bit_weights
    if shard.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if shard.offload_param:
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    settings: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": work.micro_batch_size,
        "gradient_accumulation_steps": work.gradient_accumulation_steps,
        "zero_optimization": {name: value for name, value in zero.items() if value is not None},
        "bf16": {"enabled": work.dtype == "bf16"},
        "zero_allow_untested_optimizer": True,
        # The optimizer that is passed in stays, also under offload: DeepSpeed's own is a C++ extension to be compiled.
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 2**31,
    }
    if work.dtype == "fp16":
        settings["fp16"] = {"enabled": True, "initial_scale_power": shard.loss_scale_power}
    if work.gradient_clipping is not None:
        settings["gradient_clipping"] = work.gradient_clipping
    if shard.gradient_accumulation_dtype is not None:
        settings["data_types"] = {"grad_accum_dtype": shard.gradient_accumulation_dtype}
    return integrations.complete(
        settings, shard.integration, hidden_size=hidden_size, world_size=work.world_size, work=work
    )


def start(
    parameters: Mapping[str, Any],
    device: str,
    shape: Mapping[str, Any],
    measured: Callable[[], AbstractContextManager[None]],
) -> DeepSpeedTraining:
    import deepspeed
    import torch

    from harness.probe.workloads import workload

    work = workload.pick(workload.Workload, parameters)
    shard = workload.pick(Sharding, parameters)
    alone = join(parameters, device)
    model_config = workload.configuration(work, shape)
    settings = config(parameters, model_config.hidden_size)
    with measured():
        with zero_init(settings, shard):
            model = workload.build(work, model_config, work.torch_dtype)
        if shard.load_on_device:
            model = model.to(accelerator(device))
        if not alone:
            fill(model)
        groups = workload.parameter_groups(work, model)
        optimizer = workload.optimizer(work, groups)
        schedule = workload.scheduler(work, optimizer)
        engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, lr_scheduler=schedule, config=settings)
        compiled(engine, shard, device)
    torch.manual_seed(0)
    return DeepSpeedTraining(work, engine, model_config, device, alone)


def accelerator(device: str) -> str:
    """torch's name of the accelerator. A statement that spells ``meta`` out would mean a tensor without bytes (see
    `harness.probe.sim.mode`), so whoever moves something there asks here."""
    return {"sim": "meta"}.get(device, device)


def join(parameters: Mapping[str, Any], device: str) -> bool:
    """Meets the other ranks, and tells whether this one stands for all of them."""
    import deepspeed

    if parameters.get("dtype") == "fp16" and device == "cpu":
        _allow_fp16()
    alone = _one_of_many(parameters, device)
    if alone:  # in a process group already
        deepspeed.init_distributed(dist_backend="fake", verbose=False)
    else:
        deepspeed.init_distributed(
            dist_backend={"cpu": "gloo", "cuda": "nccl"}[device],
            init_method=os.environ["DSREGRESS_RENDEZVOUS"],
            rank=int(os.environ["RANK"]),
            world_size=int(parameters["world_size"]),
            verbose=False,
        )
    return alone


def compiled(engine: Any, shard: Sharding, device: str) -> None:
    """torch.compile by DeepSpeed's own door, where the scenario asks for it. Raises SimulationError in ``sim``: what a
    compiler makes of the operators is not known before it has seen them."""
    if shard.compile_backend == "none":
        return
    if device == "sim":
        from harness.probe.sim.errors import SimulationError

        raise SimulationError("torch.compile cannot be simulated: it replaces the operators; run it on cpu or cuda")
    engine.compile(backend=shard.compile_backend)


def _allow_fp16() -> None:
    """DeepSpeed refuses fp16 where the processor has no instructions for it. torch computes it there all the same, only
    slower, and scaling and overflow are the same code."""
    from deepspeed.accelerator import get_accelerator

    type(get_accelerator()).is_fp16_supported = lambda self: True


@contextlib.contextmanager
def zero_init(settings: dict[str, Any], shard: Sharding) -> Any:
    """While this is entered transformers builds models under zero.Init, as it does for everyone who trains with it."""
    if not (shard.zero_stage == 3 and shard.zero_init):
        yield
        return
    from transformers.integrations import deepspeed as integration

    held = integration.HfDeepSpeedConfig({**settings, "zero_optimization": dict(settings["zero_optimization"])})
    try:
        yield held
    finally:
        integration.unset_hf_deepspeed_config()


def fill(model: Any, weights_of: str = "") -> None:
    """Every weight as a function of its name (`workload.weight`), also where it is partitioned."""
    import torch

    from harness.probe.workloads.workload import weight

    for name, parameter in model.named_parameters():
        with _gathered(parameter, modifier_rank=0), torch.no_grad():
            if parameter.numel():
                parameter.copy_(weight(weights_of + name, tuple(parameter.shape)))


def _gathered(parameter: Any, *, wanted: bool = True, modifier_rank: int | None = None) -> Any:
    """The parameter is whole inside, where it is sharded."""
    if not (wanted and hasattr(parameter, "ds_id")):
        return contextlib.nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters([parameter], modifier_rank=modifier_rank)


#: The step whose data are used for a step that a checkpoint undoes: beyond all others.
_ELSEWHERE = 1000


class DeepSpeedTraining:
    """See `harness.probe.framework.Training`."""

    def __init__(self, work: Any, engine: Any, model_config: Any, device: str, alone: bool) -> None:
        from harness.probe.workloads import objectives

        self._alone = alone  #: without the other ranks, values mean nothing
        self._device = accelerator(device)
        self.micro_batches = work.gradient_accumulation_steps
        self._objective = objectives.of(work)
        self.backwards = len(self._objective.losses)
        self._at_loss = 0
        self._work, self._engine, self._model_config = work, engine, model_config
        self._rank = int(os.environ["RANK"])
        self._at_step = -1
        self._data: list[Any] = []
        self._losses: list[Any] = []
        self._loss: Any = None

    def next_batch(self) -> None:
        self._at_step += 1
        self._losses = []
        if self._work.checkpoint and self._at_step == 1:
            self._save_and_load()
        self._data = self._data_of(self._at_step)

    def _data_of(self, step: int) -> list[Any]:
        vocabulary = self._model_config.vocab_size
        return [
            self._objective.data(self._work, vocabulary, step, self._rank, number, self._device)
            for number in range(self.micro_batches)
        ]

    def _save_and_load(self) -> None:
        """Through a checkpoint and back. A step in between moves everything away from what was saved."""
        import torch.distributed as dist

        if meeting.spans_machines():
            raise RuntimeError("a checkpoint needs a folder that all ranks share, and these ranks span machines")
        folder = os.path.join(os.path.dirname(os.environ["DSREGRESS_RENDEZVOUS"].removeprefix("file://")), "checkpoint")
        self._engine.save_checkpoint(folder, tag="saved")
        self._data = self._data_of(_ELSEWHERE)
        for number in range(self.micro_batches):
            for _ in range(self.backwards):
                self.forward(number)
                self.backward(number)
            self._engine.step()
        self._losses = []
        path, _ = self._engine.load_checkpoint(folder, tag="saved")
        if path is None:
            raise RuntimeError("the framework says that there is no checkpoint where it saved one")
        dist.barrier()
        if self._rank == 0:
            shutil.rmtree(folder, ignore_errors=True)

    def forward(self, micro_batch: int) -> None:
        from harness.probe.workloads.objectives import with_infinite_gradient

        loss = self._objective.losses[self._at_loss](self._engine, self._data[micro_batch])
        bad = (self._at_step, self._rank) == (self._work.infinite_gradient_step, self._work.world_size - 1)
        self._loss = with_infinite_gradient(loss) if bad and micro_batch == self._at_loss == 0 else loss

    def backward(self, micro_batch: int) -> None:
        self._engine.backward(self._loss)
        self._losses.append(self._loss.detach())
        self._loss = None
        self._at_loss = (self._at_loss + 1) % self.backwards

    def step(self, micro_batch: int) -> None:
        self._engine.step()
        if self._work.evaluate and micro_batch == self.micro_batches - 1:
            self._evaluate()

    def _evaluate(self) -> None:
        import torch

        self._engine.eval()
        with torch.no_grad():
            self._objective.losses[0](self._engine, self._data[0])
        self._engine.train()

    def loss(self) -> float | None:
        if self._alone:
            return None
        return mean_loss(self._losses, self.micro_batches)

    def gradient_norm(self) -> float | None:
        if self._alone:
            return None
        norm = self._engine.get_global_grad_norm()
        return None if norm is None else float(norm)

    def parameters(self) -> Mapping[str, Any] | None:
        return None if self._alone else whole_parameters(self._engine.module)

    def configuration(self) -> dict[str, Any]:
        return configuration(self._engine, self._model_config)


def mean_loss(losses: Sequence[Any], micro_batches: int) -> float:
    """Over the micro-batches and ranks of a step, which may have several losses each. A collective operation."""
    import torch
    import torch.distributed as dist

    mean = torch.stack([loss.float() for loss in losses]).sum() / micro_batches
    dist.all_reduce(mean)
    return float(mean) / dist.get_world_size()


def whole_parameters(model: Any) -> dict[str, Any]:
    """Every parameter by name, on the CPU; fp32 where the framework keeps it so and finds it again. A collective
    operation."""
    from deepspeed.utils import safe_get_full_fp32_param

    whole: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        values = safe_get_full_fp32_param(parameter) if parameter.requires_grad else None
        if values is not None and not _belongs_to(values, parameter):
            values = None
        with _gathered(parameter, wanted=values is None):
            # Where the framework keeps no fp32 weights, the parameter itself, in its own dtype, is all there is.
            values = parameter if values is None else values
            whole[name] = values.detach().cpu().reshape(getattr(parameter, "ds_shape", parameter.shape)).clone()
    return whole


def _belongs_to(weights: Any, parameter: Any) -> bool:
    """Whether these are the fp32 weights that a whole parameter is the rounding of, as after each step it must be.

    With ``round_robin_gradients`` DeepSpeed 0.15.0 to 0.19.8 lay the fp32 weights in another order than
    ``_link_all_hp_params`` looks for them in, so ``safe_get_full_fp32_param`` gives those of other parameters. What the
    model computes with is what was trained, so it is that which counts then."""
    import torch

    return hasattr(parameter, "ds_id") or torch.equal(weights.to(parameter.dtype), parameter.detach())


def configuration(engine: Any, model_config: Any) -> dict[str, Any]:
    """What is in force after ``deepspeed.initialize``, as dotted keys."""
    return {
        **flatten("deepspeed", vars(engine._config)),
        **flatten("model", model_config.to_dict()),
        "engine.optimizer": type(engine.optimizer).__name__,
        "engine.model_dtype": str(next(engine.module.parameters()).dtype),
        "model.attention": str(getattr(model_config, "_attn_implementation", None)),
    }


def judge(
    parameters: Mapping[str, Any],
    device: str,
    shape: Mapping[str, Any],
    steps: int,
    trained: Mapping[str, Any],
    numerics: Numerics,
) -> None:
    from harness.probe.oracles import truth
    from harness.probe.workloads.workload import Workload, pick

    if int(os.environ["RANK"]) == 0:
        truth.judge(pick(Workload, parameters), shape, steps, trained, numerics)


def _as_obeyed(zero: Mapping[str, Any]) -> dict[str, Any]:
    """Without what says nothing: an ``auto`` that reached DeepSpeed, and an offload to ``none``."""
    return {
        name: value
        for name, value in zero.items()
        if value != "auto" and not (isinstance(value, dict) and value.get("device") == "none")
    }


def ideal(
    parameters: Mapping[str, Any], device: str, shape: Mapping[str, Any], meter: Meter
) -> dict[str, dict[str, int]]:
    """What ZeRO says that this job's ranks must hold: see `harness.probe.oracles.ideal`. Without activations on a real GPU:
    beside the engine there is no room to train the model once more."""
    from harness.probe.oracles import ideal as oracle
    from harness.probe.oracles import plain
    from harness.probe.workloads import objectives
    from harness.probe.workloads.workload import Workload, pick

    work, shard = pick(Workload, parameters), pick(Sharding, parameters)
    job = oracle.from_configuration(
        _as_obeyed(config(parameters, shape["hidden_size"])["zero_optimization"]),
        world_size=work.world_size,
        element_bytes=work.torch_dtype.itemsize,
        gradient_bytes={None: 0, "fp32": 4, "bf16": 2, "fp16": 2}[shard.gradient_accumulation_dtype],
        micro_batches=work.gradient_accumulation_steps,
        backwards=len(objectives.of(work).losses),
    )
    taken = plain.activations(work, shape, meter, accelerator(device)) if device != "cuda" else None
    return oracle.ideal(plain.sizes(work, shape), job, taken, one_memory=device == "cpu")


def model(training: DeepSpeedTraining) -> Any:
    """Whose modules have names (see `harness.probe.holders.sites`)."""
    return training._engine.module


def holders(training: DeepSpeedTraining) -> Iterator[tuple[str, str, Any]]:
    """What the engine holds its tensors for (see `harness.probe.holders.sites`)."""
    from harness.probe.frameworks import zero_holders

    return zero_holders.of(training._engine)
