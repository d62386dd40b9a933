"""What raises for want of something of ours is the harness's failure, wherever Python raises it; nothing else is."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsregress.probe import launch_line
from dsregress.probe.border import faults
from dsregress.probe.border.own_code import SOURCES
from dsregress.probe.border.wire import Clocks
from dsregress.probe.harness_fault import HarnessFault
from dsregress.probe.process import heartbeat
from dsregress.probe.scenario import ScenarioError
from dsregress.programs.world.resource_errors import NotHere
from vgpu import error_chain, replacing
from vgpu.allocator.model import AllocatorSettings, CachingAllocator
from vgpu.no_stand_in import StandIn, lacking

OURS = SOURCES / "vgpu" / "meters" / "meter.py"

Run = Callable[..., BaseException]


@pytest.fixture
def release(tmp_path: Path) -> Run:
    """Runs code of a release, and returns what it raises."""
    files = (tmp_path / "site-packages" / "framework" / f"engine{n}.py" for n in itertools.count())

    def run(code: str, **names: Any) -> BaseException:
        file = next(files)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
        return raised_by(code, file, names)

    return run


def ours(code: str, **names: Any) -> BaseException:
    """What code in a file of the probe raises."""
    return raised_by(code, OURS, names)


def raised_by(code: str, file: Path, names: dict[str, Any]) -> BaseException:
    try:
        exec(compile(code, str(file), "exec"), names)
    except BaseException as error:
        traced = error.__traceback__
        assert traced is not None
        return error.with_traceback(traced.tb_next)  # without this test's own frame
    raise AssertionError("it raises nothing")


def counted() -> Any:
    """A replacement as the probe makes them: of a function inside another one."""
    allocator: Any = CachingAllocator(AllocatorSettings())
    return functools.partial(allocator.free)


def original(size: int) -> int:
    return size


# --- what is asked of ours --------------------------------------------------------------------------------------------

MISFITS = [
    "heartbeat.Heartbeat(print, more=1)",
    "heartbeat.Heartbeat()",
    "Beat(print, 1, 2, 3)",
    "Beat(print).stage()",
    "CALLS['at'](more=1)",
    "(lambda: Beat)()(print, more=1)",
    "allocator.free(1, 2, 3)",
    "partial(1, more=2)",
    "error_chain.behind(1, 2, 3)",
    "replacing.Patches().replace(1)",
    "Clocks(more=1)",  # a dataclass, whose methods have no file
    "parse(more=1)",
]


@pytest.mark.parametrize("call", MISFITS)
def test_a_call_of_ours_that_does_not_fit_is_ours_although_the_caller_raises_it(call: str, release: Run) -> None:
    error = release(
        f"\n\ndef step():\n    return {call}\n\nstep()",
        heartbeat=heartbeat, Beat=heartbeat.Heartbeat, error_chain=error_chain, replacing=replacing, Clocks=Clocks,
        allocator=CachingAllocator(AllocatorSettings()), partial=counted(), parse=launch_line.parse,
        CALLS={"at": heartbeat.Heartbeat},
    )  # fmt: skip
    assert isinstance(error, TypeError)
    assert faults.stage_of(error) == "harness"
    assert re.search(r" \((dsregress/probe|vgpu)/[\w/]+\.py:\d+\)$", faults.signature_of(error))


def test_the_line_names_the_class_and_where_it_is(release: Run) -> None:
    error = release("Group(print, enable_reconfigure=True)", Group=heartbeat.Heartbeat)
    assert faults.signature_of(error).startswith(
        "TypeError: Heartbeat.__init__() got an unexpected keyword argument 'enable_reconfigure' "
        "(dsregress/probe/process/heartbeat.py:"
    )


def test_a_replacement_that_bears_the_name_of_what_it_replaces_is_ours(release: Run) -> None:
    module = types.ModuleType("framework.sizes")
    vars(module)["original"] = original
    wrapped = functools.wraps(original)(
        _in_our_file("def replacement(size):\n    return original(size)", "replacement")
    )
    with replacing.Patches() as patches:
        patches.replace(module, "original", wrapped)
        error = release("sizes.original(1, dtype=2)", sizes=module)
    assert str(error) == "original() got an unexpected keyword argument 'dtype'"
    assert faults.stage_of(error) == "harness"


def _in_our_file(code: str, name: str) -> Any:
    names: dict[str, Any] = {"original": original}
    exec(compile(code, str(OURS), "exec"), names)
    return names[name]


@pytest.mark.parametrize(
    "ask", ["beat.enable()", "Beat.enable", "heartbeat.enable", "function.cache_clear()", "kernel.fused_step"]
)
def test_a_name_that_ours_do_not_have_is_ours(ask: str, release: Run) -> None:
    error = release(
        ask, beat=heartbeat.Heartbeat(print), Beat=heartbeat.Heartbeat, heartbeat=heartbeat, kernel=StandIn("a kernel"),
        function=error_chain.behind,
    )  # fmt: skip
    assert isinstance(error, AttributeError)
    assert faults.stage_of(error) == "harness"


def test_a_name_that_a_stand_in_module_lacks_is_ours(release: Run) -> None:
    module = types.ModuleType("triton.testing")
    vars(module)["__getattr__"] = lacking("triton.testing")
    error = release("testing.get_benchmarker()", testing=module)
    assert faults.stage_of(error) == "harness"
    assert faults.signature_of(error).startswith(
        "NoStandInError: triton.testing.get_benchmarker has no stand-in: leave out what needs it, or run on cuda"
    )


def test_what_a_framework_makes_of_it_is_ours_still(release: Run) -> None:
    for report in (
        "raise RuntimeError('cannot start') from error",
        "raise RuntimeError('cannot start')",
        "{}['group']",
    ):
        code = f"try:\n    Beat(print, more=1)\nexcept TypeError as error:\n    {report}"
        error = release(code, Beat=heartbeat.Heartbeat)
        assert faults.stage_of(error) == "harness"
        assert faults.signature_of(error).startswith("TypeError: Heartbeat.__init__() got an unexpected")


def test_what_a_part_of_the_probe_reports_as_broken_is_ours() -> None:
    try:
        raise HarnessFault("the memory oracle: KeyError: 'world_size' (dsregress/probe/oracles/ideal.py:77)")
    except HarnessFault as error:
        assert faults.stage_of(error) == "harness"
        assert faults.signature_of(error) == f"HarnessFault: {error}"


# --- what is asked of others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "def main():\n    pass\nmain(1)",  # the probe has a main as well
        "class Heartbeat:\n    def __init__(self, send):\n        pass\nHeartbeat(print, more=1)",
        "class Reactor:\n    def step(self):\n        pass\nReactor().step(more=1)",
        "import json\njson.dumps(1, more=1, cls=object)",
        "len(1, 2)",
        "int(more=1)",
        "def step(closure):\n    closure(1)\nstep(lambda: 1)",
        "None.grad",
        "import json\njson.no_such_name",
        "{}['loss']",
        "raise NotImplementedError('fused')",
    ],
)
def test_the_same_errors_about_what_is_not_ours_are_the_releases(code: str, release: Run) -> None:
    assert faults.stage_of(release(code)) is None


def test_a_name_that_a_class_of_the_program_lacks_is_the_releases(
    release: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = types.ModuleType("__main__")  # as of a rank's process, after the program's own has ended
    script.__file__ = heartbeat.__file__
    monkeypatch.setitem(sys.modules, "__main__", script)
    error = release("class SGDG:\n    __module__ = '__main__'\nSGDG().train")
    assert faults.stage_of(error) is None
    assert faults.signature_of(error).startswith("AttributeError: 'SGDG' object has no attribute 'train'")


def test_a_release_that_handles_what_ours_lack_and_fails_later_has_failed_itself(release: Run) -> None:
    code = "try:\n    Beat(print, more=1)\nexcept TypeError:\n    pass\n{}['group']"
    assert faults.stage_of(release(code, Beat=heartbeat.Heartbeat)) is None


# --- frames of ours ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "{}['world_size']",
        "a, b = [1]",
        "[][0]",
        "None.grad",
        "unknown_name",
        "1 / 0",
        "assert not sys.modules",
        "sys.modules['no.such.module']",
        "int(more=1)",
        "'' + 1",
        "sys.gone_from_this_release()",
        "from json import gone",
        "import json.gone",
        "import importlib; importlib.import_module('json.gone')",
        "for name in names:\n    names[name + '-'] = 1",
    ],
)
def test_an_operation_of_ours_that_goes_wrong_is_ours(code: str) -> None:
    error = ours(code, sys=sys, names={"a": 1})
    assert faults.stage_of(error) == "harness"
    assert "(vgpu/meters/meter.py:" in faults.signature_of(error)


@pytest.mark.parametrize(
    "code",
    [
        "raise RuntimeError('CUDA error: invalid device ordinal')",
        "raise ValueError('no such card')",
        "raise AttributeError('__fspath__')",
        "raise KeyError('the program has no such column')",
        "int('x')",  # a verdict on a value
        "import no_such_package_at_all",
        "open('/no/such/file')",
    ],
)
def test_what_ours_raise_on_purpose_and_what_others_say_of_values_is_not(code: str) -> None:
    assert faults.stage_of(ours(code)) is None


def test_an_error_of_others_through_a_frame_of_ours_is_theirs(release: Run) -> None:
    def called(code: str) -> Any:
        return lambda *arguments, **named: exec(compile(code, "/v/site-packages/framework/x.py", "exec"), {})

    hands_on = _in_our_file("def replacement(original, *a, **k):\n    return original(*a, **k)", "replacement")
    assert faults.stage_of(release("replaced(called)", replaced=hands_on, called=called("{}['loss']"))) is None
    assert faults.stage_of(release("replaced(int, more=1)", replaced=hands_on)) is None  # C has no frame


def test_what_ours_caught_to_try_something_else_is_not_the_failure() -> None:
    code = "try:\n    {}['fast']\nexcept KeyError:\n    original('slow')"
    assert faults.stage_of(ours(code, original=int)) is None


def test_errors_of_ours_that_speak_of_the_program_are_no_fault_of_ours() -> None:
    for kind in (ScenarioError, functools.partial(NotHere, remedy="give it")):
        error = ours("try:\n    {}['x']\nexcept KeyError as error:\n    raise kind('not here') from error", kind=kind)
        assert faults.stage_of(error) is None
