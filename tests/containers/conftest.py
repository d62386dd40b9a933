"""Fixtures of the tests that run in real containers; where no engine can be had they are skipped, and say why."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers import engine
from tests.containers.projects import LIMIT_S, Engine, configure
from tests.offline.project import GOOD, VERSION, Project


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
