"""Locks: committed, cached, resolved; and what moves besides the version under test."""

from __future__ import annotations

import logging
import os
import re
from datetime import datetime, timezone
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dsregress.config.settings import read_settings
from dsregress.model import Failed, LockedStack, NotInstalled, Stack
from dsregress.system import clock
from dsregress.versions import locking, releases, undeclared
from dsregress.versions.stack_plans import ConfiguredStacks, plan_stacks
from tests.paths import ROOT

MINE = Stack(python="3.11", versions={"mine": "1.0"})


def never(source: Path, output: Path, python: str, overrides: Path | None) -> Failed | None:
    raise AssertionError("asked to resolve")


class Resolver:
    """Answers with what the file of requirements asks for, and keeps what it was asked."""

    def __init__(self, answers: list[str | Failed]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, str]] = []
        self.overridden: list[str] = []

    def __call__(self, source: Path, output: Path, python: str, overrides: Path | None) -> Failed | None:
        self.asked.append((source.read_text(), output.read_text(), python))
        self.overridden.append("" if overrides is None else overrides.read_text())
        answer = self.answers.pop(0)
        if isinstance(answer, Failed):
            return answer
        output.write_text(answer)
        return None


def configured() -> list[Stack]:
    settings = read_settings(start=ROOT, environ={})
    return [
        stack
        for name in (None, *settings.stacks)
        for stack in plan_stacks(
            ConfiguredStacks(table=settings.stack, baseline=settings.baseline, python="3.11", named=settings.stacks),
            name=name,
        ).stacks
    ]


def test_all_configured_stacks_have_a_committed_lock_that_is_not_stale(tmp_path: Path) -> None:
    locked = locking.lock_all(configured(), cache=tmp_path, compile=never)
    assert all(isinstance(one, LockedStack) for one in locked)
    assert len({one.sha256 for one in locked if isinstance(one, LockedStack)}) == len(configured())


def test_the_releases_that_were_locked_before_are_known(tmp_path: Path) -> None:
    answers: list[str | Failed] = [
        "ring-attn==2.7.0\nmine==1.0\n",
        "mine==1.1\nmine-too==3.0 ; sys_platform == 'win32'\n",
    ]
    resolver = Resolver(answers)
    for version in ("1.0", "1.1"):
        stack = Stack(python="3.11", versions={"mine": version})
        assert isinstance(locking.lock_stack(stack, cache=tmp_path, compile=resolver), LockedStack)
    (tmp_path / "damaged.txt").write_bytes(b"\xff")
    assert sorted(locking.locked_releases(tmp_path, "mine")) == ["1.0", "1.1"]
    assert locking.locked_releases(tmp_path, "Ring_Attn") == ("2.7.0",)
    assert locking.locked_releases(tmp_path / "nowhere", "mine") == ()


def test_committed_locks_hold_exact_pins_without_builds_and_places() -> None:
    files = sorted(locking.FOLDER.glob("*.txt"))
    assert locking.BASE in files
    for file in files:
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert len(lines) > 40
        for line in lines:
            requirement = Requirement(line)
            assert requirement.url is None
            assert [s.operator for s in requirement.specifier] == ["=="]
            assert "+" not in str(requirement.specifier)


def test_the_default_stacks_differ_in_nothing_but_the_version_under_test(tmp_path: Path) -> None:
    settings = read_settings(start=ROOT, environ={})
    default = plan_stacks(ConfiguredStacks(table=settings.stack, baseline=settings.baseline, python="3.10"))
    for python in ("3.10", "3.11", "3.12"):
        stacks = [Stack(python=python, versions=stack.versions) for stack in default.stacks]
        first, *others = (one for one in locking.lock_all(stacks, cache=tmp_path, compile=never))
        assert isinstance(first, LockedStack)
        for other in others:
            assert isinstance(other, LockedStack)
            assert locking.drift(first, other, default.axes) == ()


def test_committed_releases_are_in_version_order() -> None:
    for package in releases.OLDEST:
        assert releases.known_releases(package) == releases.sorted_versions(releases.known_releases(package)) != ()


