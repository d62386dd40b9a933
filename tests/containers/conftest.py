"""Fixtures of the tests that run in real containers; where no engine can be had they are skipped, and say why."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.containers import engine
from tests.offline.conftest import shared as shared
from tests.offline.project import GOOD, VERSION, Project

#: Longer than the images of a test take on a busy machine.
LIMIT_S = 600.0


@dataclass(frozen=True)
class Engine:
    """An engine, and a base image in it."""

    address: str
    base: str
    client: Any

    def containers(self, owner: Path) -> list[Any]:
        """Every container, running or not, that was started for the environments in that folder."""
        found: list[Any] = self.client.containers.list(all=True, filters={"label": f"dsregress.owner={owner}"})
        return found


@pytest.fixture(autouse=True, scope="module")
def _left_to_the_collector() -> Iterator[None]:
    """Sockets of the SDK's failed requests are collected here, where their warnings are let pass, not in another's test."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[Engine]:
    """An engine that answers, or one of our own."""
    import docker

    try:
        with engine.running() as address:
            client = docker.DockerClient(base_url=address)
            try:
                yield Engine(address, engine.base_image(client), client)
            finally:
                client.close()
    except engine.NoEngine as error:
        pytest.skip(str(error))


@pytest.fixture
def project(shared: Project, docker_engine: Engine, tmp_path: Path) -> Project:
    """A project whose cells run in containers."""
    made = Project(
        folder=tmp_path,
        variables={**shared.variables, "DOCKER_HOST": docker_engine.address},
        work=shared.work,
        limit_s=LIMIT_S,
    )
    configure(made, docker_engine, GOOD, VERSION["hungry"])
    return made


def configure(project: Project, engine: Engine, *versions: str, limits: str = "", **values: object) -> None:
    """As `Project.configure`, with the base image."""
    text = f'[tool.dsregress.docker]\nbase = "{engine.base}"\n{limits}'
    project.configure(*versions, text=text, **{"executor": "docker", **values})  # type: ignore[arg-type]
