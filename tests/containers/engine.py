"""A container engine and a base image for the tests, where none can be had from a registry.

python tests/containers/engine.py start FOLDER     start a daemon (as root, with dockerd), print its DOCKER_HOST
python tests/containers/engine.py stop FOLDER      stop it, and remove all that it kept

Standard library and the Docker SDK alone. The base image has the running Python's minor release: Docker's own slim image
where a registry answers, else a minimal Debian whose packages debootstrap fetches. They are unpacked and not configured,
which takes a quarter of the time: what runs in the containers is Python and a shell.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

#: The Debian whose python3 is the running one's minor release.
_DEBIAN = {"3.11": "bookworm", "3.13": "trixie"}

_TAG = f"dsregress-test-base:{PYTHON}"
#: Of the folders of daemons that are our own.
PREFIX = "dsregress-engine-"
#: Where these folders are: mounts in /tmp would make the view of each program under test mount its many entries one by one.
PLACE = "/var/tmp"

_START_S = 60.0
#: A daemon gives containerd 15 s to start, which a busy machine may not.
_STARTS, _SLOW = 3, "timeout waiting for containerd"
_STOP_S = 30.0
#: A daemon that was started over what another one had left waits 15 s for it.
_GRACE_S = 3.0
_BOOTSTRAP_S = 900.0


class NoEngine(Exception):
    """Why there can be none here."""


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The address of an engine: the one that answers already, else one of our own for as long as it is needed.

    Raises NoEngine.
    """
    if _answers(os.environ.get("DOCKER_HOST")):
        yield os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        return
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
    try:
        yield start(folder)
    finally:
        stop(folder)


def start(folder: Path) -> str:
    """Start a daemon that keeps everything in ``folder``; returns its address. Raises NoEngine."""
    program = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise NoEngine(
            "the Docker daemon does not respond, and there is no dockerd to start (apt-get install docker.io)"
        )
    if os.getuid() != 0:
        raise NoEngine("the Docker daemon does not respond, and only root can start one")
    folder.mkdir(parents=True, exist_ok=True)
    address = f"unix://{folder}/docker.sock"
    command = [program, "--iptables=false", "--bridge=none", "-H", address]
    command += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"]
    for _ in range(_STARTS):
        complaint = _start(command, address, folder)
        if not complaint:
            return address
        if _SLOW not in complaint:
            break
    stop(folder)
    raise NoEngine(f"dockerd does not start: {complaint[:300]}")


def _start(command: Sequence[str], address: str, folder: Path) -> str:
    """Start a daemon and wait until it answers. Returns its last line where it does not, else nothing."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=folder
        )
    deadline = time.monotonic() + _START_S
    while not _answers(address):
        if process.poll() is not None or time.monotonic() > deadline:
            return (folder / "log").read_text(errors="replace").strip().rpartition("\n")[2] or "it says nothing"
        time.sleep(0.1)
    return ""


def kill(folder: Path) -> None:
    """Kill the daemon of that folder, and nothing that it has started; `start` brings it back with all that it kept."""
    number = int((folder / "pid").read_text())
    handle = os.pidfd_open(number)
    os.kill(number, signal.SIGKILL)
    select.select([handle], [], [], _STOP_S)
    os.close(handle)
    (folder / "pid").unlink()


def stop(folder: Path) -> None:
    """Stop the daemon of that folder, where it runs, and remove the folder."""
    with contextlib.suppress(OSError, ValueError):
        number = int((folder / "pid").read_text())
        os.kill(number, signal.SIGTERM)
        for _ in range(round(_GRACE_S * 10)):
            os.kill(number, 0)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(number, os.WNOHANG)
            time.sleep(0.1)
        kill(folder)
    # Where it was killed, what it has started is there; it also leaves the host's network namespace mounted, and its data.
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            program, *arguments = (process / "cmdline").read_bytes().split(b"\0")
            if b"containerd" in program and any(os.fsencode(folder) in argument for argument in arguments):
                os.kill(int(process.name), signal.SIGKILL)
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in reversed(mounted):
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", place], stderr=subprocess.DEVNULL, check=False, timeout=_STOP_S)
    shutil.rmtree(folder, ignore_errors=True)


def base_image(client: Any) -> str:
    """Name of an image in the engine with the running Python, made unless it is there. Raises NoEngine."""
    import docker.errors

    for name in (_TAG, f"python:{PYTHON}-slim"):
        with contextlib.suppress(docker.errors.ImageNotFound):
            client.images.get(name)
            return name
    try:
        client.images.pull(f"python:{PYTHON}-slim")
        return f"python:{PYTHON}-slim"
    except docker.errors.APIError as error:
        _bootstrap(client, f"no registry answers ({str(error)[:120]})")
        return _TAG


def _bootstrap(client: Any, why: str) -> None:
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if PYTHON not in _DEBIAN or program is None or os.getuid() != 0:
        raise NoEngine(f"{why}, and a base image with Python {PYTHON} cannot be made: that needs root and debootstrap")
    with tempfile.TemporaryDirectory(prefix="dsregress-root-") as place:
        root, archive = Path(place) / "root", Path(place) / "root.tar"
        # It mounts /proc and starts many processes, none of which may outlive its limit.
        command = ["unshare", "--mount", "timeout", "--kill-after=10", f"{_BOOTSTRAP_S:.0f}"]
        command += [program, "--foreign", "--variant=minbase", "--include=python3", _DEBIAN[PYTHON], str(root)]
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=_BOOTSTRAP_S + 20
        )
        if done.returncode == 124:
            raise NoEngine(f"{why}, and debootstrap made no base image in {_BOOTSTRAP_S:.0f} s")
        if done.returncode != 0:
            raise NoEngine(f"{why}, and debootstrap failed: {(done.stdout.strip().splitlines() or ['?'])[-1]}")
        _unpack(root)
        left_out = ("debootstrap", "var/cache/apt/*", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/locale/*")
        exclude = [f"--exclude=./{place}" for place in left_out]
        _run("tar", "-C", str(root), *exclude, "-cf", str(archive), ".")
        repository, tag = _TAG.split(":")
        client.api.import_image(src=str(archive), repository=repository, tag=tag)


def _unpack(root: Path) -> None:
    """What debootstrap has fetched and not unpacked, with the users that Debian has, and bytecode."""
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        # Not `dpkg-deb --extract`, which puts a folder where /bin is a link to /usr/bin.
        _run("sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar -C "$1" --keep-directory-symlink -xf -', package, root)
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / f"etc/{name}")
    library = root / f"usr/lib/python{PYTHON}"
    _run(sys.executable, "-m", "compileall", "-q", "-s", root, "-p", "/", library)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, timeout=_BOOTSTRAP_S, stdin=subprocess.DEVNULL)


def _answers(address: str | None) -> bool:
    import docker
    import requests

    try:
        client = docker.DockerClient(base_url=address) if address else docker.from_env()
    except (docker.errors.DockerException, requests.RequestException):
        return False
    try:
        return bool(client.ping())
    except (docker.errors.DockerException, requests.RequestException):
        return False
    finally:
        client.close()


if __name__ == "__main__":
    what, where = sys.argv[1:]
    if what == "stop":
        stop(Path(where))
    else:
        try:
            sys.stdout.write(f"{start(Path(where))}\n")
        except NoEngine as error:
            sys.exit(str(error))
