"""``python -m tests.benchmarks [SECTION ...]``: what the harness itself costs, measured on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from dsregress.cli import signals
from dsregress.cli.progress import QuietWatch
from dsregress.config.settings import Settings, read_settings
from dsregress.config.variables import child_environment, installer_environment
from dsregress.envs import hardware
from dsregress.errors import HarnessError
from dsregress.launch.local import LocalExecutor
from dsregress.launch.staging import probe_files
from dsregress.model import LockedStack, Stack
from dsregress.run import available_workloads, pipeline
from dsregress.run.session import open_session
from dsregress.versions import locking
from tests.benchmarks import environments, first_answer, overhead, power, simulation, stored, sweep
from tests.benchmarks.figures import BenchmarkFigure, MachineDescription, lines, write

SECTIONS = ("results", "sim", "overhead", "environments", "first-answer", "sweep", "power")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the sections, print their figures, and return the exit code."""
    options = _options(arguments)
    machine = _machine()
    figures: list[BenchmarkFigure] = []
    benchmark_run = _BenchmarkRun(read_settings(), options)
    sections: dict[str, Callable[[], Iterator[BenchmarkFigure]]] = {
        "results": benchmark_run.results,
        "sim": benchmark_run.sim,
        "overhead": benchmark_run.overhead,
        "environments": benchmark_run.environments,
        "first-answer": benchmark_run.first_answer,
        "sweep": sweep.run,
        "power": benchmark_run.power,
    }
    exit_code = 0
    try:
        for name in dict.fromkeys(options.sections or SECTIONS):
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            for figure in sections[name]():
                figures.append(figure)  # one by one: an interruption leaves those before it
    except HarnessError as error:
        print(f"dsregress: error: {error}", file=sys.stderr)
        exit_code = error.exit_code
    except signals.Interrupted as error:
        print("dsregress: interrupted; what was measured:", file=sys.stderr)
        exit_code = 128 + error.number
    if options.json:
        write(options.json, machine, figures)
    print("\n".join(lines(machine, figures)))
    return exit_code


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--stacks", type=int, default=2, metavar="N", help="stacks to build and run (default: 2)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of what is cheap to repeat (default: 3)")
    parser.add_argument(
        "--budget", type=float, default=1200.0, metavar="SECONDS", help="of the section power (default: 1200)"
    )
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="a checkout that first-answer is compared with, in turns"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    options = parser.parse_args(arguments)
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"no such section: {name} (there are: {', '.join(SECTIONS)})")
    return options


class _BenchmarkRun:
    """The sections, on the first stacks of the project's own configuration."""

    def __init__(self, settings: Settings, options: argparse.Namespace) -> None:
        self._settings = settings
        self._wanted: int = options.stacks
        self._repeats: int = options.repeats
        self._budget_s: float = options.budget
        self._before: Path | None = options.before
        self._installer = pipeline.new_installer(settings)
        self._variables = installer_environment({"DSREGRESS_ENVIRONMENTS": settings.environments})

    def results(self) -> Iterator[BenchmarkFigure]:
        """Measure reports of many stored results."""
        return stored.run(self._variables, self._settings.root, self._repeats)

    def sim(self) -> Iterator[BenchmarkFigure]:
        """Measure simulations at full scale."""
        scenario = available_workloads.load_scenarios(self._settings)[simulation.SCENARIO]
        stacks = self._stacks(1)
        with open_session(self._settings, stacks, QuietWatch(), self._installer) as opened:
            (environment,) = opened.build(stacks)
            yield from simulation.run(environment, scenario, opened.target.executor, self._repeats)

    def overhead(self) -> Iterator[BenchmarkFigure]:
        """Measure the share of a regress that is not the frameworks' own work."""
        stacks = self._stacks(self._wanted)
        with open_session(self._settings, stacks, QuietWatch(), self._installer):
            pass  # built, so that the runs that are timed need not
        releases = [stack.versions["deepspeed"] for stack in stacks]
        cores = hardware.detect().cores
        return overhead.run(releases, self._variables, self._settings.root, cores, min(2, self._repeats))

    def environments(self) -> Iterator[BenchmarkFigure]:
        """Measure the building of environments."""
        cache = Path(self._settings.environments) / "locks"
        locks = locking.lock_all(self._stacks(self._wanted), cache=cache, compile=self._installer.compile)
        locked = [lock for lock in locks if isinstance(lock, LockedStack)]
        return environments.run(locked, installer_environment())

    def first_answer(self) -> Iterator[BenchmarkFigure]:
        """Measure how long one waits for an answer."""
        older, newest = (stack.versions["deepspeed"] for stack in self._stacks(0)[-2:])
        root = Path(self._settings.root).resolve()
        return first_answer.run(self._variables, root, self._before, (older, newest), self._repeats)

    def power(self) -> Iterator[BenchmarkFigure]:
        """Measure the power of step-time comparisons, and their false alarms."""
        scenario = available_workloads.load_scenarios(self._settings)[power.SCENARIO]
        stacks = self._stacks(1)
        with open_session(self._settings, stacks, QuietWatch(), self._installer) as opened:
            (environment,) = opened.build(stacks)
            executor = LocalExecutor(
                folder=self._settings.environments,
                files=probe_files(Path(self._settings.scenarios)) | power.adapters(),
                variables=child_environment(),
                timeout_s=self._settings.timeout_s,
            )
            try:
                yield from power.run(
                    environment, scenario, executor, hardware.detect(), self._settings, self._budget_s, self._share_s
                )
            finally:
                executor.close()

    @property
    def _share_s(self) -> float:
        """Seconds of timed rounds that a workload has in a plain `regress`."""
        timed = [cells for cells in self._settings.select if not cells.endswith("/sim")]
        return self._settings.budget_s / max(1, len(timed))

    def _stacks(self, count: int) -> tuple[Stack, ...]:
        """Return the first stacks; all for 0."""
        return pipeline.plan_stacks(self._settings, pipeline.Choice(), self._installer).stacks[: count or None]


def _machine() -> MachineDescription:
    here = hardware.detect()
    return MachineDescription(
        date=f"{datetime.now(timezone.utc):%Y-%m-%d}",
        cpu=here.cpu,
        cores=here.cores,
        memory_gib=here.memory_bytes / (1 << 30),
        python=sys.version.split()[0],
        load=os.getloadavg()[0],
    )


if __name__ == "__main__":
    signals.catch()
    sys.exit(main())
