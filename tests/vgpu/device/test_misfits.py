"""A stand-in refuses what it does not know as the harness, not as the framework: a made-up caller gives each of its parts
one argument more, and asks it for a name that it lacks. `tests/programs/test_ledger_misfits.py` does so with what
replaces a name."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border import callees, faults  # noqa: E402
from vgpu import (  # noqa: E402
    attaching,
    stand_ins,
)
from vgpu.device.ordered_gloo import OrderedGloo  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402
from vgpu.stand_ins import triton_driver  # noqa: E402

Ask = Callable[..., Exception]


@pytest.fixture(scope="module")
def framework(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """A call of a framework's, in a file of its own; returns what it raises."""
    file = tmp_path_factory.mktemp("v") / "site-packages" / "framework" / "engine.py"
    file.parent.mkdir(parents=True)
    code = "def call(owner):\n    owner.{name}(an_argument_that_came_with_a_release=1)\n"
    code += "def ask(owner):\n    owner.a_name_that_came_with_a_release\n"

    def run(what: str, owner: Any, name: str = "it") -> Exception:
        file.write_text(code.format(name=name))
        importlib.invalidate_caches()
        names: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file.with_name(f"{name}.py")), "exec"), names)
        file.with_name(f"{name}.py").write_text(file.read_text())
        try:
            names[what](owner)
        except Exception as error:
            assert error.__traceback__ is not None
            return error.with_traceback(error.__traceback__.tb_next)
        raise AssertionError(f"{owner}.{name} takes everything")

    return run


@contextlib.contextmanager
def attached() -> Iterator[None]:
    with (
        Simulation(0, 4) as simulation,
        simulation.meter,
        attaching.attached("meta", simulation.mode, rank=0, world_size=4),
    ):
        yield


def refuses(replacement: Any) -> bool:
    """Whether it is ours, and does not take every argument."""
    function = replacement.__init__ if isinstance(replacement, type) else replacement
    if not isinstance(function, FunctionType) or not callees.is_ours(replacement):
        return False
    kinds = {parameter.kind for parameter in inspect.signature(function, follow_wrapped=False).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD not in kinds


def modules_of_stand_ins() -> Iterator[ModuleType]:
    for package in (*stand_ins.PACKAGES, stand_ins.TRITON):
        for name in package.modules:
            if getattr(sys.modules.get(name), "__file__", None) == stand_ins.finder.PLACE:
                yield sys.modules[name]


def test_each_part_of_a_stand_in_that_gets_an_argument_more_is_the_harness_failing(framework: Ask) -> None:
    errors = {}
    with attached():
        for package in (*stand_ins.PACKAGES, stand_ins.TRITON):
            importlib.import_module(package.name)
        for module in modules_of_stand_ins():
            for name, part in list(vars(module).items()):
                if not name.startswith("_") and refuses(part):
                    errors[f"{module.__name__}.{name}"] = framework("call", module, name)
    assert len(errors) > 30
    blamed = {name: str(error) for name, error in errors.items() if faults.stage_of(error) != "harness"}
    assert blamed == {}


def test_each_stand_in_of_which_what_it_lacks_is_called_is_the_harness_failing(framework: Ask) -> None:
    errors = {}
    with attached():
        for package in (*stand_ins.PACKAGES, stand_ins.TRITON):
            importlib.import_module(package.name)
        for module in modules_of_stand_ins():
            errors[module.__name__] = framework("call", module, "a_name_that_came_with_a_release")
        errors["Triton's driver"] = framework("ask", triton_driver.active)
    assert {"flash_attn", "bitsandbytes.nn", "liger_kernel.transformers"} < errors.keys()
    blamed = {name: str(error) for name, error in errors.items() if faults.stage_of(error) != "harness"}
    assert blamed == {}


def test_a_group_of_gloo_that_gets_an_argument_more_is_the_harness_failing(framework: Ask) -> None:
    c10d = ModuleType("distributed_c10d")
    vars(c10d)["ProcessGroupGloo"] = OrderedGloo
    assert faults.stage_of(framework("call", c10d, "ProcessGroupGloo")) == "harness"


def test_the_same_calls_of_what_is_torchs_own_are_the_releases(framework: Ask) -> None:
    for owner, name in ((torch.nn, "Linear"), (torch, "manual_seed"), (torch.optim, "AdamW"), (Path, "cwd")):
        assert faults.stage_of(framework("call", owner, name)) is None
    assert faults.stage_of(framework("ask", torch)) is None
