"""Results that no machine measured."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from dsregress.model import Cell, Hardware, Outcome, Passed, Result, Stack
from dsregress.probe.border.wire import REGULAR_PHASES, Detail, Numerics, RankRecord, RunRecord
from dsregress.store import SCHEMA, detail_hashes
from tests.builders.cells import RANK
from vgpu.figures import PhaseReading

HARDWARE = Hardware(cpu="a processor", cores=2, memory_bytes=24 << 30)
MIB = 1 << 20


def stack(deepspeed: str, **versions: str) -> Stack:
    return Stack(
        python="3.11", versions={"torch": "2.13.0", "transformers": "4.57.6", **versions, "deepspeed": deepspeed}
    )


def record(*, ranks: int = 2, rounds: int = 9, step_s: float = 0.5, rng: random.Random | None = None) -> RunRecord:
    """A passed run of a small model. ``rng`` disturbs the rounds by a few per cent."""
    noise = rng or random.Random(0)
    return RunRecord(
        outcome="passed",
        import_s=6.0,
        world_size=ranks,
        ranks=[
            RankRecord(
                rank=rank,
                init_s=1.5,
                phases={
                    phase: PhaseReading(
                        device_peak_bytes=(4 + at) * MIB,
                        device_retained_bytes=2 * MIB + at * 1024,
                        host_peak_bytes=0,
                        host_retained_bytes=0,
                        seconds=step_s / 4,
                        host_calls=100_000 * (at + 1),
                        flops=10_000_000 * at,
                        collectives={"all_gather": [8, MIB], "reduce_scatter": [4 * at, at * MIB]},
                    )
                    for at, phase in enumerate(REGULAR_PHASES)
                },
                numerics=Numerics(
                    losses=[6.2, 6.1],
                    gradient_norms=[1.2, 1.1],
                    parameter_digest="d0",
                    true_losses=[6.2, 6.1],
                    true_gradient_norms=[1.2, 1.1],
                    loss_error=0.1,
                    gradient_norm_error=0.2,
                    parameter_error=0.3,
                )
                if rank == 0
                else None,
            )
            for rank in range(ranks)
        ],
        round_s=[step_s * (1 + noise.gauss(0, 0.02)) for _ in range(rounds)],
    )


def noisy_record(seed: int, *, held_mib: int = 0, calls: int = 1, step_s: float = 0.5) -> RunRecord:
    """Disturbed rounds; ``held_mib`` more MiB after backward, ``calls`` times the calls, steps of ``step_s`` seconds."""
    made = record(rng=random.Random(seed), step_s=step_s)
    for rank in made.ranks:
        rank.phases["backward"].device_retained_bytes += held_mib * MIB
        rank.phases["backward"].device_peak_bytes += held_mib * MIB
        rank.phases["step"].device_peak_bytes += held_mib * MIB
        rank.phases["backward"].host_calls *= calls
    return made


def result(
    deepspeed: str = "0.15.0",
    *,
    scenario: str = "llama_zero3_backward",
    variant: str = "gradient_checkpointing=non_reentrant",
    device: str = "cpu",
    outcome: Outcome | None = None,
    run: RunRecord | None = None,
    **changes: Any,
) -> Result:
    """One result; ``run`` defaults to `record` where it passed."""
    ended = outcome if outcome is not None else Passed()
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "cell": Cell(
            stack=stack(deepspeed),
            scenario=scenario,
            scenario_version=1,
            variant=variant,
            device=device,
            framework="deepspeed",
            parameters={"model": "llama-tiny", "zero_stage": 3},
        ),
        "lock_sha256": "lock",
        "code_sha256": f"code-{deepspeed}",
        "probe_sha256": "probe",
        "measuring_version": "1",
        "installed": {"torch": "2.13.0", "deepspeed": deepspeed, "numpy": "2.0"},
        "hardware": HARDWARE,
        "session": "one",
        "started_at": "2026-01-01T00:00:00Z",
        "duration_s": 12.0,
        "outcome": ended,
        "record": (run or record()) if isinstance(ended, Passed) else run,
    }
    return Result(**{**fields, **changes})


def stored_result(
    outcome: Outcome | None = None,
    session: str = "s1",
    started_at: str = "2026-01-01T00:00:00Z",
    code_sha256: str = "c",
    lock_sha256: str = "l",
    probe_sha256: str = "p",
    measuring_version: str = "1",
    rounds: int = 9,
    detail: Detail | None = None,
) -> Result:
    """The least that the store keeps, of one cell; what its key is made of can be changed."""
    cell = Cell(
        stack=Stack(python="3.11", versions={"deepspeed": "0.16.4"}),
        scenario="llama",
        scenario_version=1,
        variant="base",
        device="cpu",
        framework="deepspeed",
        parameters={"zero_stage": 3},
    )
    return Result(
        schema=SCHEMA,
        cell=cell,
        lock_sha256=lock_sha256,
        code_sha256=code_sha256,
        probe_sha256=probe_sha256,
        measuring_version=measuring_version,
        installed={"deepspeed": "0.16.4"},
        hardware=Hardware(cpu="a processor", cores=2, memory_bytes=24 << 30),
        session=session,
        started_at=started_at,
        duration_s=1.5,
        outcome=Passed() if outcome is None else outcome,
        record=RunRecord(outcome="passed", ranks=[RANK], round_s=[0.1] * rounds),
        detail_sha256=detail_hashes(detail) if detail is not None else {},
    )


def results(n_stacks: int, n_workloads: int, seed: int = 0, *, timed: bool = True) -> Iterator[Result]:
    """Every stack on every workload. One stack in five holds more after backward in half of the workloads, one makes
    more calls; all others differ by a few bytes."""
    rng = random.Random(seed)
    for at in range(n_stacks):
        for workload in range(n_workloads):
            run = record(rng=rng, rounds=9 if timed else 0)
            for rank in run.ranks:
                backward = rank.phases["backward"]
                if at % 5 == 3 and workload % 2:
                    backward.device_retained_bytes += 3 * MIB
                    backward.device_peak_bytes += 3 * MIB
                    rank.phases["step"].device_peak_bytes += 2 * MIB
                elif at % 5 == 4:
                    backward.host_calls *= 2
                elif at % 2:
                    rank.phases["init"].device_retained_bytes += 128 * at
            yield result(
                f"0.{at // 10}.{at % 10}",
                variant=f"size={workload}",
                run=run,
                detail_sha256={"configuration": f"c{at // 10}", "warnings": "w"},
            )
