"""``regress -v``: the steps of a whole run, as its debug log has them."""

from __future__ import annotations

import re

from tests.offline.project import GOOD, Project

#: What differs from run to run, and what stands for it below.
_MOVING = (
    (r"^\d\d:\d\d:\d\d\.\d{3} ", ""),
    (r"\bserver-\w+", "SERVER"),
    (r"\bpy3\.\d+-", ""),
    (r"\d+\.\d s\b", "TIME"),
    (r"(?<!\S)/\S+/", "FOLDER/"),
    (r"-[0-9a-f]{12}\b", "-HASH"),
    (r"\b[0-9a-f]{16}\b", "HASH"),
    (r"\d+ packages", "N packages"),
)


def log_lines(err: str) -> list[str]:
    found = [line for line in err.splitlines() if " dsregress." in line]
    for pattern, constant in _MOVING:
        found = [re.sub(pattern, constant, line) for line in found]
    return list(dict.fromkeys(found))  # a result has several details


def test_the_log_of_a_run_names_its_lock_environment_server_cells_and_files(project: Project) -> None:
    project = Project(folder=project.folder, variables=project.variables, work=project.folder / "work")
    project.configure(GOOD)
    cell = f"tinyframe{GOOD}/fit/base/cpu"
    assert log_lines(project.run("regress", "-v", "--no-explain").err) == [
        f"dsregress.versions: tinyframe{GOOD}: resolved in TIME, N packages, kept in FOLDER/tinyframe{GOOD}-HASH.txt",
        f"dsregress.envs: tinyframe{GOOD}: build FOLDER/tinyframe{GOOD}-HASH-cpu",
        f"dsregress.envs: tinyframe{GOOD}: built in TIME",
        f"dsregress.run: {cell}: run: it has no stored results",
        f"dsregress.launch: SERVER: start, for tinyframe.adapter of tinyframe{GOOD}",
        "dsregress.launch: SERVER: ready, its framework is imported",
        f"dsregress.launch: {cell}: started",
        "dsregress.store: wrote FOLDER/HASH.json.gz",
        "dsregress.store: wrote FOLDER/base-cpu-HASH.json",
        f"dsregress.launch: {cell}: passed, TIME",
        "dsregress.launch: SERVER: ended",
    ]
    assert log_lines(project.run("regress", "-v", "--no-explain").err) == [
        f"dsregress.versions: tinyframe{GOOD}: locked by FOLDER/tinyframe{GOOD}-HASH.txt, N packages",
        f"dsregress.envs: tinyframe{GOOD}: reuse FOLDER/tinyframe{GOOD}-HASH-cpu",
    ]
