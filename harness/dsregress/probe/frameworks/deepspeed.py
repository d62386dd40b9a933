"""DeepSpeed's adapter: ZeRO training of transformers models."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dsregress.probe.border.wire import Numerics
from dsregress.probe.factor import LoopCall
from dsregress.probe.factors import active_hooks
from dsregress.probe.framework import Meter
from dsregress.probe.frameworks import on_processors
from dsregress.probe.frameworks.deepspeed_config import (
    Sharding,
    autocasts,
    deepspeed_config,
    effective_zero,
    of_frozen,
    of_next_job,
)
from dsregress.probe.frameworks.deepspeed_engine import (
    effective_configuration,
    gathered,
    mean_loss,
    whole_parameters,
)
from dsregress.probe.frameworks.deepspeed_files import exported_parameters, shared_folder, universal
from dsregress.probe.oracles.unbroken import NotCoveredError
from dsregress.probe.process import meeting
from vgpu.trees import remove_tree


def preload(device: str) -> None:
    """Import the modules that every cell needs. Raise ImportError if transformers refuses this torch."""
    os.environ["DS_ACCELERATOR"] = {"cpu": "cpu", "sim": "cpu", "cuda": "cuda"}[device]
    import torch

    torch.set_num_threads(1)
    from dsregress.probe import oldest_torch
    from vgpu import frameworks

    oldest_torch.check(device)
    frameworks.import_deepspeed()
    import torch._dynamo  # which some stacks import lazily, and which does not survive that under zero.Init
    import transformers.integrations.deepspeed  # noqa: F401

    _assert_torch_is_used()
    from transformers.models.llama import modeling_llama  # noqa: F401  (transformers loads lazily: pay once, here)
    from transformers.models.qwen2 import modeling_qwen2  # noqa: F401

    import dsregress.probe.oracles.truth  # noqa: F401

    if device == "cuda":
        from dsregress.probe.gpu import cuda

        cuda.assert_untouched()


def _assert_torch_is_used() -> None:
    """Raise ImportError where transformers goes on without torch, which is too old for it: later failures do not say so."""
    import torch
    import transformers

    if not transformers.utils.is_torch_available():
        release = torch.__version__.partition("+")[0]
        raise ImportError(f"transformers {transformers.__version__} refuses torch {release}: it requires a newer one")


def world_size(parameters: Mapping[str, Any], device: str) -> int:
    """Return the number of processes to start: one in ``sim``, and if there are fewer GPUs than ranks."""
    size = int(parameters["world_size"])
    if device == "cuda":
        from dsregress.probe.gpu import boards, cuda

        return cuda.processes(size, boards.gpu_count())
    return 1 if device == "sim" else size


def stopwatch(device: str) -> object:
    """Return a stopwatch of CUDA events on a GPU; None on other devices, for which the host's clock is enough."""
    if device != "cuda":
        return None
    from dsregress.probe.gpu import cuda

    return cuda.cuda_stopwatch()


def _one_of_many(parameters: Mapping[str, Any], device: str) -> bool:
    """Return True if this process represents rank 0 of a job without its other ranks."""
    if device != "cuda":
        return device == "sim"
    if meeting.spans_machines():
        return False
    from dsregress.probe.gpu import boards, cuda

    return cuda.stubbed(int(parameters["world_size"]), boards.gpu_count())


@contextlib.contextmanager
def surroundings(parameters: Mapping[str, object], device: str) -> Iterator[Meter]:
    """Enter what training on the device needs, and yield the meter."""
    if device == "sim":
        from dsregress.probe.frameworks.simulated_card import on_virtual_card

        with on_virtual_card(parameters) as simulated:
            yield simulated
    elif device == "cuda":
        with _gpu_surroundings(parameters) as cuda_meter:
            yield cuda_meter
    else:
        from vgpu.meters.meter import TorchMeter

        with on_processors.joined_ranks(parameters, device):
            yield TorchMeter(device=device)


@contextlib.contextmanager
def canary_surroundings(device: str) -> Iterator[str]:
    """Enter what a rank that is alone replaces, and yield the name of its device."""
    with surroundings({"world_size": 1}, device):
        yield accelerator(device)


