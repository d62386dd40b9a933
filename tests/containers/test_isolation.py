"""A program in a container of the engine's defaults, where no process may have a view of its own."""

from __future__ import annotations

from pathlib import Path

from tests.containers.projects import Engine
from tests.paths import ROOT
from tests.vgpu.isolation import ways

SCRIPT = """
import os, pathlib
from vgpu import isolation
from tests.vgpu.isolation import ways

run = pathlib.Path("/tmp/runs/1")
run.mkdir(parents=True)
print(isolation.make_shield(run, []))
child = os.fork()
if not child:
    isolation.join_shield(run)
    ways.go(pathlib.Path("/mine"))
    os._exit(0)
os.waitpid(child, 0)
"""


def test_no_way_changes_a_file_of_the_users(docker_engine: Engine, tmp_path: Path) -> None:
    ways.prepare(tmp_path)
    before = ways.snapshot(tmp_path)
    said = docker_engine.client.containers.run(
        docker_engine.base,
        ["python3", "-c", SCRIPT],
        remove=True,
        network_mode="host",  # as the tests' own daemon has no bridge
        environment={"PYTHONPATH": "/project/harness:/project", "PYTHONDONTWRITEBYTECODE": "1"},
        volumes={str(ROOT): {"bind": "/project", "mode": "ro"}, str(tmp_path): {"bind": "/mine", "mode": "rw"}},
    )
    assert said.decode().split() == ["landlock"]
    assert ways.snapshot(tmp_path) == before
