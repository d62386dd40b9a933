"""Commands of tests that end, with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], limit_s: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run`, with both outputs captured. At the limit the command's whole process group is killed:
    `subprocess.run` kills the command alone, and then waits without a limit for the pipes, which its ranks still hold."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        out, err = process.communicate(timeout=60)
        raise AssertionError(f"{command} did not end in {limit_s:g} s:\n{out[-6000:]}{err[-2000:]}") from error
    return subprocess.CompletedProcess(command, process.returncode, out, err)