@contextlib.contextmanager
def _gpu_surroundings(parameters: Mapping[str, Any]) -> Iterator[Meter]:
    from dsregress.probe.gpu import boards, cuda
    from dsregress.probe.workloads.workload import pick
    from vgpu.allocator.model import AllocatorSettings

    with contextlib.ExitStack() as stack:
        meter = stack.enter_context(cuda.metered_gpu(pick(AllocatorSettings, parameters), boards.gpu_count()))
        if _one_of_many(parameters, "cuda"):
            stack.enter_context(_alone(int(parameters["world_size"])))
        else:
            stack.enter_context(on_processors.joined_ranks(parameters, "cuda"))
        yield meter


@contextlib.contextmanager
def _alone(world_size: int) -> Iterator[None]:
    """Make this process rank 0 of many, with a process group that does nothing, within the block."""
    from vgpu.sim.deepspeed_release import ranks_agree
    from vgpu.sim.simulation import environment, process_group

    with environment(0, world_size, min(8, world_size)), process_group(0, world_size), ranks_agree():
        yield


def start(
    parameters: Mapping[str, object],
    device: str,
    shape: Mapping[str, object],
    measured: Callable[[], AbstractContextManager[None]],
) -> DeepSpeedTraining:
    """Build the model and its engine, metered as init; see `dsregress.probe.framework`."""

    import deepspeed
    import torch

    from dsregress.probe.workloads import workload

    work = workload.pick(workload.Workload, parameters)
    shard = workload.pick(Sharding, parameters)
    autocast = autocasts(work, shard)
    alone = join(parameters, device)
    model_config = workload.model_configuration(work, shape)
    training = deepspeed_config(parameters, model_config.hidden_size)
    evaluating = {}
    if work.reference:
        without_optimizer = {**of_frozen(parameters), "optimizer": "passed", "warmup": False, "schedule": None}
        evaluating = deepspeed_config(without_optimizer, model_config.hidden_size)

    def engine(weights_of: str = "", *, goes_on: bool = False, trains: bool = True) -> Any:
        """Return a new engine. ``goes_on``: from a checkpoint; ``trains``: it has an optimizer."""
        settings = training if trains else evaluating
        with zero_init(settings, shard):
            model = workload.build_model(work, model_config, torch.float32 if autocast else work.torch_dtype)
        if shard.load_on_device:
            model = model.to(accelerator(device))
        for call, value in active_hooks(parameters, "model_made"):
            call(model, value)
        if not alone:
            fill(model, weights_of, work.torch_dtype if autocast else None)
        own = copy.deepcopy(settings)  # DeepSpeed removes entries from its argument
        if goes_on:
            own = of_next_job(own, universal=work.universal)
        optimizer = _optimizer_arguments(work, shard, model) if trains else {}
        made: Any = deepspeed.initialize(model=model, config=own, **optimizer)[0]
        compiled(made, shard, device)
        for call, value in active_hooks(parameters, "engine_made"):
            call(made, value)
        return made

    with measured():
        if work.destroyed_engine:
            engine("second.").destroy()
        if work.reference == "destroyed":
            engine("second.", trains=False).destroy()
        first = engine()
        second = engine("second.") if work.second_engine else None
        reference = engine("second.", trains=False).eval() if work.reference == "beside" else None
    torch.manual_seed(0)
    engines = Engines(first, functools.partial(engine, goes_on=True), second, reference)
    hooks = {moment: active_hooks(parameters, moment) for moment in ("before_step", "before_update", "after_update")}
    return DeepSpeedTraining(work, engines, model_config, device, alone, hooks)


def _optimizer_arguments(work: Any, shard: Sharding, model: Any) -> dict[str, Any]:
    """Return the arguments of ``initialize`` that define how parameters are updated. Raise ValueError for an unknown
    optimizer."""
    from dsregress.probe.workloads import workload

    groups = workload.parameter_groups(work, model)
    is_own = not work.configured_schedule  # the learning rate's schedule
    if shard.optimizer == "configured":
        decays = functools.partial(workload.scheduler, work) if is_own and work.learning_rate_decay != 1 else None
        return {"model_parameters": groups, "lr_scheduler": decays}
    if shard.optimizer != "passed":
        raise ValueError(f"no such optimizer: {shard.optimizer} (known: configured, passed)")
    optimizer = workload.plain_optimizer(work, groups)
    return {"optimizer": optimizer, "lr_scheduler": workload.scheduler(work, optimizer) if is_own else None}


def accelerator(device: str) -> str:
    """Return torch's name of the accelerator."""
    return {"sim": "cuda"}.get(device, device)


