"""Keeps what a program writes from its user's files: weights that it saves have no values."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from vgpu import isolation

#: Most paths that are named of those that a program wrote.
_MOST_NAMED = 3


def run_apart(folder: Path, run: Callable[[], int]) -> int:
    """Call ``run`` in a process of its own, and return its exit code. What it writes outside ``folder`` is discarded or, on
    a machine that cannot do that, refused; say on stderr what was discarded, and beforehand if neither is possible.

    Call it before this process has threads. Raise ChildProcessError if a signal ends the process.
    """
    kind = isolation.make_shield(folder, [])
    if kind == isolation.NONE:
        _say("this machine cannot keep your files from the program: what it saves has no values, and stays")
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            isolation.join_shield(folder)
            code = run()
        except KeyboardInterrupt:
            pass  # the caller says so
        except BaseException:  # a fork never returns into its caller's code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    try:
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except KeyboardInterrupt:  # which the process has, too
        os.waitpid(child, 0)
        raise
    if discarded := isolation.changed_outside(folder):
        more = f" and {len(discarded) - _MOST_NAMED} more" if len(discarded) > _MOST_NAMED else ""
        _say(f"discarded what the program wrote: {', '.join(discarded[:_MOST_NAMED])}{more}")
    if ended < 0:
        raise ChildProcessError(f"signal {-ended} ended the program")
    return ended


def _say(line: str) -> None:
    print(f"vgpu: {line}", file=sys.stderr, flush=True)
