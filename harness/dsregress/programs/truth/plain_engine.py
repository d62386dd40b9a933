"""An engine in plain PyTorch that replaces DeepSpeed's.

It does what DeepSpeed promises for a configuration, without its methods: the whole model on each rank, mixed precision
with fp32 weights, gradients averaged over ranks and micro-batches in fp32, clipped by the norm of all, and torch's
optimizer. It has the methods that training calls. Any other method of DeepSpeed's ends the program with `HasNot`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from dsregress.probe.oracles.mixed_precision import MixedPrecision
from dsregress.programs.truth import plain_settings
from dsregress.programs.truth.plain_settings import LossScale, NoTruth
from vgpu import autocast_state

#: Files of a checkpoint.
_STATE, _CLIENT = "plain_engine.pt", "client_state.pt"
_COUNTS = ("micro_steps", "global_steps", "global_samples", "skipped_steps")

DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class HasNot(AttributeError):
    """The program calls what only DeepSpeed has. An AttributeError, so that a program may test for it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the program calls engine.{name}, which plain PyTorch does not have")


@dataclass(frozen=True, kw_only=True)
class GivenToInitialize:
    """Arguments of ``deepspeed.initialize`` besides the model and the configuration."""

    optimizer: Any = None
    parameters: Any = None
    scheduler: Any = None
    training_data: Any = None
    collate_fn: Any = None
    sequence_ranks: int = 1  #: that divide each sequence, by ``mpu``


@dataclass(frozen=True, kw_only=True)
class EngineStart:
    """Weights that training begins with, by name; those of the model are used for the others. They are perturbed by a
    rounding of the dtype ``perturbed`` if ``perturbations``, the seed, is a number."""

    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    perturbations: int | None = None
    perturbed: torch.dtype | None = None


_NOTHING_GIVEN, _AS_BUILT = GivenToInitialize(), EngineStart()