def test_a_resolved_lock_is_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    resolver = Resolver(["mine==1.0\nhelper==2.0\n    # via mine\n"])
    first = locking.lock_stack(MINE, cache=tmp_path, compile=resolver)
    assert isinstance(first, LockedStack)
    assert first.requirements == ("helper==2.0", "mine==1.0")
    assert locking.lock_stack(MINE, cache=tmp_path, compile=never) == first


@pytest.mark.parametrize("damage", ["fifo", "no text", "empty"])
def test_a_damaged_lock_is_resolved_again(tmp_path: Path, damage: str) -> None:
    first = locking.lock_stack(MINE, cache=tmp_path, compile=Resolver(["mine==1.0\n"]))
    (file,) = tmp_path.iterdir()
    file.unlink()
    if damage == "fifo":
        os.mkfifo(file)
    else:
        file.write_bytes(b"\xff\xfe" if damage == "no text" else b"")
    assert locking.lock_stack(MINE, cache=tmp_path, compile=Resolver(["mine==1.0\n"])) == first


def test_other_tools_are_another_lock(tmp_path: Path) -> None:
    resolver = Resolver(["mine==1.0\n", "mine==1.0\ntool==1\n"])
    one = locking.lock_stack(MINE, cache=tmp_path, compile=resolver, tools=())
    two = locking.lock_stack(MINE, cache=tmp_path, compile=resolver, tools=("tool",))
    assert isinstance(one, LockedStack)
    assert isinstance(two, LockedStack)
    assert one.sha256 != two.sha256


def test_resolution_prefers_what_the_base_lock_has(tmp_path: Path) -> None:
    resolver = Resolver(["mine==1.0\n"])
    locking.lock_stack(MINE, cache=tmp_path, compile=resolver)
    source, preferences, python = resolver.asked[0]
    assert source.splitlines()[0] == "mine==1.0"
    assert preferences == locking.BASE.read_text()
    assert python == "3.10"


def test_a_stack_that_dropped_old_pythons_is_resolved_for_the_oldest_that_it_supports() -> None:
    resolver = Resolver([Failed("install", "needs 3.11"), "torch==3.0\n"])
    assert locking.resolve(["torch===3.0"], base="", compile=resolver, python="3.12") == ("torch==3.0",)
    assert [python for _, _, python in resolver.asked] == ["3.10", "3.11"]


def test_a_stack_that_dropped_all_older_pythons_is_resolved_for_its_own() -> None:
    no = Failed("install", "needs 3.12")
    resolver = Resolver([no, no, "torch==3.0\n"])
    assert locking.resolve(["torch===3.0"], base="", compile=resolver, python="3.12") == ("torch==3.0",)
    assert [python for _, _, python in resolver.asked] == ["3.10", "3.11", "3.12"]


def test_a_lock_begins_with_no_newer_python_than_the_stack_has() -> None:
    resolver = Resolver([Failed("install", "needs 3.11")] * 2)
    assert isinstance(locking.resolve(["torch===3.0"], base="", compile=resolver, python="3.10"), Failed)
    assert {python for _, _, python in resolver.asked} == {"3.10"}


def test_a_build_of_torch_is_taken_last_and_its_name_stays_out_of_the_lock() -> None:
    no = Failed("install", "no solution: only a build")
    resolver = Resolver([no, no, "torch==2.13.0+cpu ; sys_platform == 'linux'\n"])
    pins = locking.resolve(["torch===2.13.0"], base="", compile=resolver, python="3.11")
    assert pins == ("torch==2.13.0 ; sys_platform == 'linux'",)
    assert resolver.asked[2][0] == "torch==2.13.0\n"


NO_NEWER = [Failed("install", "no solution: only its-helper<=2.2 is available")] * 2


def newest_helper(resolver: Resolver, cache: Path, limit: str = "") -> dict[str, str] | NotInstalled:
    return locking.newest_that_fit(MINE, {"Its_Helper": limit}, cache=cache, compile=resolver, tools=())


