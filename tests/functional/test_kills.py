"""`kill -9` at random moments of a real run or search: no result is lost or half, no process is left, and the same command
goes on.

``DSREGRESS_KILLS`` is how many of each kind (default 1); for a campaign::

    DSREGRESS_KILLS=20 pytest -s tests/functional/test_kills.py
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from dsregress.store import Store
from tests.functional.releases import BEFORE, ENVIRONMENTS, FAULTY, LIMIT_S, NON_REENTRANT
from tests.paths import ROOT

KILLS = int(os.environ.get("DSREGRESS_KILLS", "1"))

SEARCHES = {
    "bisect": (
        *("bisect", f"{BEFORE}..{FAULTY}", "--scenario", "llama_zero3_backward"),
        *("--variant", NON_REENTRANT, "--device", "cpu"),
    ),
    "explore": ("explore", "--deepspeed", f"{BEFORE},{FAULTY}", "--budget", "45s"),
}

#: What is killed -> exit codes of the search: `bisect` stops at a machine's fault (3), `explore` goes on (0, 1).
CODES = {"host": (-signal.SIGKILL,), "keeper": (0, 1, 3), "server": (0, 1, 3)}

#: Longest time from the moment that a process is there to its end by us: cells of this workload take about as long.
_LATEST_S = 2.0


@dataclass(frozen=True)
class Running:
    """The processes of a run, by what they are."""

    keeper: int
    server: int
    cell: int
    rank: int


def processes() -> dict[int, tuple[int, str]]:
    """Pid -> parent's pid and command line, of all that runs in our environments."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            marked = f"DSREGRESS_STARTED_IN={ENVIRONMENTS}".encode() in (process / "environ").read_bytes()
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z" and marked:
            found[int(process.name)] = (int(parent), command)
    return found


def running() -> Running | None:
    """None where no cell runs."""
    found = processes()
    servers = {
        pid: parent
        for pid, (parent, command) in found.items()
        if "dsregress.system.keeper" not in command and "dsregress.system.keeper" in found.get(parent, (0, ""))[1]
    }
    for server, keeper in servers.items():
        for cell in (pid for pid, (parent, _) in found.items() if parent == server):
            ranks = [pid for pid, (parent, _) in found.items() if parent == cell]
            if ranks:
                return Running(keeper, server, cell, random.choice(ranks))
    return None


