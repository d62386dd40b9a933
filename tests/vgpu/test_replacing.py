from __future__ import annotations

import os
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vgpu import ledgers
from vgpu.patch_ledger import ledger_text
from vgpu.replacing import MissingTarget, Patches, attribute, everywhere, item, variables, working_folder


class Base:
    name = "base"

    @classmethod
    def kind(cls) -> str:
        return cls.name


class Derived(Base):
    name = "derived"


def original() -> str:
    return "original"


def replacement() -> str:
    return "replacement"


def imported(module: types.ModuleType) -> types.ModuleType:
    sys.modules[module.__name__] = module
    return module


@pytest.fixture(autouse=True)
def _modules_forgotten() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_attribute_is_put_back_after_an_error() -> None:
    def fails() -> None:
        with attribute(Derived, "name", "other"):
            raise ValueError(Derived.name)

    with pytest.raises(ValueError, match="other"):
        fails()
    assert Derived.name == "derived"


def test_an_attribute_that_was_not_there_is_gone_again() -> None:
    with attribute(Derived, "size", 3):
        assert Derived.size == 3  # type: ignore[attr-defined]
    assert not hasattr(Derived, "size")


def test_an_inherited_attribute_is_inherited_again_and_a_class_method_stays_one() -> None:
    with attribute(Derived, "kind", lambda: "other"):
        assert Derived.kind() == "other"
    assert "kind" not in vars(Derived)
    with attribute(Base, "kind", lambda: "other"):
        assert Derived.kind() == "other"
    assert Derived.kind() == "derived"


def test_a_function_is_replaced_in_each_module_that_imported_it() -> None:
    holder = imported(types.ModuleType("holder"))
    other = imported(types.ModuleType("other"))
    holder.taken = original  # type: ignore[attr-defined]
    other.taken = replacement  # type: ignore[attr-defined]
    with everywhere(original, lambda: "new", "taken"):
        assert holder.taken() == "new"
        assert other.taken is replacement
        late = imported(types.ModuleType("late"))
        late.taken = holder.taken  # type: ignore[attr-defined]
    assert holder.taken is original
    assert late.taken is original
    assert other.taken is replacement


def test_a_bound_method_is_replaced_with_its_object() -> None:
    class Interface:
        def call(self) -> tuple[str, object]:
            return "original", self

    module = imported(types.ModuleType("bound"))
    interface = Interface()
    module.call = interface.call  # type: ignore[attr-defined]
    with everywhere(Interface.call, lambda self: ("new", self), "call"):
        assert module.call() == ("new", interface)
    assert module.call() == ("original", interface)


def test_a_method_is_replaced_in_its_class_and_where_it_is_held_if_there_is_one() -> None:
    class Interface:
        def call(self) -> str:
            return "original"

    module = imported(types.ModuleType("holds_a_method"))
    module.call = Interface().call  # type: ignore[attr-defined]
    with Patches() as patches:
        patches.definition(Interface, "call", lambda self: "new")
        patches.definition(Interface, "absent", lambda self: "new", absent="only some have it")
        assert (Interface().call(), module.call(), hasattr(Interface, "absent")) == ("new", "new", False)
        with pytest.raises(MissingTarget):
            patches.definition(Interface, "absent", lambda self: "new")
    assert (Interface().call(), module.call()) == ("original", "original")


def test_a_lazy_module_is_not_made_to_import() -> None:
    class Lazy(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"{name} was imported")

    imported(Lazy("lazy"))
    with everywhere(original, replacement, "taken"):
        pass


def test_the_environment_is_as_it_was_whatever_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.delenv("ADDED", raising=False)
    monkeypatch.delenv("BY_THE_PROGRAM", raising=False)
    with variables({"KEPT": "2", "ADDED": "3"}):
        assert (os.environ["KEPT"], os.environ["ADDED"]) == ("2", "3")
        os.environ["BY_THE_PROGRAM"] = "4"
    assert os.environ["KEPT"] == "1"
    assert "ADDED" not in os.environ
    assert "BY_THE_PROGRAM" not in os.environ