def test_the_newest_release_that_goes_with_a_stack_is_found_under_the_name_that_was_given(tmp_path: Path) -> None:
    resolver = Resolver(["mine==1.0\nits-helper==2.1 ; python_version >= '3.10'\n", *NO_NEWER])
    assert newest_helper(resolver, tmp_path) == {"Its_Helper": "2.1"}
    requirements, preferences, _ = resolver.asked[0]
    assert (requirements.split(), preferences) == (["Its_Helper", "mine==1.0"], "")
    no = Failed("install", "no solution: mine needs its-helper<1")
    assert newest_helper(Resolver([no] * 2), tmp_path, "<1") == no


def test_an_old_release_that_bounds_nothing_gives_way_to_the_newest_that_goes(tmp_path: Path) -> None:
    """As datasets 2.14.4, which a resolver takes beside an fsspec that all later ones exclude."""
    resolver = Resolver(["mine==1.0\nits-helper==0.3\n", "mine==1.0\nits-helper==2.2\n", *NO_NEWER])
    assert newest_helper(resolver, tmp_path, "<3") == {"Its_Helper": "2.2"}
    assert resolver.asked[1][0].split() == ["Its_Helper<3,>0.3", "mine==1.0"]


def test_a_release_candidate_is_not_taken_for_a_newer_release(tmp_path: Path) -> None:
    resolver = Resolver(["mine==1.0b1\nits-helper==1.3.2\n", "mine==1.0b1\nits-helper==1.4.0rc3\n"])
    assert newest_helper(resolver, tmp_path) == {"Its_Helper": "1.3.2"}


def test_a_stack_may_be_held_whatever_the_newest_require_of_it(tmp_path: Path) -> None:
    resolver = Resolver(["mine==1.0\nits-own==3.0\n", "mine==1.0\nits-helper==2.1\n", *NO_NEWER])
    found = locking.newest_that_fit(MINE, {"its-helper": ""}, cache=tmp_path, compile=resolver, tools=(), held=True)
    assert found == {"its-helper": "2.1"}
    assert resolver.overridden[:2] == ["", "its-own==3.0\nmine==1.0\n"]


EXCLUDE = """error: No solution found when resolving dependencies for split (markers: python_full_version >= '3.11')
  cause: Because all versions of moshi depend on torch>=2.2.0,<2.10 and you require moshi and torch==2.13.0, we can
         conclude that your requirements are unsatisfiable."""
OF_OLDER = EXCLUDE.replace("python_full_version >= '3.11'", "python_full_version == '3.10.*'")


@pytest.mark.parametrize(
    ("said", "times"), [(EXCLUDE, 1), (OF_OLDER, 3), (EXCLUDE.replace("all versions", "no version of torch"), 3)]
)
def test_requirements_that_exclude_each_other_whatever_the_python_are_resolved_once(said: str, times: int) -> None:
    resolver = Resolver([Failed("install", "no solution: x", said)] * times)
    assert isinstance(locking.resolve(["torch===2.13.0"], base="", compile=resolver, python="3.11"), Failed)
    assert len(resolver.asked) == times


def test_what_was_the_newest_today_is_neither_resolved_nor_looked_up_again(tmp_path: Path) -> None:
    newest_helper(Resolver(["mine==1.0\nits-helper==2.1\n", *NO_NEWER]), tmp_path)
    assert newest_helper(Resolver([]), tmp_path) == {"Its_Helper": "2.1"}
    assert locking.locked_releases(tmp_path, "its-helper") == ("2.1",)


def test_what_was_the_newest_yesterday_is_resolved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest_helper(Resolver(["mine==1.0\nits-helper==2.1\n", *NO_NEWER]), tmp_path)
    monkeypatch.setattr(clock, "now", lambda: datetime(2100, 1, 1, tzinfo=timezone.utc))
    assert newest_helper(Resolver(["mine==1.0\nits-helper==2.2\n", *NO_NEWER]), tmp_path) == {"Its_Helper": "2.2"}


