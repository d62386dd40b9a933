"""Host work: which calls are counted, and that the counts repeat."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.probe.meters.host_work import HostWork


def helper() -> int:
    return len("abc")


def counted(times: int) -> dict[str, int]:
    work = HostWork()
    with work:
        for _ in range(times):
            helper()
    return work.functions()


def test_python_and_c_functions_are_counted_to_the_last_call() -> None:
    functions = counted(7)
    own = [calls for name, calls in functions.items() if name.endswith(":helper")]
    assert own == [7]
    assert functions["builtins.len"] == 7


def test_the_same_work_gives_the_same_counts() -> None:
    assert counted(50) == counted(50)


def test_a_programs_own_file_is_named_within_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    variables: dict[str, object] = {}
    exec(compile("def own(): ...", str(tmp_path / "engine" / "train.py"), "exec"), variables)
    work = HostWork()
    with work:
        variables["own"]()  # type: ignore[operator]
    assert work.functions()["engine/train.py:own"] == 1