def join(parameters: Mapping[str, Any], device: str) -> bool:
    """Join the other ranks. Return True if this process represents all of them."""
    import deepspeed

    from vgpu.device import deepspeed_release

    alone = _one_of_many(parameters, device)
    with deepspeed_release.without_shared_memory():
        if alone:  # on a real GPU, in a process group already
            backend = "nccl" if device == "sim" else "fake"
            deepspeed.init_distributed(dist_backend=backend, verbose=False)
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
    """Compile by ``engine.compile`` if the scenario has a ``compile_backend``. Raise SimulationError in ``sim``: a
    compiler's operators are unknown before it runs."""
    if shard.compile_backend == "none":
        return
    if device == "sim":
        from vgpu.sim.errors import SimulationError

        raise SimulationError("torch.compile cannot be simulated: it replaces the operators; run it on cpu or cuda")
    engine.compile(backend=shard.compile_backend)


@contextlib.contextmanager
def zero_init(settings: dict[str, Any], shard: Sharding) -> Any:
    """Let transformers build models under zero.Init within the block, as it does in training."""
    if not (shard.zero_stage == 3 and shard.zero_init):
        yield
        return
    from transformers.integrations import deepspeed as integration

    held = integration.HfDeepSpeedConfig({**settings, "zero_optimization": dict(settings["zero_optimization"])})
    try:
        yield held
    finally:
        integration.unset_hf_deepspeed_config()


def fill(model: Any, weights_of: str = "", rounded_to: object = None) -> None:
    """Set every weight to a function of its name (`skeletons.weights`), partitioned ones included; ``rounded_to`` a
    dtype."""
    import torch

    from skeletons.weights import weight

    for name, parameter in model.named_parameters():
        with gathered(parameter, modifier_rank=0), torch.no_grad():
            if parameter.numel():
                values = weight(weights_of + name, tuple(parameter.shape))
                parameter.copy_(values if rounded_to is None else values.to(rounded_to))


#: The package whose code counts as the framework's own (see `dsregress.probe.holders.sites`).
PACKAGE = "deepspeed"

#: The number of the step that loading a checkpoint undoes, beyond all real steps: its data differ from theirs.
_ELSEWHERE = 1000


@dataclasses.dataclass(frozen=True)
class Engines:
    """The engines of a job."""

    first: Any  #: that is measured
    make: Callable[[], Any]  #: returns another one, which goes on from a checkpoint
    second: Any = None  #: trains between the steps
    reference: Any = None  #: evaluates between them, and has no optimizer


