"""Images and containers, by a real engine: built once, confined, killed for memory, swept; and what is said without one."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsregress.config.containers import Containers
from dsregress.envs import stack_images
from dsregress.errors import EnvironmentUnavailable
from dsregress.launch import worker as serving
from dsregress.launch.contract import Ended, RunPlan, Waiting
from dsregress.launch.docker import DockerExecutor
from dsregress.model import Cell, Environment, Failed, OutOfMemory, Passed, Stack, TimedOut
from dsregress.system import container_engine
from tests.containers.projects import LIMIT_S, Engine, configure
from tests.offline.project import GOOD, SCENARIOS, VERSION, Project, stack, stored
from tests.offline.waiting import heard

MIB = 1 << 20


@pytest.fixture
def image(project: Project, docker_engine: Engine) -> str:
    """Id of the good release's image."""
    report = project.regress("--with", f"tinyframe={GOOD}")
    return str(report.json["cells"][0]["image"])


@pytest.fixture
def executor(docker_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerExecutor]:
    """An executor of our own, with little memory, whose scenarios are tinyframe's and ill-behaved ones."""
    monkeypatch.setenv("DOCKER_HOST", docker_engine.address)
    scenarios = tmp_path / "scenarios"
    scenarios.mkdir()
    (scenarios / "fit.py").write_text((SCENARIOS / "fit.py").read_text())
    everything = "from tinyframe.adapter import *\nfrom tinyframe import adapter\n"
    (scenarios / "_starving_import.py").write_text(f"{everything}def preload(device):\n    held = b'x' * (512 << 20)\n")
    (scenarios / "_hanging_import.py").write_text(
        f"{everything}import time\ndef preload(device):\n    time.sleep(3600)\n"
    )
    (scenarios / "_starving_rank.py").write_text(
        f"{everything}\n"
        "class Training(adapter.Training):\n"
        "    def backward(self, micro_batch):\n"
        "        self.held = b'x' * (512 << 20)\n"
        "def start(parameters, device, shape, measured):\n"
        "    made = adapter.start(parameters, device, shape, measured)\n"
        "    made.__class__ = Training\n"
        "    return made\n"
    )
    made = DockerExecutor(
        folder=str(tmp_path / "work"),
        scenarios=str(scenarios),
        variables={},
        timeout_s=10.0,
        limits=Containers(memory_bytes=256 * MIB, scratch_bytes=16 * MIB),
    )
    yield made
    made.close()


def run(executor: DockerExecutor, image: str, framework: str) -> Waiting | Ended:
    """Start a cell of a framework in an image."""
    of = Stack(python="3", versions={"tinyframe": GOOD})
    worker = executor.worker(Environment(stack=of, lock_sha256="l", image=image), "cpu", framework)
    cell = Cell(
        stack=of,
        scenario="fit",
        scenario_version=1,
        variant="base",
        device="cpu",
        framework=framework,
        parameters={"world_size": 2, "gradient_accumulation_steps": 1},
    )
    try:
        return worker.start(cell, RunPlan(warmup_rounds=0, rounds=0))
    finally:
        worker.close()


def outcome(state: Waiting | Ended) -> object:
    assert isinstance(state, Ended)
    return state.outcome


def test_a_second_run_builds_and_measures_nothing_and_leaves_no_container(
    project: Project, docker_engine: Engine
) -> None:
    before = [cell["image"] for cell in project.regress().json["cells"]]
    again = project.regress()
    assert again.said.err == "all 2 stored\n"
    assert [cell["image"] for cell in again.json["cells"]] == before  # a build would have given it another id
    assert docker_engine.containers(project.work) == []


def test_stacks_share_every_layer_but_the_framework_s(project: Project, docker_engine: Engine) -> None:
    report = project.regress()
    one, other = (docker_engine.client.images.get(cell["image"]) for cell in report.json["cells"])
    layers, others = (image.attrs["RootFS"]["Layers"] for image in (one, other))
    assert layers[:-1] == others[:-1]
    assert layers[-1] != others[-1]
    assert one.labels["dsregress.lock"] == report.json["cells"][0]["lock_sha256"]
    assert one.labels["dsregress.stack"] == report.json["cells"][0]["stack"]


def test_neither_the_installer_nor_the_index_is_in_an_image(docker_engine: Engine, image: str) -> None:
    history = json.dumps(docker_engine.client.images.get(image).history())
    assert "find-links" not in history
    assert "/installer/" not in history
    script = "import os; print(os.path.exists('/installer'))"
    said = container_engine.answer_of(
        docker_engine.client,
        image,
        ["python", "-c", script],
        "test",
        container_engine.confined(Containers(), gpus=False),
    )
    assert said == b"False\n"


