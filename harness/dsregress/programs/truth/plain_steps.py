"""Computes a kept step again (`watch.kept_steps`), in plain PyTorch and in one process, for all ranks: what the models
return, the mean of the ranks' gradients, their norm, clipping, and the optimizer's update."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dsregress.probe.border.faults import signature_of
from dsregress.probe.oracles.mixed_precision import MixedPrecision
from dsregress.programs.truth import counts_of_parts, divided_layers, divided_sequences, plain_model
from dsregress.programs.truth.plain_settings import NoTruth
from dsregress.programs.watch import kept_calls
from dsregress.programs.watch.kept_calls import KeptCall
from dsregress.programs.watch.kept_steps import Clip, KeptStep, KeptSteps, Snapshot
from dsregress.programs.watch.module_values import ModuleValues, ModuleWatch, RankPart
from dsregress.programs.watch.weight_pieces import UnknownDivision, Wholes
from dsregress.programs.world import random_state

#: Optimizers of torch's that are computed again, each weight by itself.
_OPTIMIZERS = (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD)

#: Options of a group that choose how torch computes, not what.
_WAYS = {"foreach": False, "fused": None, "capturable": False, "differentiable": False}

Tensors = dict[str, torch.Tensor]


class WholeStep:
    """A step of all ranks, with whole weights."""

    def __init__(self, ranks: Sequence[KeptStep]) -> None:
        self.ranks, self.first = ranks, ranks[0]
        self.number = self.first.number
        if any(len(rank.calls) != len(self.first.calls) for rank in ranks):
            raise NoTruth("its ranks call their models differently often")
        if (why := next((call.why for rank in ranks for call in rank.calls if call.why), "")) != "":
            raise NoTruth(why)
        if self.first.optimizer not in _OPTIMIZERS:
            raise NoTruth(f"plain PyTorch does not compute a step of {_name(self.first.optimizer)} again")
        self.before = self._of_all_ranks(lambda rank: rank.before)
        self.after = self._of_all_ranks(lambda rank: rank.after)
        self.leftover = self._of_all_ranks(lambda rank: rank.leftover, are_gradients=True)
        self.gradients = self._of_all_ranks(lambda rank: rank.gradients, are_gradients=True)
        self.used = self._of_all_ranks(lambda rank: rank.used, are_gradients=True)
        self.stepped = [piece.name for number in self.first.stepped for piece in self.first.pieces[number]]

    def _of_all_ranks(
        self, of: Callable[[KeptStep], Sequence[torch.Tensor | None]], *, are_gradients: bool = False
    ) -> Tensors:
        found = Wholes()
        for rank in self.ranks:
            places = rank.places if are_gradients else [(pieces, None) for pieces in rank.pieces]
            for (pieces, summand), values in zip(places, of(rank)):
                here = [one for one in pieces if one.count != 0]
                if values is None or not here:
                    continue
                if summand is not None or rank is self.first or not _is_replica(here, values):
                    try:
                        found.add(here, values, summand)
                    except UnknownDivision as error:
                        raise NoTruth(str(error)) from error
        return found.values

    def clips(self) -> Iterator[tuple[list[str], float, Tensors | None]]:
        """Yield the names, the limit, and the gradients before each clipping: None if they are those that the last one, or
        the backward, left."""
        last: Snapshot = self.first.gradients
        for number, clip in enumerate(self.first.clips):
            names = [piece.name for weight in clip.weights for piece in self.first.pieces[weight]]
            before = (
                None if clip.before is last else self._of_all_ranks(_gradients_before_clip(number), are_gradients=True)
            )
            yield names, clip.limit, before
            last = clip.after

    @property
    def uses_its_gradients(self) -> bool:
        """Return True if the optimizer steps by the gradients that clipping, or else the backward, left."""
        return self.first.used is (self.first.clips[-1].after if self.first.clips else self.first.gradients)

    def states(self) -> dict[str, dict[str, Any]]:
        """Return the optimizer's state of each weight."""
        found: dict[str, dict[str, Any]] = {}
        for number in self.first.stepped:
            for key, value in next((rank.states[number] for rank in self.ranks if rank.states[number]), {}).items():
                if not isinstance(value, torch.Tensor) or value.dim() == 0:
                    for piece in self.first.pieces[number]:
                        found.setdefault(piece.name, {})[key] = value
                else:
                    for name, whole in self._of_all_ranks(_state_of(number, key)).items():
                        found.setdefault(name, {})[key] = whole.float()
        return found


