"""A canary of the harness: before the first cell in an environment counts, a small program finds out whether what replaces
names of packages fits their releases.

It runs in a process of its own, takes about a second, and is not repeated until the environment or the harness is another
one. If it fails, the harness does not fit these releases: its cells end as failed in the harness, and no result of theirs
is a release's. A small program that fails without replacements as well says nothing about the harness.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

from dsregress.probe.border import faults
from dsregress.probe.border.own_code import FOLDERS
from dsregress.probe.border.wire import CellRequest
from dsregress.probe.framework import HasCanary
from dsregress.probe.process.ranks import CellEnded
from vgpu import process_control
from vgpu.replacing import working_folder
from vgpu.whole_files import write_whole


def assert_canary_lives(adapter: object, request: CellRequest) -> None:
    """Raise CellEnded if the replacements of an adapter do not fit the installed releases. Where no truths are kept, nothing
    is tried."""
    if not isinstance(adapter, HasCanary) or not request.truths or request.device == "cuda":
        return
    tried = hashlib.sha256(f"{request.framework} {request.device} {installed_digest()}".encode()).hexdigest()
    file = Path(request.truths, f"{tried[:32]}.canary")
    if file.exists():
        return
    if signature := _forked(adapter, request.device):
        raise CellEnded("failed", faults.HARNESS, f"the canary of this environment: {signature}")
    with contextlib.suppress(OSError):  # then it is tried again
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, "")


@functools.cache
def installed_digest() -> str:
    """Return the hash of the installed releases and of the harness's own code. A server calls it before it forks cells."""
    releases = sorted(f"{found.name} {found.version}" for found in distributions())
    sha = hashlib.sha256(json.dumps([sys.version, *releases]).encode())
    for file in sorted(file for folder in FOLDERS for file in Path(folder).rglob("*.py")):
        sha.update(file.read_bytes())
    return sha.hexdigest()


def _forked(adapter: HasCanary, device: str) -> str:
    """Return the signature of what fails, empty without a failure. Try it in a fork: it joins ranks and replaces names."""
    read, write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            process_control.die_with_parent(parent)
            with tempfile.TemporaryDirectory() as folder, working_folder(folder):
                os.write(write, _canary_signature(adapter, device).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8", errors="replace") as answer:
        signature = answer.read()
    _, status = os.waitpid(pid, 0)
    return faults.signal_signature(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else signature


def _canary_signature(adapter: HasCanary, device: str) -> str:
    from vgpu import canary  # imports torch

    try:
        with adapter.canary_surroundings(device) as name:
            canary.assert_fits()
            canary.train_a_little(name)
    except BaseException as error:  # whatever a release leads to, an exit included, is the canary's answer
        signature = faults.signature_of(error)
    else:
        return ""
    try:
        canary.train_a_little("cpu")
    except Exception:  # training fails without what is replaced as well, so the fault is the release's own
        return ""
    return signature