def test_a_command_that_does_not_end_is_ended_with_its_container(
    docker_engine: Engine, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_engine, "_QUESTION_S", 3.0)
    endless = ["python", "-c", "import time; time.sleep(3600)"]
    with pytest.raises(EnvironmentUnavailable, match="does not run in the image: exit code 137"):
        container_engine.answer_of(
            docker_engine.client, image, endless, str(tmp_path), container_engine.confined(Containers(), gpus=False)
        )
    assert docker_engine.containers(tmp_path) == []


def test_a_container_is_confined(docker_engine: Engine, image: str) -> None:
    script = """
import json, os, socket
def attempt(action):
    try:
        action()
        return "worked"
    except OSError as error:
        return type(error).__name__ + " " + os.strerror(error.errno)
def first(*files):
    return next(open(file).read().strip() for file in files if os.path.exists(file))
said = {
    "root": os.getuid() == 0,
    "write": attempt(lambda: open("/opt/stack/new", "w")),
    "scratch": attempt(lambda: open("/tmp/new", "w")),
    "network": attempt(lambda: socket.create_connection(("192.0.2.1", 80), 2)),
    "interfaces": [name for _, name in socket.if_nameindex() if name == "lo" or not name.startswith(("tunl", "sit", "ip6"))],
    "capabilities": [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")],
    "memory": first("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    "processes": first("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
    "shared": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
}
print(json.dumps(said))
"""
    limits = Containers(memory_bytes=128 * MIB, shm_bytes=8 * MIB, pids=77)
    said = container_engine.answer_of(
        docker_engine.client, image, ["python", "-c", script], "test", container_engine.confined(limits, gpus=False)
    )
    assert json.loads(said) == {
        "root": False,
        "write": "OSError Read-only file system",
        "scratch": "worked",
        "network": "OSError Network is unreachable",
        "interfaces": ["lo"],
        "capabilities": ["0000000000000000"],
        "memory": str(128 * MIB),
        "processes": "77",
        "shared": 8 * MIB,
    }


def test_the_limit_of_memory_is_the_hardware_of_a_result(project: Project, docker_engine: Engine) -> None:
    configure(project, docker_engine, GOOD, limits=f"memory_bytes = {300 * MIB}")
    project.regress()
    (result,) = stored(project)
    assert result["hardware"]["memory_bytes"] == 300 * MIB
    assert result["installed"]["tinyframe"] == GOOD


def test_a_cell_trains_in_a_small_container(executor: DockerExecutor, image: str) -> None:
    assert outcome(run(executor, image, "tinyframe.adapter")) == Passed()


def test_a_rank_that_is_killed_for_memory_is_out_of_memory_in_its_phase(executor: DockerExecutor, image: str) -> None:
    ended = outcome(run(executor, image, "scenarios._starving_rank"))
    assert isinstance(ended, OutOfMemory)
    assert ended.phase == "backward"


def test_a_server_that_is_killed_for_memory_is_out_of_memory(executor: DockerExecutor, image: str) -> None:
    ended = outcome(run(executor, image, "scenarios._starving_import"))
    assert ended == OutOfMemory(phase="import", detail="the import was killed for want of memory")