def test_a_stack_without_a_solution_is_a_failure_of_that_stack(tmp_path: Path) -> None:
    no = Failed("install", "no solution: a needs b")
    assert locking.lock_stack(MINE, cache=tmp_path, compile=Resolver([no, no, no])) == no


NO = Failed("install", "no solution: openrlhf needs deepspeed 0.16.3")
OPENRLHF = Stack(python="3.11", versions={"deepspeed": "0.16.8", "openrlhf": "0.5.9"})


def test_a_stack_pins_what_a_package_that_was_added_demands_otherwise(tmp_path: Path) -> None:
    resolver = Resolver([NO, NO, NO, "deepspeed==0.16.8\n", "deepspeed==0.16.8\nopenrlhf==0.5.9\n"])
    made = locking.lock_stack(OPENRLHF, cache=tmp_path, compile=resolver)
    assert isinstance(made, LockedStack)
    assert "openrlhf" not in resolver.asked[3][0], "the stack by itself can be had"
    assert resolver.overridden == ["", "", "", "", "deepspeed==0.16.8\n"]


def test_a_stack_with_numpy_1_gets_a_pyarrow_that_it_can_import() -> None:
    resolver = Resolver(["numpy==1.26.4\npyarrow==26.0.1\n", "numpy==1.26.4\npyarrow==25.0.0\n"])
    pins = locking.resolve(["datasets", "numpy<2"], base="", compile=resolver, python="3.11")
    assert pins == ("numpy==1.26.4", "pyarrow==25.0.0")
    assert resolver.asked[1][0] == "datasets\nnumpy<2\npyarrow<26\n"


def test_a_bound_that_follows_from_another_is_met_too() -> None:
    resolver = Resolver(
        [
            "torch==2.2.2\nnumpy==2.4.6\npyarrow==26.0.1\n",
            "torch==2.2.2\nnumpy==1.26.4\npyarrow==26.0.1\n",
            "torch==2.2.2\nnumpy==1.26.4\npyarrow==25.0.0\n",
        ]
    )
    pins = locking.resolve(["torch===2.2.2"], base="", compile=resolver, python="3.11")
    assert pins == ("numpy==1.26.4", "pyarrow==25.0.0", "torch==2.2.2")


def test_a_release_that_the_user_names_is_installed_though_it_cannot_go_with_the_others() -> None:
    failed = Failed(stage="install", signature="no solution")
    resolver = Resolver(["numpy==1.26.4\npyarrow==26.0.1\n", failed, failed, failed])
    pins = locking.resolve(["numpy<2", "pyarrow==26.0.1"], base="", compile=resolver, python="3.11")
    assert pins == ("numpy==1.26.4", "pyarrow==26.0.1")


def test_committed_locks_meet_what_nothing_declares() -> None:
    files = list(locking.FOLDER.glob("*.txt"))
    assert files
    for file in files:
        assert undeclared.broken(file.read_text().splitlines()) == ()


def test_a_stack_that_cannot_be_had_by_itself_overrides_nothing(tmp_path: Path) -> None:
    resolver = Resolver([NO] * 6)
    assert locking.lock_stack(OPENRLHF, cache=tmp_path, compile=resolver) == NO
    assert not any(resolver.overridden)


def test_a_package_that_is_left_out_is_installed_nowhere(tmp_path: Path) -> None:
    resolver = Resolver(["mine==1.0\n"])
    stack = Stack(python="3.11", versions={"mine": "1.0", "flash-attn": ""})
    assert isinstance(locking.lock_stack(stack, cache=tmp_path, compile=resolver), LockedStack)
    assert resolver.overridden == ["flash-attn; sys_platform == 'none'\n"]