class DeepSpeedTraining:
    """Implements `dsregress.probe.framework.Training`."""

    def __init__(
        self,
        work: Any,
        engines: Engines,
        model_config: Any,
        device: str,
        alone: bool,
        hooks: Mapping[str, Sequence[tuple[LoopCall, object]]],
    ) -> None:
        from dsregress.probe.workloads import objectives

        self._alone = alone  #: without the other ranks, values are meaningless
        self._device = accelerator(device)
        self.micro_batches = work.gradient_accumulation_steps
        self._objective = objectives.objective_of(work)
        self.backwards = len(self._objective.losses)
        self._at_loss = 0
        self._work, self._engine, self._model_config = work, engines.first, model_config
        self._make, self._second, self._reference = engines.make, engines.second, engines.reference
        self._before_step, self._before_update = hooks["before_step"], hooks["before_update"]
        self._after_update = hooks["after_update"]
        self._rank = int(os.environ["RANK"])
        self._at_step = -1
        self._data: list[Any] = []
        self._losses: list[Any] = []
        self._loss: Any = None

    def next_batch(self) -> None:
        """Move on to the fixed data of the next step."""
        self._at_step += 1
        self._losses = []
        if self._work.checkpoint and self._at_step == 1:
            self._save_and_load()
        for call, value in self._before_step:
            call(self._engine, value)
        if self._second is not None:
            self._train_second()
        self._data = self._data_of(self._at_step)
        if self._reference is not None:
            self._without_gradients(self._reference, self._data[0])
        if self._work.unwrapped:
            self._unwrap()

    def _train_second(self) -> None:
        """Take a step of the other engine, on its own data."""
        for data in self._data_of(_ELSEWHERE + self._at_step):
            for loss in self._objective.losses:
                self._second.backward(loss(self._second, data))
            self._second.step()

    def _data_of(self, step: int) -> list[Any]:
        vocabulary = self._model_config.vocab_size
        return [
            self._objective.data(self._work, vocabulary, step, self._rank, number, self._device)
            for number in range(self.micro_batches)
        ]

    def _save_and_load(self) -> None:
        """Save a checkpoint and load it. A step in between changes everything that was saved."""
        import torch.distributed as dist

        folder = shared_folder("checkpoint")
        self._engine.save_checkpoint(folder, tag="saved")
        self._data = self._data_of(_ELSEWHERE)
        for number in range(self.micro_batches):
            for _ in range(self.backwards):
                self.forward(number)
                self.backward(number)
            self.step(number)
        self._losses = []
        if self._work.resume:
            self._engine = None
            gc.collect()  # an engine is part of cycles, and nothing of it survives a restart
            self._engine = self._make()
        tag = universal(folder, "saved", self._rank) if self._work.universal else "saved"
        path, _ = self._engine.load_checkpoint(folder, tag=tag)
        if path is None:
            raise RuntimeError("the framework finds no checkpoint where it saved one")
        dist.barrier()
        if self._rank == 0:
            remove_tree(folder)

    def forward(self, micro_batch: int) -> None:
        """Compute the loss of a micro-batch."""

        from dsregress.probe.workloads.objectives import with_infinite_gradient

        with self._autocast():
            loss = self._objective.losses[self._at_loss](self._engine, self._data[micro_batch])
        bad = (self._at_step, self._rank) == (self._work.infinite_gradient_step, self._work.world_size - 1)
        self._loss = with_infinite_gradient(loss) if bad and micro_batch == self._at_loss == 0 else loss
        if self._work.forward_between:
            self._without_gradients(self._engine, self._data[micro_batch])

    def backward(self, micro_batch: int) -> None:
        """Compute the gradients of a micro-batch."""
        last = micro_batch == self.micro_batches - 1
        if self._work.marks_boundary:
            self._engine.set_gradient_accumulation_boundary(last and self._at_loss == self.backwards - 1)
        local = self._work.no_sync and not last
        with self._engine.no_sync() if local else contextlib.nullcontext():
            self._backward_on(self._loss / self.micro_batches if self._work.caller_accumulates else self._loss)
        self._losses.append(self._loss.detach())
        self._loss = None
        self._at_loss = (self._at_loss + 1) % self.backwards

    def _backward_on(self, loss: Any) -> None:
        import torch

        if self._work.backward_on == "engine":
            self._engine.backward(loss)
        elif self._work.backward_on == "divided":
            self._engine.backward(loss / self.micro_batches, scale_wrt_gas=False)
        elif self._work.backward_on == "loss":
            self._engine.scale(loss).backward()
        elif self._work.backward_on == "several":
            self._engine.scale  # noqa: B018  (releases without it do not know of a backward that is not theirs)
            torch.stack((loss, loss)).backward(torch.full((2,), 0.5, dtype=loss.dtype, device=loss.device))
        else:
            raise ValueError(f"no such backward_on: {self._work.backward_on} (known: divided, engine, loss, several)")

    def step(self, micro_batch: int) -> None:
        """Take the step of a micro-batch, which updates the weights after the last one."""
        last = micro_batch == self.micro_batches - 1
        for call, value in self._before_update if last else ():
            call(self._engine, value)
        if last or not self._work.caller_accumulates:
            self._engine.step()
        for call, value in self._after_update if last else ():
            call(self._engine, value)
        if (self._work.evaluate and last) or (self._work.evaluate_within and micro_batch == 0):
            self._evaluate()

    def _unwrap(self) -> None:
        """Run a forward as in a generation: with whole weights, and without the framework's hooks."""
        import deepspeed

        with deepspeed.zero.unwrap_model_for_generation(self._engine):
            self._engine.eval()
            self._without_gradients(self._engine.module, self._data[0])
            self._engine.train()

    def _evaluate(self) -> None:
        self._engine.eval()
        self._without_gradients(self._engine, self._data[0])
        self._engine.train()

    def _without_gradients(self, model: object, data: Any) -> None:
        import torch

        with torch.no_grad(), self._autocast():
            self._objective.losses[0](model, data)

    def _autocast(self) -> AbstractContextManager[object]:
        """Return the caller's own autocast."""
        import torch

        if not self._work.caller_autocast:
            return contextlib.nullcontext()
        return torch.autocast(self._device, self._work.torch_dtype)

    def loss(self) -> float | None:
        """Return the mean loss of the last step; None if values mean nothing."""
        if self._alone:
            return None
        return mean_loss(self._losses, self.micro_batches)

    def gradient_norm(self) -> float | None:
        """Return the global gradient norm of the last step; None if the framework does not report it."""
        if self._alone:
            return None
        norm = self._engine.get_global_grad_norm()
        return None if norm is None else float(norm)

    def parameters(self) -> Mapping[str, Any] | None:
        """Return whole parameters by name; None if values mean nothing."""
        if self._alone or not self._work.judged:
            return None
        if self._work.exported:
            return exported_parameters(self._engine, self._work.exported, shared_folder("exported"))
        return whole_parameters(self._engine.module)

    def configuration(self) -> dict[str, Any]:
        """Return the configuration in force, as dotted keys."""
        return effective_configuration(self._engine, self._model_config)


