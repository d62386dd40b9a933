"""A name that a stand-in lacks is a placeholder for a program that names it, and refused when it is called; a program that
asks first finds that it is not there."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu import attaching  # noqa: E402
from vgpu.no_stand_in import NoStandInError  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402
from vgpu.stand_ins import finder  # noqa: E402
from vgpu.stand_ins.placeholders import Placeholder  # noqa: E402

KERNELS = finder.Package(
    "made_up_kernels", "made-up-kernels", "1.0", {"made_up_kernels": (), "made_up_kernels.ops": ()}
)


@pytest.fixture(autouse=True)
def kernels() -> Iterator[None]:
    with finder.found([KERNELS], ["kernels_without_stand_in"]):
        yield


@pytest.fixture
def program(tmp_path: Path) -> Any:
    """Runs a program's text, and returns its variables."""

    def run(text: str) -> dict[str, Any]:
        file = tmp_path / "train.py"
        file.write_text(text)
        names: dict[str, Any] = {"__name__": "train"}
        exec(compile(text, str(file), "exec"), names)
        return names

    return run


def test_a_name_that_is_imported_and_never_used_does_not_end_a_program(program: Any) -> None:
    program("from made_up_kernels.ops import _flash_attn_backward, fused\nfrom made_up_kernels import layers\n")


@pytest.mark.parametrize(
    "text",
    [
        "from made_up_kernels.triton.layer_norm import layer_norm_fn as it",
        "import made_up_kernels.triton.layer_norm\nit = made_up_kernels.triton.layer_norm.layer_norm_fn",
        "import made_up_kernels.triton.layer_norm as norms\nit = norms.layer_norm_fn",
        "from made_up_kernels.triton import layer_norm\nit = layer_norm.layer_norm_fn",
    ],
)
def test_a_module_that_it_lacks_is_there_and_what_it_has_is_refused_when_called(program: Any, text: str) -> None:
    it = program(text)["it"]
    with pytest.raises(NoStandInError) as raised:
        it(1, eps=1e-5)
    assert str(raised.value) == (
        "made_up_kernels.triton.layer_norm.layer_norm_fn has no stand-in: leave out what needs it, or run on cuda"
    )


def test_it_is_an_annotation_a_class_and_an_argument_of_isinstance(program: Any) -> None:
    module = importlib.import_module("made_up_kernels.ops")
    made = module.Norm
    assert isinstance(made, type)
    assert module.Norm is made
    assert typing.get_args(made | None) == (made, type(None))
    assert not isinstance(1, made)
    assert not issubclass(int, made)
    assert inspect.signature(made)
    assert made[int] is made
    assert (made.__module__, made.__qualname__) == ("made_up_kernels.ops", "Norm")


def test_a_subclass_is_refused_when_it_is_instantiated() -> None:
    base = importlib.import_module("made_up_kernels.ops").Norm

    class Own(torch.nn.Module, base):  # type: ignore[misc,name-defined]
        pass

    with pytest.raises(NoStandInError, match=r"^made_up_kernels\.ops\.Norm has no stand-in: "):
        Own()


def test_a_part_of_it_is_refused_by_its_full_name() -> None:
    module = importlib.import_module("made_up_kernels.ops")
    with pytest.raises(NoStandInError, match=r"^made_up_kernels\.ops\.Attention\.apply has no stand-in: "):
        module.Attention.apply(1)
    with pytest.raises(NoStandInError, match=r"^made_up_kernels\.ops\.kernel has no stand-in: "):
        module.kernel[(1,)](2)


def test_a_decorator_is_refused_when_what_it_decorates_is_called(program: Any) -> None:
    text = "from made_up_kernels.utils import ensure_contiguous\n@ensure_contiguous\ndef forward(x):\n    return x\n"
    forward = program(text)["forward"]
    with pytest.raises(NoStandInError, match=r"^made_up_kernels\.utils\.ensure_contiguous's forward has no stand-in: "):
        forward(1)


