"""Versions in, results out: from the store where they are there, else built and measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.bisect import commit_builds
from harness.bisect.plan import Candidate
from harness.envs import hardware, venv
from harness.model import Cell, Environment, Result
from harness.probe.border.wire import Explanation
from harness.run import targets
from harness.run.eta import GUESSED_CELL_S, GUESSED_STACK_S
from harness.run.session import Session
from harness.store import content_key, key_of, newest


class VersionRunner:
    """Versions in, results out; from the store where they are there."""

    def __init__(self, session: Session, cell: Cell) -> None:
        self.settings = session.settings
        self.store = session.store
        self.watch = session.watch
        self.runs = 0
        self.spent_s = 0.0
        self._session = session
        self._cell = cell

    def cell(self, version: Candidate) -> Cell:
        """The cell of a version."""
        return msgspec.structs.replace(self._cell, stack=version.stack)

    def stored(self, version: Candidate) -> tuple[Result, ...]:
        """Runs of this very content, oldest first, found without building anything: an environment that is not there can
        only be what was published, so that its code is taken from the result."""
        lock = commit_builds.known_lock(version.stack, self.settings, version.made_of)
        if lock is None:
            return ()
        framework = targets.varied_package(self.settings)
        folder = Path(self.settings.environments)
        there = venv.existing(lock, folder=folder, gpu=hardware.has_gpu(), framework=framework)
        cell = self.cell(version)
        return tuple(
            result
            for result in self.store.runs(cell)
            if key_of(result)
            == content_key(
                cell,
                lock_sha256=lock.sha256,
                code_sha256=there.code_sha256 if there else result.code_sha256,
                probe_sha256=self._session.target.executor.probe_sha256(),
                hardware=self._session.target.hardware(),
                image="" if self.settings.executor == "local" else result.image,
            )
        )

    def build(self, versions: Sequence[Candidate]) -> tuple[Environment, ...]:
        """Their environments."""
        made_of = {version.stack.id: version.made_of for version in versions if version.made_of is not None}
        stacks = [version.stack for version in versions if version.made_of is None]
        self._session.build(stacks)
        own = [version.stack for version in versions if version.made_of is not None]
        self._session.add(commit_builds.build_commits(own, made_of, self.settings, self._session.installer, self.watch))
        return self._session.build([version.stack for version in versions])

    def measure(self, versions: Sequence[Candidate], rounds: int = 0) -> list[Result]:
        """Build and measure versions; with ``rounds``, all in one new session, each round going round all of them."""
        began = time.monotonic()
        self.build(versions)
        found = self._session.measure(
            [self.cell(version) for version in versions], baseline=versions[0].stack, rounds=rounds, fresh=rounds > 0
        )
        self.runs += len(versions)
        self.spent_s += time.monotonic() - began
        by_cell = newest(found)
        return [by_cell[self.cell(version).id] for version in versions]

    def explanation(self, version: Candidate) -> Explanation | None:
        """Who holds the memory in a version: as it is stored, or from a run that is no result; None where it fails."""
        cell = self.cell(version)
        self.build([version])
        return self._session.explain([cell], quiet=True)[cell.id].explanation

    def expected_s(self) -> float:
        """Seconds that one more probe takes: as those before it, or a guess."""
        if self.runs:
            return self.spent_s / self.runs
        return GUESSED_STACK_S + GUESSED_CELL_S.get(self._cell.device, 0.0)