def judge(
    parameters: Mapping[str, object],
    device: str,
    shape: Mapping[str, object],
    steps: int,
    trained: Mapping[str, object],
    numerics: Numerics,
) -> None:
    """Judge the trained parameters by plain PyTorch's; see `dsregress.probe.framework`."""

    from dsregress.probe.oracles import truth
    from dsregress.probe.workloads.workload import Workload, pick

    if int(os.environ["RANK"]) == 0:
        truth.judge_training(pick(Workload, parameters), shape, steps, trained, numerics)


def ideal(
    parameters: Mapping[str, object], device: str, shape: Mapping[str, Any], meter: Meter
) -> dict[str, dict[str, int]]:
    """Return what the ranks of this job must hold under ZeRO; see `dsregress.probe.oracles.ideal`. Without activations on
    a real GPU: next to the engine there is no room to train the model once more. Raise NotCoveredError for several
    engines and without ZeRO."""
    from dsregress.probe.frameworks.simulated_card import card_of
    from dsregress.probe.oracles import ideal as oracle
    from dsregress.probe.oracles import plain_memory
    from dsregress.probe.workloads import objectives
    from dsregress.probe.workloads.workload import Workload, pick

    work, shard = pick(Workload, parameters), pick(Sharding, parameters)
    if work.second_engine or work.reference == "beside":
        raise NotCoveredError("ZeRO's arithmetic is that of one engine")
    job = oracle.from_configuration(
        effective_zero(deepspeed_config(parameters, shape["hidden_size"])["zero_optimization"]),
        world_size=work.world_size,
        element_bytes=4 if autocasts(work, shard) else work.torch_dtype.itemsize,
        gradient_bytes={None: 0, "fp32": 4, "bf16": 2, "fp16": 2}[shard.gradient_accumulation_dtype],
        micro_batches=work.gradient_accumulation_steps,
        backwards=len(objectives.objective_of(work).losses),
        cublas_bytes=card_of(parameters).blas_workspace_bytes if device == "sim" else 0,
    )
    if job.stage == 0:
        raise NotCoveredError("without ZeRO the framework holds what it likes")
    taken = _taken(work, shape, meter, device) if device != "cuda" else None
    return oracle.ideal_memory(plain_memory.model_sizes(work, shape), job, taken, one_memory=device == "cpu")


def _taken(work: Any, shape: Mapping[str, Any], meter: Meter, device: str) -> Any:
    """Return the memory that plain PyTorch takes for a micro-batch, which is the same for all releases of a workload."""
    from dsregress.probe.oracles import plain_memory, truth_store

    file = truth_store.memory_file_of(work, shape, device)
    if file is not None and (kept := truth_store.read_memory(file)) is not None:
        return kept
    taken = plain_memory.activations(work, shape, meter, accelerator(device))
    if file is not None:
        truth_store.write_memory(file, taken)
    return taken


def model(training: DeepSpeedTraining) -> Any:
    """Return the model, whose modules have names (see `dsregress.probe.holders.sites`)."""
    return training._engine.module


def holders(training: DeepSpeedTraining) -> Iterator[tuple[str, str, object]]:
    """Yield (category, parameter or "", tensor) for all that the engine holds (see `dsregress.probe.holders.sites`)."""
    from dsregress.probe.frameworks import zero_holders

    return zero_holders.held_tensors(training._engine)
