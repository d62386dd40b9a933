"""Before the first cell in an environment counts, a canary has tried its releases; if it dies, the harness has failed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from dsregress.probe import adapters
from dsregress.probe.border.wire import CellRequest
from dsregress.probe.process import canary
from dsregress.probe.process.adapter_loading import load_adapter
from dsregress.probe.process.canary import assert_canary_lives
from dsregress.probe.process.ranks import CellEnded
from tests.probe import one_of_many
from vgpu.canary import Misfit


def request(truths: Path | str, framework: str = "made.up", device: str = "cpu") -> CellRequest:
    return CellRequest(
        scenario="any",
        variant="base",
        device=device,
        parameters={},
        framework=framework,
        warmup_rounds=0,
        rounds=0,
        timeout_s=60.0,
        truths=str(truths),
    )


def adapter(folder: Path, tries: Callable[[], object], name: str = "cpu") -> Any:
    """One that says in a file how often it was tried."""

    @contextlib.contextmanager
    def canary_surroundings(device: str) -> Iterator[str]:
        with (folder / "tries").open("a") as file:
            file.write(device)
        tries()
        yield name

    return SimpleNamespace(canary_surroundings=canary_surroundings)


def tries(folder: Path) -> str:
    return (folder / "tries").read_text() if (folder / "tries").exists() else ""


def raises(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


def test_a_canary_that_lives_is_not_sent_again_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, truths = adapter(tmp_path, lambda: None), tmp_path / "truths"
    for _ in range(2):
        assert_canary_lives(one, request(truths))
    assert tries(tmp_path) == "cpu"
    assert_canary_lives(one, request(truths, device="sim"))
    monkeypatch.setattr(canary, "installed_digest", lambda: "other releases, or another harness")
    assert_canary_lives(one, request(truths))
    assert tries(tmp_path) == "cpusimcpu"


def test_a_canary_that_dies_is_the_harness_failing_and_is_sent_again(tmp_path: Path) -> None:
    one = adapter(tmp_path, raises(Misfit("what replaces torch.f does not fit this release: too many arguments")))
    for _ in range(2):
        with pytest.raises(CellEnded) as caught:
            assert_canary_lives(one, request(tmp_path / "truths"))
        assert (caught.value.outcome, caught.value.stage) == ("failed", "harness")
        assert caught.value.signature == (
            "the canary of this environment: Misfit: what replaces torch.f does not fit this release: too many arguments"
        )
    assert tries(tmp_path) == "cpucpu"


def test_a_program_that_fails_without_replacements_as_well_says_nothing_of_the_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu.canary.train_a_little", lambda device: raises(RuntimeError("a broken torch"))())
    assert_canary_lives(adapter(tmp_path, lambda: None), request(tmp_path / "truths"))
    assert tries(tmp_path) == "cpu"


@pytest.mark.parametrize(("truths", "device"), [("", "cpu"), ("truths", "cuda")])
def test_nothing_is_tried_where_nothing_is_kept_or_on_a_real_card(tmp_path: Path, truths: str, device: str) -> None:
    assert_canary_lives(adapter(tmp_path, lambda: None), request(truths, device=device))
    assert_canary_lives(SimpleNamespace(), request(tmp_path))
    assert tries(tmp_path) == ""


@pytest.fixture(scope="module")
def preloaded() -> None:
    one_of_many.preload()


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("framework", adapters.ADAPTERS)
def test_every_adapter_fits_the_installed_releases(framework: str, device: str, tmp_path: Path) -> None:
    one = load_adapter(framework)
    assert_canary_lives(one, request(tmp_path, framework, device))
    assert [file.suffix for file in tmp_path.iterdir()] == [".canary"]


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize("framework", adapters.ADAPTERS)
def test_in_sim_every_adapter_tries_the_virtual_card(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu.canary.train_a_little", lambda device: (tmp_path / "device").write_text(device))
    assert_canary_lives(load_adapter(framework), request(tmp_path / "truths", framework, "sim"))
    assert (tmp_path / "device").read_text() == "cuda"


@pytest.mark.usefixtures("preloaded")
def test_a_group_that_refuses_what_torch_gives_it_is_found_before_a_cell_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch 2.15, which gave the class of groups one argument more."""
    from vgpu.device import ordered_gloo

    code = compile("def __init__(self, store, rank, size): pass", ordered_gloo.__file__, "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    names["__init__"].__qualname__ = "OrderedGloo.__init__"
    monkeypatch.setattr(ordered_gloo.OrderedGloo, "__init__", names["__init__"])
    with pytest.raises(
        CellEnded, match=r"the canary of this environment: TypeError: .*OrderedGloo.__init__\(\)"
    ) as caught:
        assert_canary_lives(load_adapter(adapters.PROGRAM), request(tmp_path, adapters.PROGRAM))
    assert caught.value.stage == "harness"
    assert list(tmp_path.iterdir()) == []
