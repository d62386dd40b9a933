"""Shared by all tests: the golden files, the order, the time limits, the environment."""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden_files import Golden

if TYPE_CHECKING:
    from tests.cluster.ray_cluster import Nodes
    from tests.offline.project import Project

HERE = Path(__file__).parent

#: The tests of what runs inside a measured environment.
MEASURED = {HERE / "probe", HERE / "programs", HERE / "skeletons", HERE / "vgpu"}
#: Inside a measured environment, frameworks warn as they like.
MEASURED_ENVIRONMENT = importlib.util.find_spec("torch") is not None

CONTAINERS = HERE / "containers"

#: They share environments, in which one run at a time may measure, and what was measured once.
FUNCTIONAL = "tests/functional/"

#: They share a container engine and its base image, which take a minute to make, and a cluster.
ELSEWHERE = ("tests/containers/", "tests/cluster/")

#: These only run tests in the environments, which may be done at any time.
IN_ENVIRONMENTS = f"{FUNCTIONAL}test_probe.py"

#: Folders in the order in which they begin: what takes minutes first, so that no worker is left alone with it at the end.
LONGEST_FIRST = (FUNCTIONAL, *ELSEWHERE, "tests/offline/")

#: How long a test may take with its fixtures, in seconds, by folder: many times what it takes beside other work.
LIMITS_S = {"tests/cluster/": 1200.0, "tests/containers/": 1800.0, FUNCTIONAL: 1800.0}
LIMIT_S = 600.0

#: How long a test may take to end its fixtures, also one that has failed at its limit, before its process is ended.
ENDING_S = 300.0

#: The standard error from before pytest captures it.
STDERR = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--accept``, see `tests.golden_files`."""
    parser.addoption(
        "--accept",
        action="store_true",
        help="run only the tests that have a golden file, and write what they get into tests/golden",
    )


@pytest.fixture(scope="session")
def golden(pytestconfig: pytest.Config) -> Golden:
    """``golden("report.md", text)`` compares with the file, or rewrites it under ``--accept``."""
    return Golden(accept=pytestconfig.getoption("accept"))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The user of the tests of whole commands, on this machine, in containers and on nodes. Each environment of theirs is
    built once."""
    from tests.offline import user  # imports what no measured environment has

    return user.make(tmp_path_factory.mktemp("user"))


@pytest.fixture(scope="session")
def ray_cluster(shared: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two nodes that stay for all tests which kill none."""
    from tests.cluster import ray_cluster

    with ray_cluster.running(tmp_path_factory.mktemp("cluster"), shared) as cluster:
        yield cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "timeout(seconds): the limit of a test, where pytest-timeout is installed")
    config.stash[STDERR] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[STDERR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """pytest-timeout fails a test at its limit, with the stacks of all threads. It does so once, and only where Python code
    runs: if the test then does not end, its process prints the stacks and ends, which also fails it under xdist."""
    limit = item.get_closest_marker("timeout")
    assert limit is not None
    _end_process_after(limit.args[0] + ENDING_S, item.config)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    _end_process_after(ENDING_S, item.config)  # anew: pytest cancels it when a test fails


def _end_process_after(seconds: float, config: pytest.Config) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[STDERR])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, tests that measure real releases run in one worker, as if they were in one file, those that
    run tests in their environments in any, and those that measure in containers and on nodes in one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(IN_ENVIRONMENTS):
                return nodeid
            if nodeid.startswith(FUNCTIONAL):
                return FUNCTIONAL
            return "elsewhere" if nodeid.startswith(ELSEWHERE) else super()._split_scope(nodeid)

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A warning fails a test of ours; each has its limit; what takes longest begins first. Under ``--accept``, golden files
    only."""
    if config.getoption("accept"):
        rest = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=rest)
        items[:] = [item for item in items if item not in rest]
    items.sort(key=lambda item: [not item.nodeid.startswith(folder) for folder in LONGEST_FIRST])
    for item in items:
        limits = [limit for folder, limit in LIMITS_S.items() if item.nodeid.startswith(folder)]
        item.add_marker(pytest.mark.timeout(*limits or [LIMIT_S]))  # behind one of its own, which counts
        if not (MEASURED_ENVIRONMENT and MEASURED.intersection(item.path.parents)):
            item.add_marker(pytest.mark.filterwarnings("error"))
        if CONTAINERS in item.path.parents:  # the SDK leaves the sockets of requests that fail to the collector
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """A shell starts background processes with SIGINT ignored, which the commands that tests interrupt would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def _without_the_callers_settings() -> None:
    """Settings from the caller's environment do not affect them, except the folder of environments: those of real releases
    are worth reusing."""
    for name in [name for name in os.environ if name.startswith("DSREGRESS_") and name != "DSREGRESS_ENVIRONMENTS"]:
        del os.environ[name]