class Campaign:
    """Runs of one release, with one process after the other killed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.results = folder / "results"
        self.report = folder / "report.json"
        self.log = folder / "log"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start ``regress`` of one release on the CPU."""
        return self.start_command(
            *("regress", "--deepspeed", FAULTY, "--baseline", FAULTY),
            *("--scenario", "llama_zero3_backward", "--device", "cpu", "--rounds", "2", *arguments),
        )

    def start_command(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "DSREGRESS_RESULTS": str(self.results), "DSREGRESS_ENVIRONMENTS": ENVIRONMENTS}
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dsregress", *arguments, "--json", str(self.report)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stored(self) -> dict[str, str]:
        """Cell -> outcome of everything on disk; every file can be read."""
        loaded = Store(str(self.results)).load()
        assert loaded.problems == ()
        return {result.cell.id: type(result.outcome).__name__ for result in loaded.results}

    def files(self) -> dict[str, bytes]:
        """Return what is stored, by its path."""
        return {
            str(file.relative_to(self.results)): file.read_bytes() for file in self.results.rglob("*") if file.is_file()
        }

    def assert_nothing_is_lost_or_left(self) -> int:
        """After a run has ended, however. Returns how many cells it had reported as passed."""
        deadline = time.monotonic() + 10
        while (left := processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == {}
        stored = self.stored()
        log = self.log.read_text(errors="replace")
        reported = re.findall(r"^\[\d+/\d+.*?\] .+?  (\S+): passed", log, re.MULTILINE)
        kept = {re.sub(r"^[^/]*/", "", cell) for cell, outcome in stored.items() if outcome == "Passed"}
        assert set(reported) <= kept, log
        return len(reported)


def _kill_at_random(who: str, of: subprocess.Popen[bytes], seen: set[int], passing: int) -> bool:
    """Kill it once, at a random moment of a cell that is not ``seen``, after ``passing`` others. False where the run has
    ended before."""
    while of.poll() is None:
        found = running()
        if found is None or found.cell in seen:
            time.sleep(0.05)
            continue
        if passing:
            passing -= 1
            seen.add(found.cell)
            continue
        time.sleep(random.uniform(0, _LATEST_S))
        now = running()
        if now is None or now.cell in seen:
            continue
        seen.add(now.cell)
        os.kill(of.pid if who == "host" else getattr(now, who), signal.SIGKILL)
        return True
    return False


@pytest.mark.timeout(LIMIT_S * (KILLS + 1))
@pytest.mark.parametrize("kinds", [("host",), ("server", "cell", "rank")], ids=", ".join)
def test_nothing_is_lost_or_left_by_kill_9(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """The host can be killed once in a run; the others are, one after the other, as long as there are cells."""
    random.seed(f"{kinds} {KILLS}")
    kills = runs = 0
    wanted = KILLS * len(kinds)
    is_host = kinds == ("host",)
    kept: list[int] = []
    while kills < wanted:
        runs += 1
        campaign = Campaign(tmp_path / str(runs))  # so that no other run's result hides one that is lost
        run = campaign.start("--fresh", "--variant", "gradient_accumulation_steps=*")
        seen: set[int] = set()
        passing = random.randint(0, 4) if is_host else 0
        while kills < wanted and _kill_at_random(kinds[kills % len(kinds)], run, seen, passing):
            kills += 1
            if is_host:
                break
        if kills == wanted and not is_host:
            run.send_signal(signal.SIGTERM)
        code = run.wait(LIMIT_S)
        assert code in ((-signal.SIGKILL, 0, 1, 143) if is_host else (0, 1, 3, 4, 143)), campaign.log.read_text()
        kept.append(campaign.assert_nothing_is_lost_or_left())

    completing = campaign.start("--fresh", "--variant", "base", "--rounds", "0")
    assert completing.wait(LIMIT_S) == 0, campaign.log.read_text()
    report = json.loads(campaign.report.read_bytes())
    assert {cell["outcome"] for cell in report["cells"]} == {"passed"}
    campaign.assert_nothing_is_lost_or_left()
    print(f"{kills} kills of {', '.join(kinds)} in {runs} runs: {kept} results reported, all stored; no process left")  # noqa: T201 (what a campaign is run for)


@pytest.mark.nightly
@pytest.mark.timeout(3 * LIMIT_S)
@pytest.mark.parametrize(("search", "who"), [("bisect", "host"), ("bisect", "keeper"), ("explore", "server")])
def test_the_same_search_goes_on_where_kill_9_ended_it(tmp_path: Path, search: str, who: str) -> None:
    random.seed(f"{search} {who}")
    campaign = Campaign(tmp_path / "search")
    killed = campaign.start_command(*SEARCHES[search])
    assert _kill_at_random(who, killed, set(), passing=1), campaign.log.read_text()
    assert killed.wait(LIMIT_S) in CODES[who], campaign.log.read_text()
    campaign.assert_nothing_is_lost_or_left()
    kept = campaign.files()

    again = campaign.start_command(*SEARCHES[search])
    assert again.wait(LIMIT_S) in (0, 1), campaign.log.read_text()
    campaign.assert_nothing_is_lost_or_left()
    assert {name: campaign.files().get(name) for name in kept} == kept
    if search == "bisect":
        course = json.loads(campaign.report.read_bytes())["courses"][0]
        assert [(one["before"], one["after"]) for one in course["changes"] if one["exact"]] == [("0.15.4", "0.16.0")]
