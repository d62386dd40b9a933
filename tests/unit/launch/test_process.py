"""Talking to a process that may crash, hang, print or lie."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dsregress.launch.process import Gone, Hung, ServerProcess
from tests.paths import SOURCE


def start(folder: Path, program: str) -> ServerProcess:
    return ServerProcess([sys.executable, "-c", program], os.environ, str(folder), str(folder / "log"))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_messages_go_both_ways(tmp_path: Path) -> None:
    server = start(tmp_path, "import sys; [print(line, end='', flush=True) for line in sys.stdin]")
    server.send({"do": "round"})
    assert server.receive(10) == {"do": "round"}
    assert server.kill(5) == "ended with exit code 0"


def test_a_process_that_dies_with_its_parent_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    program = f"""
import os, sys
sys.path.insert(0, {str(SOURCE)!r})
from vgpu import process_control
process_control.die_with_parent(os.getppid())
print('{{"event": "ready"}}', flush=True)
for line in sys.stdin:
    print(line, end='', flush=True)
"""
    servers: list[ServerProcess] = []

    def ask() -> None:
        servers.append(start(tmp_path, program))
        servers[0].receive(30)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    servers[0].send({"do": "round"})
    assert servers[0].receive(10) == {"do": "round"}
    assert servers[0].kill(5) == "ended with exit code 0"


def test_what_is_no_message_is_skipped(tmp_path: Path) -> None:
    server = start(tmp_path, r"""print('hello\n{"half": \n[1]\n\x00\xff\n' + '[' * 99999 + '\n{"event": "ready"}')""")
    assert server.receive(10) == {"event": "ready"}
    server.close()


def test_an_endless_line_ends_it(tmp_path: Path) -> None:
    server = start(tmp_path, "while True: print('x' * 65536, end='')")
    with pytest.raises(Gone, match="was killed for writing garbage"):
        server.receive(30)


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("raise SystemExit(7)", "ended with exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
    ],
)
def test_an_end_tells_how_it_came(tmp_path: Path, program: str, how: str) -> None:
    server = start(tmp_path, program)
    with pytest.raises(Gone) as caught:
        server.receive(10)
    assert caught.value.how == how
    with pytest.raises(Gone):
        server.send({"do": "round"})


def test_silence_is_noticed_in_time(tmp_path: Path) -> None:
    server = start(tmp_path, "import time; time.sleep(60)")
    before = time.monotonic()
    with pytest.raises(Hung):
        server.receive(0.2)
    assert time.monotonic() - before < 5
    assert server.kill() == "was killed by the harness"


def test_killing_takes_the_whole_group(tmp_path: Path) -> None:
    server = start(
        tmp_path,
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('{\"pid\": %d}' % child.pid, flush=True)\n"
        "time.sleep(60)",
    )
    child = server.receive(10)["pid"]
    assert is_alive(child)
    server.kill()
    deadline = time.monotonic() + 5
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(child)


def test_two_threads_may_end_it_at_once(tmp_path: Path) -> None:
    server = start(tmp_path, "import time; time.sleep(60)")
    together = threading.Barrier(4, timeout=60)

    def end() -> str:
        together.wait()
        return server.kill(0.05)

    with ThreadPoolExecutor(4) as threads:
        ends = [threads.submit(end) for _ in range(4)]
    assert [end.result() for end in ends] == ["was killed by the harness"] * 4


def test_what_it_prints_on_stderr_is_in_its_log(tmp_path: Path) -> None:
    server = start(tmp_path, "import sys; sys.stderr.write('oh no')")
    with pytest.raises(Gone):
        server.receive(10)
    assert (tmp_path / "log").read_text() == "oh no"