def test_patches_end_with_their_block_or_when_closed() -> None:
    module = imported(types.ModuleType("patched"))
    module.taken = original  # type: ignore[attr-defined]
    with Patches() as patches:
        patches.replace(Derived, "name", "first")
        patches.replace(Derived, "name", "second")
        patches.replace(Derived, "absent", 1, absent="only some have it")
        patches.everywhere(original, replacement, "taken")
        assert (Derived.name, hasattr(Derived, "absent"), module.taken) == ("second", False, replacement)
        patches.close()
        assert (Derived.name, module.taken) == ("derived", original)
    assert Derived.name == "derived"


def test_the_working_folder_is_the_old_one_again_after_an_error(tmp_path: Path) -> None:
    def fails() -> None:
        with working_folder(tmp_path):
            raise ValueError(os.getcwd())

    before = os.getcwd()
    with pytest.raises(ValueError, match=tmp_path.name):
        fails()
    assert os.getcwd() == before


def test_what_is_not_there_to_be_replaced_is_an_error_that_no_probing_for_attributes_hides() -> None:
    with Patches() as patches, pytest.raises(MissingTarget) as caught:
        patches.replace(Derived, "renamed", 1)
    assert str(caught.value) == f"{__name__}.Derived has no 'renamed', which the harness replaces"
    assert not isinstance(caught.value, AttributeError)
    assert not hasattr(Derived, "renamed")


@pytest.mark.parametrize(
    ("release", "which", "may_lack_it"),
    [
        ("2.5.1", {"since": "package 2.6"}, True),
        ("2.6.0", {"since": "package 2.6"}, False),
        ("2.15.0a0+git1", {"since": "package 2.6"}, False),
        ("4.57.6", {"until": "package 4"}, False),
        ("5.0.0rc1", {"until": "package 4"}, True),
        ("0.7.9", {"until": "package 0.7"}, False),
        ("0.8.0", {"until": "package 0.7"}, True),
        ("2.7", {"since": "package 2.6", "until": "package 2.9"}, False),
        ("2.10", {"since": "package 2.6", "until": "package 2.9"}, True),
    ],
)
def test_a_release_may_lack_what_it_is_too_old_or_too_new_for(
    release: str, which: dict[str, str], may_lack_it: bool
) -> None:
    package = imported(types.ModuleType("package"))
    package.__version__ = release  # type: ignore[attr-defined]
    with Patches() as patches:
        try:
            patches.replace(package, "renamed", 1, **which)
        except MissingTarget as missing:
            assert str(missing) == "package has no 'renamed', which the harness replaces"
            assert not may_lack_it
        else:
            assert may_lack_it


def test_an_entry_of_a_mapping_is_as_before_afterwards() -> None:
    found = {"there": 1}
    with item(found, "there", 2), item(found, "new", 3):
        assert found == {"there": 2, "new": 3}
    assert found == {"there": 1}


@pytest.fixture
def ledger() -> Iterator[None]:
    """An empty ledger, of this test alone."""
    with ledgers.empty_ledger():
        yield


def test_the_ledger_says_what_is_replaced_why_and_what_is_not_here(ledger: None) -> None:
    package = imported(types.ModuleType("package"))
    package.__version__ = "2.5"  # type: ignore[attr-defined]
    package.call = original  # type: ignore[attr-defined]
    with Patches("phases") as patches:
        patches.replace(package, "call", replacement)
        patches.replace(package, "newer", replacement, since="package 2.6")
        patches.replace(package, "rare", replacement, absent="some builds leave it out")
        patches.add(package, "added", replacement)
        patches.everywhere(original, replacement, "taken")
    assert [line.split("  ") for line in re.sub(" {2,}", "  ", ledger_text()).splitlines()] == [
        ["owner", "name", "since", "until", "here", "why"],
        ["package", "added", "phases"],
        ["package", "call", "phases"],
        ["package", "newer", "package 2.6", "no", "phases"],
        ["package", "rare", "no", "phases; some builds leave it out"],
        [__name__, "taken", "phases"],
    ]


def test_what_is_missing_and_must_not_be_is_an_error_before_it_is_replaced() -> None:
    with Patches("phases") as patches:
        assert patches.has(Derived, "name")
        assert not patches.has(Derived, "renamed", absent="some have none")
        with pytest.raises(MissingTarget):
            patches.has(Derived, "renamed")