def test_a_server_that_hangs_is_stopped_and_removed(
    executor: DockerExecutor, docker_engine: Engine, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_OUTER_GRACE_S", -9.0)
    assert outcome(run(executor, image, "scenarios._hanging_import")) == TimedOut(stage="import", limit_s=10.0)
    assert docker_engine.containers(tmp_path / "work") == []


def test_a_server_that_cannot_start_says_why(executor: DockerExecutor, image: str) -> None:
    ended = outcome(run(executor, image, "scenarios._absent"))
    assert isinstance(ended, Failed)
    assert ended.stage == "harness"
    assert ended.signature.startswith(
        "ModuleNotFoundError: No module named 'scenarios._absent' (dsregress/probe/process/adapter_loading.py:"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_no_container_outlives_a_run_that_is_cut_short(
    project: Project, docker_engine: Engine, number: signal.Signals
) -> None:
    configure(project, docker_engine, GOOD, VERSION["hanging"], timeout_s=LIMIT_S)
    with project.started("regress") as process:
        heard(process, "[1/2", LIMIT_S)
        assert len(docker_engine.containers(project.work)) == 2
        process.send_signal(number)
        process.communicate(timeout=LIMIT_S)
    if number == signal.SIGKILL:  # nobody is left to remove them: they end by themselves, and the next run sweeps
        deadline = time.monotonic() + LIMIT_S
        while (
            any(one.status == "running" for one in docker_engine.containers(project.work))
            and time.monotonic() < deadline
        ):
            time.sleep(0.1)
        assert {one.status for one in docker_engine.containers(project.work)} == {"exited"}
        project.regress("--with", f"tinyframe={GOOD}")
    assert docker_engine.containers(project.work) == []


def test_images_are_listed_and_removed(project: Project, docker_engine: Engine) -> None:
    gone, left = VERSION["busy"], VERSION["new-default"]  # which no other test has built
    configure(project, docker_engine, gone, left)
    project.regress()
    listed = project.run("clean", "--images", "--dry-run", f"tinyframe{gone}", f"tinyframe{left}").out.splitlines()
    assert [line.rpartition("  ")[2] for line in listed[:2]] == [stack(left), stack(gone)]
    assert listed[-1].startswith(f"would remove {len(listed) - 1} of ")
    assert all(f"  on {docker_engine.base}  " in line for line in listed[:-1])
    assert f"  on {docker_engine.base}  shared by stacks" in project.run("clean", "--images", "--dry-run").out
    removed = project.run("clean", "--images", f"tinyframe{gone}", f"tinyframe{left}", "--keep", f"tinyframe{left}")
    assert removed.out.startswith(f"removed: dsregress:tinyframe-{gone}-")
    assert removed.out.endswith(f"removed 1 of {removed.out.split()[-1]}\n")
    assert project.run("clean", "--images", "--dry-run", f"tinyframe{gone}").out.startswith("would remove 0 of ")
    assert stack(left) in project.run("clean", "--images", "--dry-run", "tinyframe").out
    assert "dsregress-common:" in project.run("clean", "--images", "--dry-run").out  # others stand on it


def test_of_two_builds_of_an_image_the_first_keeps_the_name_and_the_other_is_removed(
    docker_engine: Engine, tmp_path: Path
) -> None:
    client, tag = docker_engine.client, "dsregress-test-name:1"
    made = []
    for content in ("one", "other"):
        (tmp_path / "pyproject.toml").write_text(content)
        client.api.import_image(src=_archive(tmp_path), repository="dsregress-test-built", tag=content)
        image = client.images.get(f"dsregress-test-built:{content}")
        made.append(image.id)
    client.images.get(made[0]).tag(tag)
    client.images.remove("dsregress-test-built:one")
    for built in (made[1], made[0]):
        stack_images.give_name(client, built, tag)
        assert client.images.get(tag).id == made[0]
    assert stack_images.find_image(client, made[1]) is None
    client.images.remove(tag)


def test_without_a_daemon_one_line_says_what_to_do(project: Project) -> None:
    said = project.run("regress", "--fresh", DOCKER_HOST=f"unix://{project.folder}/nothing.sock")
    assert (said.code, said.err) == (
        3,
        "dsregress: error: docker: the Docker daemon does not respond; start it (systemctl start docker), or "
        "set DOCKER_HOST\n",
    )


def test_a_base_image_that_does_not_exist_is_one_line(project: Project) -> None:
    said = project.run("regress", "--image-base", "dsregress-nowhere.invalid/base:1")
    line = said.err.splitlines()[-1]
    assert said.code == 3
    assert line.startswith(
        "dsregress: error: docker: the base image dsregress-nowhere.invalid/base:1 cannot be pulled: "
    )
    assert line.endswith("`docker pull dsregress-nowhere.invalid/base:1`, or name another with --image-base")


def test_a_base_image_without_the_stack_s_python_is_one_line(project: Project, docker_engine: Engine) -> None:
    docker_engine.client.api.import_image(src=_archive(project.folder), repository="dsregress-test-empty", tag="1")
    said = project.run("regress", "--image-base", "dsregress-test-empty:1")
    assert said.code == 3
    line = said.err.splitlines()[-1]
    assert "the base image dsregress-test-empty:1 cannot be prepared: " in line
    assert line.endswith("choose one with the stack's Python by --image-base")


def _archive(folder: Path) -> str:
    import tarfile

    file = folder / "empty.tar"
    with tarfile.open(file, "w") as archive:
        archive.add(folder / "pyproject.toml", "etc/pyproject.toml")
    return str(file)