def _is_replica(pieces: Sequence[Any], values: torch.Tensor) -> bool:
    return len(pieces) == 1 and pieces[0].is_whole and tuple(values.shape) == pieces[0].shape


def _gradients_before_clip(number: int) -> Callable[[KeptStep], Snapshot]:
    def before(rank: KeptStep) -> Snapshot:
        clip: Clip = rank.clips[number]
        return clip.before

    return before


def _state_of(number: int, key: str) -> Callable[[KeptStep], list[torch.Tensor | None]]:
    return lambda rank: [state.get(key) if at == number else None for at, state in enumerate(rank.states)]


class PlainStep:
    """One computation of a step: ``loss`` of rank 0, ``gradients``, those ``used``, the ``norm``, weights ``after`` and, if
    wanted, what the ``modules`` gave in each call of each rank."""

    def __init__(self) -> None:
        self.loss = self.norm = math.nan
        self.gradients: Tensors = {}
        self.used: Tensors = {}
        self.after: Tensors = {}
        self.modules: list[list[ModuleValues]] = []


class PlainSteps:
    """The kept models of this process, made plain for good, and what is computed with them."""

    def __init__(self, kept: KeptSteps, ranks: int) -> None:
        self._forwards = kept.forwards == [kept_calls.forward_of(root) for root in kept.roots]
        units = [list(plain_model.units_of(root)) for root in kept.roots]
        #: FSDP2 leaves the division to the collective; FSDP1 and DDP divide
        self.asks_gloo_for_means = any(plain_model.is_fsdp2(root) for root in kept.roots)
        dtypes: dict[int, torch.dtype | None] = {}
        self._groups = [[rank] for rank in range(ranks)]  #: of ranks that divide each layer between them
        for root, own in zip(kept.roots, units):
            meshes = [unit.mesh for unit in own if unit.mesh is not None]
            of_root = divided_layers.layer_groups(root, kept.weights, meshes, ranks)
            if len(kept.roots) > 1 and of_root != self._groups:
                raise NoTruth("a tensor parallel plan was applied to one of several models")
            self._groups = of_root
            plain_model.check_ranks(root, of_root, own)
            dtypes |= plain_model.computing_dtypes(root, own)
        self._parameters: dict[str, torch.nn.Parameter] = {}
        for weight in kept.weights:
            dtype = dtypes.get(id(weight.parameter)) or weight.parameter.dtype
            for piece in weight.pieces:
                if weight.is_divided or weight.parameter.requires_grad:
                    empty = torch.zeros(piece.shape, dtype=dtype)
                    self._parameters[piece.name] = torch.nn.Parameter(empty, weight.parameter.requires_grad)
                else:  # it may be of a class of its own, as a quantized weight
                    self._parameters[piece.name] = weight.parameter
        self._divided = [self._parameters[p.name] for w in kept.weights if w.is_divided for p in w.pieces]
        self._counts: Sequence[str] | None = None  #: names of modules' numbers that count a rank's part; None: unknown
        self._roots = [
            plain_model.made_plain(root, own, kept.weights, self._parameters) for root, own in zip(kept.roots, units)
        ]
        self._reduces = {unit.reduces_in for own in units for unit in own if unit.reduces_in is not None}
        self.watched = _Watched({parameter.dtype for parameter in self._parameters.values()} | self._reduces)
        self.apart = ""  #: how the ranks differ in a later step
        self.draws_otherwise = False  #: whether a call drew other random numbers than the program's

    def compute(self, step: WholeStep, seed: int | None, *, watches: bool = False) -> PlainStep:
        """Compute a step, with weights and gradients that are off by a rounding if ``seed`` is a number. ``watches``: keep
        what the modules give. Raise NoTruth."""
        with torch.no_grad():
            for name, values in step.before.items():
                if self._parameters[name].is_floating_point():
                    self._parameters[name].copy_(values)
        stepped = set(step.stepped)
        mixed = MixedPrecision(
            {name: self._parameters[name] for name in step.stepped},
            unit=self.rounding,
            perturbations=seed,
            frozen=[p for name, p in self._parameters.items() if name not in stepped and p.is_floating_point()],
            gradient_perturbations=None if seed is None else 1000 * seed,
        )
        made, change = PlainStep(), 0.0
        made.modules = [[] for _ in step.ranks]
        for team in divided_sequences.teams(step.ranks, self._groups):
            for number in range(len(step.first.calls)):
                calls = [step.ranks[min(group)].calls[number] for group in team]
                seen = [self._watches(step, group, number, locates=seed is None) if watches else {} for group in team]
                repeats = [functools.partial(self._call, call, list(one.values())) for call, one in zip(calls, seen)]
                changes = divided_sequences.repeated(repeats, calls, lambda: mixed.accumulate(1 / len(self._groups)))
                for rank, watched in (of_rank for one in seen for of_rank in one.items()):
                    made.modules[rank].append(watched.values)
                change += sum(changed for group, changed in zip(team, changes) if min(group) == 0)
        if step.first.losses:
            made.loss = (sum(step.first.losses) + change) / len(step.first.losses)
        made.gradients = dict(zip(mixed.parameters, mixed.gradients()))
        for name, values in step.leftover.items():
            if name in made.gradients:
                made.gradients[name] = made.gradients[name] + values.float()
        _use(step, made)
        _update(step, made)
        return made

    def alike(self, steps: Sequence[WholeStep]) -> list[WholeStep]:
        """Return the steps before the ranks go apart: what is wrong is wrong before that. Raise NoTruth if they are apart
        from the first step on."""
        found: list[WholeStep] = []
        for step in steps:
            try:
                divided_layers.check_same_data(step.ranks, self._groups)
                divided_layers.check_same_weights(step.ranks)
                divided_sequences.check_parts(step.ranks, self._groups)
            except NoTruth as error:
                self.apart = str(error)
                break
            found.append(step)
        if not found:
            raise NoTruth(self.apart)
        return found

    @property
    def rounding(self) -> float:
        """Return the size of a rounding, relative to what is rounded."""
        return torch.finfo(self.watched.coarsest).eps

    def _watches(self, step: WholeStep, group: Sequence[int], number: int, *, locates: bool) -> dict[int, ModuleWatch]:
        """Return what keeps, by rank, its part of the modules' values in a call of a group."""
        found = {}
        for at, rank in enumerate(group):
            call = step.ranks[rank].calls[number]
            part = RankPart(at, len(group), call.modules) if len(group) > 1 else None
            found[rank] = ModuleWatch(self._roots[call.root], locates=locates, part=part)
        return found

    def _restore(self, call: KeptCall) -> None:
        root = self._roots[call.root]
        kept_calls.restore_random_states(call.random)
        for module, scalars in zip(root.modules(), call.scalars):
            vars(module).update(scalars)
        counts_of_parts.multiply_counts(root, self._divided, self._counts or (), len(self._groups[0]))
        with torch.no_grad():
            for buffer, values in zip(root.buffers(), call.buffers):
                buffer.copy_(values)

    def _find_counts(self, call: KeptCall) -> None:
        """Find out, at the first call of a model whose layers are divided, which numbers of its modules count a
        rank's part."""
        if self._counts is not None or len(self._groups[0]) == 1:
            return

        def returned(names: Sequence[str]) -> list[torch.Tensor]:
            self._counts = names
            self._restore(call)
            args, kwargs = (kept_calls.copied(one) for one in call.given)
            with _autocast(call.autocast):
                out = self._roots[call.root](*args, **kwargs)
            return [one.detach() for one in kept_calls.tensors_in(out) if one.requires_grad]

        names = counts_of_parts.names_of_counts(self._roots[call.root], self._divided)
        self._counts = counts_of_parts.chosen_names(names, returned, call.returned, self.rounding) or ()

    def _call(self, call: KeptCall, watches: Sequence[ModuleWatch]) -> float:
        """Repeat a call and its backward. Return by how much the loss would change with what it returns now."""
        root = self._roots[call.root]
        if not self._forwards:
            raise NoTruth("its model's forward was replaced while it was called")
        try:
            self._find_counts(call)
            self._restore(call)
            args, kwargs = (kept_calls.copied(one) for one in call.given)
            with self.watched, _autocast(call.autocast):
                with contextlib.ExitStack() as stack:
                    for watch in watches:
                        stack.enter_context(watch)
                    out = root(*args, **kwargs)
                self.draws_otherwise |= random_state.random_digest() != call.drawn
                returned = [one for one in kept_calls.tensors_in(out) if one.requires_grad]
                if [one.shape for one in returned] != [one.shape for one in call.returned]:
                    raise NoTruth("its model returns other tensors when it is called again")
                of_all = zip(returned, call.returned, call.gradients)
                used = [
                    (one, old, g) for at, (one, old, g) in enumerate(of_all) if g is not None and at in call.outside
                ]
                if len(used) > 1:  # one may be made of another: what comes back for each is known
                    for one, _, gradient in used:
                        one.register_hook(_always(gradient))
                change = sum(float((g.double() * (one.double() - old.double())).sum().detach()) for one, old, g in used)
                torch.autograd.backward([one for one, _, _ in used], [g.to(one.dtype) for one, _, g in used])
        except NoTruth:
            raise
        except Exception as error:  # of the program's model, of any kind
            raise NoTruth(f"its model cannot be called again: {signature_of(error)}") from error
        return change