GUARDED = {
    "an import": "try:\n    from made_up_kernels.ops import fused\nexcept ImportError:\n    fused = None\n",
    "of a module": "try:\n    import made_up_kernels.fast\nexcept (ModuleNotFoundError, OSError):\n    fused = None\n",
    "any error": "try:\n    from made_up_kernels.fast import fused\nexcept Exception as e:\n    fused = None\n",
    "bare": "def f():\n    try:\n        from made_up_kernels import fused\n    except:\n        return None\nfused = f()\n",
    "suppressed": (
        "import contextlib\nfused = None\nwith contextlib.suppress(ImportError):\n"
        "    from made_up_kernels.ops import (\n        one,\n        fused,\n    )\n"
    ),
    "an attribute": (
        "import made_up_kernels\ntry:\n    fused = made_up_kernels.fused\nexcept AttributeError:\n    fused = None\n"
    ),
    "hasattr": "import made_up_kernels\nfused = made_up_kernels.fused if hasattr(made_up_kernels, 'fused') else None\n",
    "getattr": "import made_up_kernels\nfused = getattr(made_up_kernels.ops, 'fused', None)\n",
    "find_spec": "import importlib.util\nfused = importlib.util.find_spec('made_up_kernels.fast')\n",
    "no stand-in": "try:\n    import kernels_without_stand_in as fused\nexcept ImportError:\n    fused = None\n",
    "found": "import importlib.util\nfused = importlib.util.find_spec('kernels_without_stand_in')\n",
}


@pytest.mark.parametrize("text", GUARDED.values(), ids=GUARDED)
def test_a_program_that_runs_without_it_does(program: Any, text: str) -> None:
    assert program(text)["fused"] is None


UNGUARDED = {
    "it refuses": "try:\n    from made_up_kernels.ops import fused\nexcept ImportError:\n    raise RuntimeError from None\n",
    "another error": "try:\n    from made_up_kernels.ops import fused\nexcept KeyError:\n    fused = None\n",
    "elsewhere": "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    from made_up_kernels.ops import fused\n",
    "no stand-in": "from kernels_without_stand_in.ops import fused\n",
    "of its caller": (
        "def f():\n    from made_up_kernels.ops import fused\n    return fused\n"
        "try:\n    fused = f()\nexcept ImportError:\n    fused = None\n"
    ),
}


@pytest.mark.parametrize("text", UNGUARDED.values(), ids=UNGUARDED)
def test_a_program_that_does_not_ask_gets_a_placeholder(program: Any, text: str) -> None:
    assert isinstance(program(text)["fused"], Placeholder)


def test_a_package_without_a_stand_in_has_no_version(program: Any) -> None:
    with pytest.raises(NoStandInError, match=r"^kernels_without_stand_in\.__version__ has no stand-in: "):
        program("import kernels_without_stand_in\nkernels_without_stand_in.__version__\n")


def test_pythons_own_protocols_are_not_there() -> None:
    with pytest.raises(AttributeError) as raised:
        importlib.import_module("made_up_kernels").__wrapped__  # noqa: B018
    assert not isinstance(raised.value, NoStandInError)


NAMES = json.loads((Path(__file__).parent / "public_names.json").read_text())


@pytest.mark.parametrize("release", NAMES)
def test_each_public_name_of_a_release_can_be_imported_and_is_a_stand_in_or_refused(release: str) -> None:
    package = release.partition(" ")[0]
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    imports = [f"from {module} import {name}\n" for module, names in NAMES[release].items() for name in names.split()]
    got: dict[str, Any] = {}
    with Simulation() as simulation, attaching.attached("meta", simulation.mode):
        exec("".join(f"{line[:-1]} as name_{number}\n" for number, line in enumerate(imports)), got)
    lacking = [value for name, value in got.items() if isinstance(value, Placeholder)]
    assert len(got) == len(imports) + 1
    for made in lacking:
        if not made.__name__.endswith("_type"):  # of Triton's types
            with pytest.raises(NoStandInError, match=" has no stand-in: "):
                made()
    assert all(isinstance(None, made) is False and made | None for made in lacking)
