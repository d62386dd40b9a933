"""Synthetic results of the shape and size of real ones, to measure the costs of many."""

from __future__ import annotations

import random
from collections.abc import Iterator

from dsregress.model import Cell, Hardware, Passed, Result, Stack
from dsregress.probe.border.wire import REGULAR_PHASES, Detail, Numerics, RankRecord, RunRecord
from dsregress.store import SCHEMA, detail_hashes
from vgpu.figures import PhaseReading

STACKS = 60
RANKS = 2
ROUNDS = 9
_MIB = 1 << 20


def baseline() -> str:
    """Return the id of the stack that the others are compared with."""
    return _stack(0).id


def results(count: int, seed: int = 0) -> Iterator[tuple[Result, Detail]]:
    """Yield about ``count`` results: each of `STACKS` stacks on each workload, one result each.

    One stack in five holds more memory after backward in half of the workloads, one makes twice the calls, two allocate a
    few bytes more, and rounds scatter by 2 %. Releases of one series share their configuration.
    """
    rng = random.Random(seed)
    hardware = Hardware(cpu="a processor of some length @ 2.60 GHz", cores=2, memory_bytes=24 << 30)
    for number in range(STACKS):
        stack = _stack(number)
        installed = {f"package-{n}": f"{n}.{n % 7}.0" for n in range(50)} | stack.versions
        detail = _detail(number // 10)
        hashes = detail_hashes(detail)
        for workload in range(count // STACKS):
            cell = Cell(
                stack=stack,
                scenario="llama_zero3_backward",
                scenario_version=1,
                variant=f"gradient_checkpointing=non_reentrant,layers={workload}",
                device="cpu",
                framework="deepspeed",
                parameters={f"parameter_{n}": n for n in range(18)} | {"layers": workload},
            )
            yield (
                Result(
                    schema=SCHEMA,
                    cell=cell,
                    lock_sha256=f"{number:064x}",
                    code_sha256=f"{number:064x}",
                    probe_sha256="0" * 64,
                    installed=installed,
                    hardware=hardware,
                    session="20261121T020000-abcd",
                    started_at="2026-11-21T02:00:00Z",
                    duration_s=12.345678,
                    outcome=Passed(),
                    record=_record(number, workload, rng),
                    detail_sha256=hashes,
                ),
                detail,
            )


def _stack(number: int) -> Stack:
    versions = {"torch": "2.13.0", "transformers": "4.57.6", "accelerate": "1.15.0", "peft": "0.21.2"}
    return Stack(python="3.11", versions={**versions, "deepspeed": f"0.{number // 10}.{number % 10}"})


def _detail(series: int) -> Detail:
    return Detail(
        host_functions={
            phase: {f"module.{phase}.function_{n}": 900 - n for n in range(60)} for phase in REGULAR_PHASES[1:]
        },
        configuration={f"section_{n // 10}.setting_{n}": n + series * (n % 97 == 0) for n in range(400)},
        warnings={"a warning that every release gives": 2},
    )


def _record(stack: int, workload: int, rng: random.Random) -> RunRecord:
    ranks = [
        RankRecord(rank=rank, phases={phase: _reading(at, phase, workload) for at, phase in enumerate(REGULAR_PHASES)})
        for rank in range(RANKS)
    ]
    for rank in ranks:
        rank.init_s = 0.3 + rng.random() / 10
        backward, step = rank.phases["backward"], rank.phases["step"]
        if stack % 5 == 3 and workload % 2:
            backward.device_retained_bytes += 3 * _MIB
            backward.device_peak_bytes += 3 * _MIB
            step.device_peak_bytes += 2 * _MIB
        elif stack % 5 == 4:
            backward.host_calls *= 2
        elif stack % 2:
            rank.phases["init"].device_retained_bytes += 128 * stack
    ranks[0].numerics = Numerics(
        losses=[rng.random() for _ in range(3)],
        gradient_norms=[rng.random() for _ in range(3)],
        parameter_digest="46795bd2e83bff5b",
        true_losses=[rng.random() for _ in range(3)],
        true_gradient_norms=[rng.random() for _ in range(3)],
        loss_error=rng.random() / 2,
        gradient_norm_error=rng.random() / 2,
        parameter_error=rng.random() / 2,
        note="furthest from the truth: model.layers.2.post_attention_layernorm.weight",
    )
    return RunRecord(
        outcome="passed",
        import_s=6 + rng.random(),
        world_size=RANKS,
        ranks=ranks,
        round_s=[0.5 * (1 + rng.gauss(0, 0.02)) for _ in range(ROUNDS)],
    )


def _reading(at: int, phase: str, workload: int) -> PhaseReading:
    return PhaseReading(
        device_peak_bytes=(4 + at) * _MIB + 4096 * workload,
        device_retained_bytes=2 * _MIB + 1024 * at + 4096 * workload,
        seconds=0.123456789012345 * at,
        host_calls=100_000 * at,
        op_launches=300 * at,
        flops=64_000_000 * at,
        collectives={"all_gather": [8 + workload % 7, _MIB], "reduce_scatter": [4 * at, at * _MIB]},
    )
