"""The process between this one and a command that it starts: it ends all that the command has started.

`dsregress.system.kept` starts it, as a program of its own. It is a subreaper, so daemons and orphans of the command
become its children. When the command has ended, or the host has (its end of the control channel closes, and the kernel
sends a signal), the keeper kills what is left until nothing is, and reports it. Should the keeper itself be killed, the
kernel kills the command (`process_control.die_with_parent`), and `dsregress.system.kept` finds the rest by its mark.

The command is a child of the keeper, whose environment is the command's own and holds nothing more.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

from dsregress.probe.border import logs, processes
from vgpu import process_control

_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def keep_command(host: int, control: int, command: list[str]) -> None:
    """Run a command for the process ``host``, and answer on the file descriptor ``control``, one JSON object a line:
    ``{"errno": N}`` if it does not start; else ``{"pid": N}``, then ``{"status": N}`` when it has ended by itself (negative
    for a signal), and last ``{"left": {NAME: COUNT}}``."""
    woken = _wake_on_signals()
    process_control.die_with_parent(host, signal.SIGTERM)
    processes.become_subreaper()
    os.set_inheritable(control, False)
    pid = _start_command(command, control)
    log = 2 if logs.is_log(2) else None
    status = _wait_for_command(pid, control, woken, log)
    if status is None:
        _kill_command(pid)
    else:
        _send_message(control, {"status": status})
    processes.kill_group(pid)  # all there is to do where there is no /proc

    arguments = b"".join(os.fsencode(word) + b"\0" for word in command)
    left = processes.end_descendants(
        grace_s=processes.GRACE_S,
        silently=lambda process: status != 0 and processes.is_fork(process, pid, arguments),
    )
    _send_message(control, {"left": left})


def _wake_on_signals() -> int:
    """Return a file descriptor from which the numbers of arrived signals can be read."""
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in (*_ENDING, signal.SIGCHLD):
        signal.signal(number, lambda number, frame: None)
    return woken


def _start_command(command: list[str], control: int) -> int:
    """Start the command as the leader of a session and return its process id. Exit if it does not start."""
    failing, failed = os.pipe()  # closed by a successful exec
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            process_control.die_with_parent(keeper)
            process_control.give_up_prying()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program inherits that
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(failed, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(failed)
    reason = os.read(failing, 16)
    os.close(failing)
    if reason:
        os.waitpid(pid, 0)
        _send_message(control, {"errno": int(reason)})
        sys.exit(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for end in (0, 1):
        os.dup2(nothing, end)  # the command's alone, so that their reader sees when it closes them
    _send_message(control, {"pid": pid})
    return pid


def _wait_for_command(pid: int, control: int, woken: int, log: int | None) -> int | None:
    """Return how the command ended by itself; None if it has to be ended. Reap orphans meanwhile."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        ready = dict(poll.poll(None if log is None else logs.LOOK_S * 1000))
        if log is not None:
            logs.shorten(log)
        signals = set(os.read(woken, 4096)) if woken in ready else set()
        if (status := _reaped(pid)) is not None:
            return status
        if control in ready or signals & _ENDING:
            return None


def _reaped(pid: int) -> int | None:
    """Reap all children that have ended; return how the command did, if it is one of them."""
    status = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                status = os.waitstatus_to_exitcode(ended[1])
    except ChildProcessError:
        pass
    return status


def _kill_command(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, PermissionError, ChildProcessError):
        pass


def _send_message(control: int, message: dict[str, object]) -> None:
    try:
        os.write(control, json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # the host is gone