def test_kernels_that_need_a_compiler_for_gpus_are_left_out_unless_the_stack_names_them(tmp_path: Path) -> None:
    with_kernel = "mine==1.0\nflash-attn==2.8.3\n"
    resolver = Resolver([with_kernel, "mine==1.0\n", with_kernel])
    locked = locking.lock_stack(MINE, cache=tmp_path, compile=resolver)
    assert isinstance(locked, LockedStack)
    assert not any("flash-attn" in pin for pin in locked.requirements)
    assert resolver.overridden == ["", "flash-attn; sys_platform == 'none'\n"]
    named = Stack(python="3.11", versions={"mine": "1.0", "flash-attn": "2.8.3"})
    assert isinstance(locking.lock_stack(named, cache=tmp_path, compile=resolver), LockedStack)
    assert resolver.overridden[2:] == [""]


def test_drift_tells_what_else_moved_on_this_python() -> None:
    def locked(*pins: str) -> LockedStack:
        return LockedStack(stack=MINE, requirements=pins, sha256="")

    a = locked("mine==1.0", "tokenizers==0.21.4", "torch==2.5.1", "triton==3.1", "old==1 ; python_version < '3.11'")
    b = locked("mine==2.0", "tokenizers==0.22.2", "torch==2.6.0", "triton==3.2", "new==1 ; python_version >= '3.11'")
    assert locking.drift(a, b, ("mine", "torch")) == ("new absent -> 1", "tokenizers 0.21.4 -> 0.22.2")
    assert "triton 3.1 -> 3.2" in locking.drift(a, b, ("mine",))


def test_the_debug_log_says_where_a_lock_is_from(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    resolver = Resolver(["mine==1.0\nother==2.0\n"])
    with caplog.at_level(logging.DEBUG, logger="dsregress.versions"):
        for _ in range(2):
            locking.lock_stack(MINE, cache=tmp_path, compile=resolver)
    (kept,) = tmp_path.glob("*.txt")
    assert [re.sub(r"\d+\.\d s", "TIME", record.getMessage()) for record in caplog.records] == [
        f"py3.11-mine1.0: resolved in TIME, 2 packages, kept in {kept}",
        f"py3.11-mine1.0: locked by {kept}, 2 packages",
    ]


def test_the_debug_log_says_why_a_stack_is_not_locked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    resolver = Resolver([Failed("resolve", "no such release")] * 3)
    with caplog.at_level(logging.DEBUG, logger="dsregress.versions"):
        locking.lock_stack(MINE, cache=tmp_path, compile=resolver)
    assert [re.sub(r"\d+\.\d s", "TIME", record.getMessage()) for record in caplog.records] == [
        "py3.11-mine1.0: not resolved, TIME: no such release"
    ]


def test_a_lock_as_of_a_day_has_nothing_of_those_that_are_committed(tmp_path: Path) -> None:
    committed, resolver = configured()[0], Resolver(["then==1.0\n"])
    assert locking.known_lock(committed, cache=tmp_path) is not None
    assert locking.known_lock(committed, cache=tmp_path, as_of="2025-02-20") is None
    locked = locking.lock_stack(committed, cache=tmp_path, compile=resolver, as_of="2025-02-20")
    assert isinstance(locked, LockedStack)
    assert locked.requirements == ("then==1.0",)
    assert [preferences for _, preferences, _ in resolver.asked] == [""]
    assert locking.known_lock(committed, cache=tmp_path, as_of="2025-02-20") == locked
    assert locking.known_lock(committed, cache=tmp_path, as_of="2025-02-21") is None


def test_what_an_extra_adds_to_a_stack_is_found_with_its_package() -> None:
    resolver = Resolver(["mine==1.0\nit==2.1\nbase==4\n", "mine==1.0\nit==2.1\nbase==4\nof-the-extra==3.0\n"])
    found = locking.releases_with_extras(MINE, ["it[extra]>=2"], compile=resolver, tools=())
    assert found == {"it": "2.1", "of-the-extra": "3.0"}
    assert [requirements.split() for requirements, _, _ in resolver.asked] == [
        ["mine==1.0", "it>=2"],
        ["mine==1.0", "it[extra]>=2"],
    ]
    no = Failed("install", "no solution: mine needs it<1")
    assert locking.releases_with_extras(MINE, ["it[extra]"], compile=Resolver([no] * 3), tools=()) == no