def _always(gradient: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda own: gradient.to(own.dtype)


@contextlib.contextmanager
def _autocast(kept: Mapping[str, torch.dtype]) -> Iterator[None]:
    if not kept:
        yield
        return
    device, dtype = next(iter(kept.items()))
    with torch.autocast(device, dtype=dtype):
        yield


class _Watched(TorchDispatchMode):
    """Finds out in which dtypes it is computed, and refuses what other ranks are needed for."""

    def __init__(self, dtypes: set[torch.dtype]) -> None:
        super().__init__()
        self.dtypes = {dtype for dtype in dtypes if dtype.is_floating_point}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("c10d", "_c10d_functional", "c10d_functional"):
            raise NoTruth("its model communicates with other ranks while it is called")
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.is_floating_point() and out.dim() > 1:
            self.dtypes.add(out.dtype)
        return out

    @property
    def coarsest(self) -> torch.dtype:
        """Return the dtype of the largest rounding."""
        return max(self.dtypes or {torch.float32}, key=lambda dtype: torch.finfo(dtype).eps)


def _use(step: WholeStep, made: PlainStep) -> None:
    """Clip the gradients as the step did."""
    used = dict(made.gradients)
    for number, (names, limit, before) in enumerate(step.clips()):
        if before is not None:
            used = {name: values.float() for name, values in before.items()}
        clipped = [name for name in names if name in used]
        norm = total_norm(used[name] for name in clipped)
        if number == 0:
            made.norm = norm
        scale = min(1.0, limit / (norm + 1e-6))
        used |= {name: used[name] * scale for name in clipped}
    if not step.uses_its_gradients:
        used = {name: values.float() for name, values in step.used.items()}
    made.used = {name: values for name, values in used.items() if name in step.used or bool(values.any())}
    if not step.first.clips:
        made.norm = total_norm(made.used.values())


def total_norm(tensors: Any) -> float:
    """Return the norm of all of them together."""
    return math.sqrt(sum(float(values.double().pow(2).sum()) for values in tensors))


def _update(step: WholeStep, made: PlainStep) -> None:
    """Take the optimizer's step in fp32, one weight at a time."""
    weights = {name: torch.nn.Parameter(step.before[name].float().clone()) for name in step.stepped}
    groups = []
    for options, numbers in step.first.groups:
        names = [piece.name for number in numbers for piece in step.first.pieces[number]]
        groups.append(
            {**options, **{k: v for k, v in _WAYS.items() if k in options}, "params": [weights[n] for n in names]}
        )
    assert step.first.optimizer is not None
    optimizer = step.first.optimizer([{"params": group["params"]} for group in groups], lr=1e-3)
    for group, wanted in zip(optimizer.param_groups, groups):
        group.update(wanted)
    for name, state in step.states().items():
        optimizer.state[weights[name]] = {key: _copied(value) for key, value in state.items()}
    for name, weight in weights.items():
        weight.grad = made.used.get(name)
    optimizer.step()
    made.after = {name: weight.detach() for name, weight in weights.items()}


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _name(kind: type | None) -> str:
    return "an unknown optimizer" if kind is None else kind.__name__
