"""Results of versions, from the store, or built and measured now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dsregress.bisect.plan import Candidate
from dsregress.envs import hardware, venv
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Cell, Environment, MachineFault, Result
from dsregress.probe.border.machine import REMEDIES
from dsregress.probe.border.wire import Explanation
from dsregress.run import commit_builds, targets
from dsregress.run.eta import GUESSED_STACK_S, guess_s
from dsregress.run.session import Session
from dsregress.store import content_key, key_of, measuring_version, newest_by_cell
from dsregress.store.reuse import reusable
from dsregress.wording.names import outcome_text


class VersionRunner:
    """One workload, run on many versions."""

    def __init__(self, session: Session, cell: Cell) -> None:
        """Start nothing. ``cell`` is the workload on any of the versions."""
        self.settings = session.settings
        self.store = session.store
        self.watch = session.watch
        self.runs = 0  #: versions that were measured, a repeated one each time
        self.spent_s = 0.0
        self._session = session
        self._cell = cell

    def cell(self, version: Candidate) -> Cell:
        """Return the cell of a version."""
        return msgspec.structs.replace(self._cell, stack=version.stack)

    def stored(self, version: Candidate) -> tuple[Result, ...]:
        """Return stored runs of exactly this content, the oldest first. Build nothing: without an environment, the version
        can only be the published one, so the code's hash is taken from the result."""
        lock = commit_builds.known_lock(version.stack, self.settings, version.source)
        if lock is None:
            return ()
        environment = venv.existing_venv(
            lock,
            folder=Path(self.settings.environments),
            gpu=hardware.has_gpu(),
            framework=targets.varied_package(self.settings),
        )
        cell = self.cell(version)
        return tuple(
            result
            for result in self.store.runs(cell)
            if key_of(result)
            == content_key(
                cell,
                lock_sha256=lock.sha256,
                code_sha256=environment.code_sha256 if environment else result.code_sha256,
                measuring_version=measuring_version(cell.device, cell.framework),
                hardware=self._session.target.hardware(),
                image=result.image if self._session.target.has_images else "",
            )
        )

    def counts(self, version: Candidate) -> Result | None:
        """Return the stored run of a version that stands for a new one."""
        return reusable(self.stored(version), 0, self._session.target.executor.probe_sha256())

    def build(self, versions: Sequence[Candidate]) -> tuple[Environment, ...]:
        """Build the versions and return the environment of each, in order."""
        self._session.add_sources(
            {
                version.stack.versions[version.source.source.package]: version.source
                for version in versions
                if version.source is not None
            }
        )
        return self._session.build([version.stack for version in versions])

    def measure(self, versions: Sequence[Candidate], rounds: int = 0) -> list[Result]:
        """Build and measure versions. With ``rounds``, all of them in one new session whose rounds are interleaved.

        Raise EnvironmentUnavailable if the machine ended a run: its version is neither good, bad nor unknown, and the next
        search measures it again.
        """
        began = time.monotonic()
        self.build(versions)
        results = self._session.measure(
            [self.cell(version) for version in versions], baseline=versions[0].stack, rounds=rounds, fresh=rounds > 0
        )
        self.runs += len(versions)
        self.spent_s += time.monotonic() - began
        by_cell = newest_by_cell(results)
        measured = [by_cell[self.cell(version).id] for version in versions]
        for version, result in zip(versions, measured, strict=True):
            if isinstance(result.outcome, MachineFault):
                remedy = REMEDIES.get(result.outcome.fault, "find out why")
                raise EnvironmentUnavailable(
                    outcome_text(result.outcome),
                    where=version.name,
                    hint=f"{remedy}, then run the same command again: it goes on from there",
                )
        return measured

    def explanation(self, version: Candidate) -> Explanation | None:
        """Return the holders of memory in a version, stored or from a run that is no result; None if that run fails."""
        cell = self.cell(version)
        self.build([version])
        return self._session.explain([cell], quiet=True)[cell.id].explanation

    def expected_s(self) -> float | None:
        """Return the seconds that one more version takes: the mean so far, or a guess; None if no guess is possible."""
        if self.runs:
            return self.spent_s / self.runs
        guessed = guess_s(self._cell)
        return None if guessed is None else GUESSED_STACK_S + guessed
