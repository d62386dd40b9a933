"""Shared by all tests: the golden files, the order, the environment."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.golden_files import Golden

HERE = Path(__file__).parent

PROBE = HERE / "probe"
#: Inside a measured environment, frameworks warn as they like.
MEASURED_ENVIRONMENT = importlib.util.find_spec("torch") is not None

CONTAINERS = HERE / "containers"

#: They share environments, in which one run at a time may measure, and what was measured once.
FUNCTIONAL = "tests/functional/"


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, tests of real releases run in one worker, as if they were in one file."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return FUNCTIONAL if nodeid.startswith(FUNCTIONAL) else super()._split_scope(nodeid)

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A warning fails a test of ours; what takes longest begins first. Under ``--accept``, golden files only."""
    if config.getoption("accept"):
        rest = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=rest)
        items[:] = [item for item in items if item not in rest]
    items.sort(key=lambda item: not item.nodeid.startswith(FUNCTIONAL))
    for item in items:
        if not (MEASURED_ENVIRONMENT and PROBE in item.path.parents):
            item.add_marker(pytest.mark.filterwarnings("error"))
        if CONTAINERS in item.path.parents:  # the SDK leaves the sockets of requests that fail to the collector
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """A shell starts background processes with SIGINT ignored, which the commands that tests interrupt would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _without_the_callers_settings() -> None:
    """Settings from the caller's environment do not affect them, except the folder of environments: those of real releases
    are worth reusing."""
    for name in [name for name in os.environ if name.startswith("DSREGRESS_") and name != "DSREGRESS_ENVIRONMENTS"]:
        del os.environ[name]