class PlainEngine(torch.nn.Module):
    """An engine whose weights begin as ``start`` says. Raises NoTruth if plain PyTorch cannot do what the configuration
    promises."""

    #: The attributes of DeepSpeed's own class; all others are the model's.
    names_of_deepspeed: frozenset[str] = frozenset()

    def __init__(
        self,
        model: torch.nn.Module,
        config: object,
        given: GivenToInitialize = _NOTHING_GIVEN,
        start: EngineStart = _AS_BUILT,
    ) -> None:
        super().__init__()
        self.number = 0  #: in the order in which the program makes its engines
        self.world_size = dist.get_world_size()
        self.dp_world_size = self.world_size // given.sequence_ranks
        self.global_rank = dist.get_rank()
        self.config = config
        self.device = torch.device("cpu")
        self.micro_steps = self.global_steps = self.global_samples = self.skipped_steps = 0
        self.module = model
        self.computes_in: torch.dtype = torch.float32  #: of computation, in the program's autocast too; not of weights
        self._settings = settings = plain_settings.read_plain_settings(config, self.dp_world_size)
        self._norm: float | None = None
        self._boundary: bool | None = None
        self._scale = LossScale(settings.fp16) if settings.dtype == torch.float16 else None
        self.training_dataloader = self._loader(given.training_data, given.collate_fn)
        if settings.dtype != torch.float32:
            model.to(settings.dtype)
        self.computes_in = settings.dtype
        with torch.no_grad():
            for name, values in model.named_parameters():
                if name in start.weights:
                    values.copy_(start.weights[name])
                dist.broadcast(values.data, 0)
        self.optimizer = self._optimizer(given.optimizer, given.parameters)
        self.basic_optimizer = self.optimizer
        self.lr_scheduler = None if self.optimizer is None else self._scheduler(given.scheduler)
        self.training_precision = self._mixed(start.perturbations, start.perturbed)

    # -- construction ------------------------------------------------------------------------------------------------

    def _optimizer(self, given: Any, parameters: Any) -> torch.optim.Optimizer | None:
        if given is None and self._settings.optimizer is None:
            return None
        wanted = self.module.parameters() if parameters is None else parameters
        groups = [group for group in wanted if isinstance(group, dict) or group.requires_grad]
        if given is None:
            return plain_settings.make_optimizer(self._settings, groups)
        return plain_settings.as_torch_optimizer(given if isinstance(given, torch.optim.Optimizer) else given(groups))

    def _scheduler(self, given: object) -> Any:
        if given is not None:
            return given(self.optimizer) if callable(given) and not hasattr(given, "step") else given
        if self._settings.scheduler is None:
            return None
        from deepspeed.runtime import lr_schedules

        name = self._settings.scheduler.get("type")
        kind = getattr(lr_schedules, str(name), None) or getattr(torch.optim.lr_scheduler, str(name), None)
        if kind is None:
            raise NoTruth(f"there is no schedule {name!r}")
        return kind(self.optimizer, **(self._settings.scheduler.get("params") or {}))

    def _mixed(self, perturbations: int | None, perturbed: torch.dtype | None) -> MixedPrecision:
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        optimized = {id(p) for group in groups for p in group["params"] if p.requires_grad}
        trained = {name: p for name, p in self.module.named_parameters() if id(p) in optimized}
        for name, parameter in trained.items():
            if getattr(parameter, "allreduce", True) is False:
                raise NoTruth(f"{name} belongs to an expert, which not all ranks have")
            if parameter.dtype != self._settings.dtype:
                raise NoTruth(
                    f"{name} is {parameter.dtype}, and the DeepSpeed configuration says {self._settings.dtype}"
                )
        mixed = MixedPrecision(
            trained,
            unit=torch.finfo(perturbed or self._settings.dtype).eps,
            clip=self._settings.clip,
            perturbations=perturbations,
            frozen=[p for p in self.module.parameters() if id(p) not in optimized and p.is_floating_point()],
            gradient_perturbations=None if perturbations is None else 1000 * perturbations + self.global_rank,
        )
        masters = {id(parameter): mixed.master(name) for name, parameter in trained.items()}
        for group in groups:
            group["params"] = [masters[id(p)] for p in group["params"] if id(p) in masters]
        return mixed

    def _loader(self, data: object, collate_fn: object) -> Any:
        if data is None:
            return None
        if self.dp_world_size != self.world_size:
            raise NoTruth("it divides sequences, and gives its data to DeepSpeed")
        from deepspeed.runtime.dataloader import DeepSpeedDataLoader

        return DeepSpeedDataLoader(
            dataset=data,
            batch_size=self._settings.micro_batch,
            pin_memory=False,
            local_rank=0,
            tput_timer=None,
            collate_fn=collate_fn,
            data_parallel_world_size=self.world_size,
            data_parallel_rank=self.global_rank,
            dataloader_drop_last=self._settings.drop_last,
        )

    # -- training ----------------------------------------------------------------------------------------------------

    def forward(self, *inputs: object, **more: object) -> Any:
        for device in ("cuda", "cpu"):
            if autocast_state.enabled(device):
                self.computes_in = autocast_state.dtype(device)
        return self.module(*inputs, **more)

    def backward(
        self, loss: torch.Tensor, retain_graph: bool = False, scale_wrt_gas: bool = True, **_: object
    ) -> torch.Tensor:
        """Run a micro-batch's backward, and add its gradients to the step's. Return the loss's share of the step."""
        mixed = self._trains("backward")
        loss = loss / self._settings.accumulation if scale_wrt_gas else loss
        scale = self._scale.value if self._scale else 1.0
        self._take_over()
        (loss.float() * scale if self._scale else loss).backward(retain_graph=retain_graph)
        mixed.accumulate(1 / scale)
        return loss

    def step(self, lr_kwargs: Mapping[str, object] | None = None) -> None:
        """End a micro-batch. At the boundary, average the gradients over all ranks and update the weights."""
        mixed = self._trains("step")
        self._take_over()
        if self.is_gradient_accumulation_boundary():
            for gradient in mixed.gradients():
                dist.all_reduce(gradient)
                gradient /= self.world_size if self._settings.averages_sequences else self.dp_world_size
            self._update(mixed, lr_kwargs or {})
            self.global_steps += 1
            self.global_samples += self.train_batch_size()
        self.micro_steps += 1

    def _update(self, mixed: MixedPrecision, lr_kwargs: Mapping[str, object]) -> None:
        assert self.optimizer is not None
        finite = all(bool(gradient.isfinite().all()) for gradient in mixed.gradients())
        if self._scale is not None:
            self._scale.stepped(overflow=not finite)
        elif not finite:
            raise NoTruth(f"a gradient of step {self.global_steps + 1} is not finite")
        if finite:
            self._norm = mixed.clipped()
            self.optimizer.step()
            if self.lr_scheduler is not None:
                self.lr_scheduler.step(**lr_kwargs)
        else:
            self._norm = float("inf")
            self.skipped_steps += 1
        mixed.begin_step()

    def _take_over(self) -> None:
        """Take over the gradients of the program's own ``loss.backward()``, which DeepSpeed divides by the accumulation.
        Raise NoTruth in fp16, whose losses are scaled."""
        mixed = self._trains("step")
        if self._scale is not None and mixed.has_gradients():
            raise NoTruth("the program calls loss.backward() itself, and fp16 losses are scaled")
        mixed.accumulate(1 / self._settings.accumulation)

    def _trains(self, name: str) -> MixedPrecision:
        if self.optimizer is None:
            raise NoTruth(f"the program calls engine.{name} of a model without an optimizer")
        return self.training_precision

    # -- queries -----------------------------------------------------------------------------------------------------

    def is_gradient_accumulation_boundary(self) -> bool:
        if self._boundary is not None:
            return self._boundary
        return (self.micro_steps + 1) % self._settings.accumulation == 0

    def set_gradient_accumulation_boundary(self, is_boundary: bool) -> None:
        self._boundary = is_boundary

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        yield  # gradients are added up on each rank until the step in any case

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: DeepSpeed drops gradients in ``step`` by itself."""

    def get_global_grad_norm(self) -> float | None:
        """Return the norm of the last step's gradients before clipping; infinite if an fp16 step overflowed."""
        return self._norm

    def get_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups] if self.optimizer is not None else []

    def train_batch_size(self) -> int:
        """Return the sequences of a step, of all ranks and micro-batches."""
        return self._settings.micro_batch * self._settings.accumulation * self.dp_world_size

    def train_micro_batch_size_per_gpu(self) -> int:
        return self._settings.micro_batch

    def gradient_accumulation_steps(self) -> int:
        return self._settings.accumulation

    def gradient_clipping(self) -> float:
        """Return the norm to which gradients are clipped; 0.0 if they are not."""
        return self._settings.clip or 0.0

    def fp16_enabled(self) -> bool:
        return self._settings.dtype == torch.float16

    def bfloat16_enabled(self) -> bool:
        return self._settings.dtype == torch.bfloat16

    def was_step_applied(self) -> bool:
        """Return False if the last step was skipped, because a gradient of fp16 overflowed."""
        return self._norm != float("inf")

    def zero_optimization(self) -> bool:
        """Return False: nothing is sharded."""
        return False

    def zero_optimization_stage(self) -> int:
        return 0

    def zero_optimization_partition_gradients(self) -> bool:
        return False

    def zero_optimization_partition_weights(self) -> bool:
        return False

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def save_checkpoint(
        self,
        save_dir: str,
        tag: object = None,
        client_state: Mapping[str, object] | None = None,
        save_latest: bool = True,
        exclude_frozen_parameters: bool = False,
    ) -> bool:
        tag = str(tag or f"global_step{self.global_steps}")
        if self.global_rank == 0:
            folder = Path(save_dir) / tag
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(self._state(), folder / _STATE)
            torch.save(dict(client_state or {}), folder / _CLIENT)
            if save_latest:
                (Path(save_dir) / "latest").write_text(tag)
        dist.barrier()
        return True

    def load_checkpoint(
        self,
        load_dir: str,
        tag: object = None,
        load_module_strict: bool = True,
        load_optimizer_states: bool = True,
        load_lr_scheduler_states: bool = True,
        load_module_only: bool = False,
        **others: object,
    ) -> tuple[str | None, dict[str, Any]]:
        if load_module_only or others or not (load_optimizer_states and load_lr_scheduler_states):
            raise NoTruth("it loads a part of a checkpoint")
        latest = Path(load_dir) / "latest"
        if not tag and not latest.exists():
            return None, {}
        folder = Path(load_dir) / str(tag or latest.read_text())
        state = torch.load(folder / _STATE, weights_only=False)
        self.module.load_state_dict(state["module"], strict=load_module_strict)
        mixed = self._trains("load_checkpoint")
        with torch.no_grad():
            for name, values in state["masters"].items():
                mixed.master(name).copy_(values)
        mixed.begin_step()
        assert self.optimizer is not None
        self.optimizer.load_state_dict(state["optimizer"])
        if self.lr_scheduler is not None and state["scheduler"] is not None:
            self.lr_scheduler.load_state_dict(state["scheduler"])
        self._scale = state["scale"]
        for name, count in state["counts"].items():
            setattr(self, name, count)
        return str(folder), torch.load(folder / _CLIENT, weights_only=False)

    def _state(self) -> dict[str, Any]:
        """Return the state needed to resume training."""
        mixed = self._trains("save_checkpoint")
        assert self.optimizer is not None
        scheduler: Any = self.lr_scheduler
        return {
            "module": self.module.state_dict(),
            "masters": mixed.parameters,
            "optimizer": self.optimizer.state_dict(),
            "scheduler": scheduler.state_dict() if hasattr(scheduler, "state_dict") else None,
            "scale": self._scale,
            "counts": {name: getattr(self, name) for name in _COUNTS},
        }

    def save_16bit_model(self, *_: object, **__: object) -> bool:
        """Save nothing: no training resumes from it."""
        return True

    def destroy(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name in self.names_of_deepspeed:
                raise HasNot(name) from None
            return getattr(super().__getattr__("module"), name)
