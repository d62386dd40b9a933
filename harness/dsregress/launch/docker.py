"""Runs cells in containers: one probe server per image, device mode and framework, each in its own container.

The dialogue is the same as with a server on this machine (`dsregress.launch.worker`), over the container's attached
stdin and stdout. A container has no network, its own limits, and may write only to the folder of its runs and to /tmp.
Its stdin is open as long as this process holds it: if the host process is killed, the server reads the end of its
stdin, and the container stops. Containers that are left are found by their label at the next start.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dsregress.config.containers import Containers
from dsregress.errors import EnvironmentUnavailable
from dsregress.launch import staging
from dsregress.launch.contract import ProgramLaunch
from dsregress.launch.one_machine import OneMachine
from dsregress.launch.process import Gone, JsonLines, how_it_ended
from dsregress.launch.worker import ServerWorker
from dsregress.model import Environment, Hardware
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.system import container_engine

if TYPE_CHECKING:
    from docker import DockerClient

_LOG = logging.getLogger(__package__)

#: Seconds that a server may take to exit once its stdin is closed.
_GRACE_S = 5.0

#: Seconds that the engine may take to accept a message. Messages are short: beyond this it is stopped, or the machine hangs.
_SEND_S = 60.0

#: The caller's variables that mean the same inside; the rest are paths of this machine.
_PASSED_ON = ("TZ", "CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")

_INSIDE = {
    "HOME": "/tmp",
    "USER": "dsregress",  # the user has no entry in /etc/passwd, and torch asks for its name
    "LOGNAME": "dsregress",
    "TORCH_EXTENSIONS_DIR": "/tmp/torch_extensions",
    "TRITON_CACHE_DIR": "/tmp/triton",
}

_KILLED_CODE = 128 + 9  # by SIGKILL, as the container's init reports it


class DockerExecutor:
    """See `dsregress.launch.contract.Executor`.

    ``folder`` holds copies of the probe and the runs' files, ``variables`` is the allow-listed environment, and ``note``
    gets a line for the user if the copy of the probe was changed. ``programs`` are those in the copy. Raises
    EnvironmentUnavailable, or UsageError if the probe cannot be staged.
    """

    def __init__(
        self,
        *,
        folder: str,
        scenarios: str,
        variables: Mapping[str, str],
        timeout_s: float,
        limits: Containers,
        note: Callable[[str], None] = lambda line: None,
        programs: Mapping[str, ProgramLaunch] = {},
    ) -> None:
        files = staging.probe_files(Path(scenarios))
        self._probe_sha256 = staging.probe_sha256(files)
        self._folder = Path(folder)
        self._stage = functools.partial(staging.stage, files, self._folder / "probe", note)
        self._probe = self._stage()
        self._variables = {name: variables[name] for name in _PASSED_ON if name in variables}
        self._timeout_s = timeout_s
        self._limits = limits
        self._programs = programs
        self._client: DockerClient | None = None
        self._workers: list[ServerWorker] = []

    def probe_sha256(self) -> str:
        """Return the hash of the probe's code."""
        return self._probe_sha256

    def cluster(self, hardware: Hardware) -> OneMachine:
        """Return the machines that cells run on."""
        return OneMachine(self, hardware)

    def worker(self, environment: Environment, device: str, framework: str) -> ServerWorker:
        """Return a worker of the environment, which is not open yet."""
        client = self._connected()
        with container_engine.engine_errors():
            user = container_engine.user_in(client)
        runs = self._runs_folder(user)
        options = {
            "image": environment.image,
            "entrypoint": [],
            "working_dir": "/tmp",
            "user": str(user),
            "environment": {**self._variables, **ENVIRONMENT, **_INSIDE, "PYTHONPATH": str(self._probe)},
            "labels": {container_engine.ROLE: "server", container_engine.OWNER: str(self._folder)},
        }
        host = container_engine.confined(self._limits, gpus=device == "cuda")
        host["binds"] = {
            str(self._probe): {"bind": str(self._probe), "mode": "ro"},
            str(runs): {"bind": str(runs), "mode": "rw"},
        }
        command = ["python", "-m", "dsregress.probe.process.server", "--framework", framework, "--device", device]

        def start_server(home: Path, log: Path) -> ServerContainer:
            _LOG.debug("%s: start in a container, for %s of %s", home.name, framework, environment.stack.id)
            self._stage()
            return ServerContainer(client, {**options, "command": [*command, "--log", str(log)]}, host)

        owner = user if os.getuid() == 0 else None
        worker = ServerWorker(
            start_server, runs, self._timeout_s, owner=owner, limited_memory=True, programs=self._programs
        )
        self._workers.append(worker)
        return worker

    def sweep(self) -> int:
        """Remove the containers that earlier runs of this folder left, and return how many there were.

        Only the run that holds the folder may call this.
        """
        client = self._connected()
        return sum(1 for _ in _removed(client, str(self._folder)))

    def close(self) -> None:
        """Close every worker."""
        for worker in self._workers:
            worker.interrupt()
        if self._client is not None:
            with contextlib.suppress(EnvironmentUnavailable):  # a daemon that has gone has no containers either
                self.sweep()
            self._client.close()
            self._client = None

    def _connected(self) -> DockerClient:
        if self._client is None:
            self._client = container_engine.connect()
        return self._client

    def _runs_folder(self, user: int) -> Path:
        """Make a folder for one container alone."""
        try:
            parent = self._folder / "runs"
            parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=parent, prefix="container-"))
            if os.getuid() == 0:
                os.chown(folder, user, user)
        except OSError as error:
            raise EnvironmentUnavailable(
                f"cannot create a folder for the runs: {error.strerror}",
                where=str(self._folder / "runs"),
                hint="check its permissions and the free disk space",
            ) from None
        return folder


class ServerContainer:
    """See `dsregress.launch.worker.Server`: a container, started when this is made."""

    left: Mapping[str, int] = {}  # remaining processes end with the container

    def __init__(self, client: DockerClient, options: Mapping[str, Any], host: Mapping[str, Any]) -> None:
        """Start the container. Raise EnvironmentUnavailable."""
        from docker.types import LogConfig

        self._api = client.api
        self._lines = JsonLines()
        self._frames = bytearray()
        self._errors = bytearray()
        self._how: Gone | None = None
        with container_engine.engine_errors():
            host_config = self._api.create_host_config(**host, log_config=LogConfig(type=LogConfig.types.NONE))
            made = self._api.create_container(**options, stdin_open=True, host_config=host_config)
            self._id: str = made["Id"]
            # Attached before it starts, so that none of its output is missed.
            streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._stream = self._api.attach_socket(self._id, params=streams)
            self._socket: socket.socket = getattr(self._stream, "_sock", self._stream)
            with contextlib.ExitStack() as on_failure:
                on_failure.callback(self._remove)
                self._api.start(self._id)
                on_failure.pop_all()

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message. Raise Gone."""
        try:
            self._socket.settimeout(_SEND_S)
            self._socket.sendall(msgspec.json.encode(message) + b"\n")
        except OSError:
            self.kill(_GRACE_S)
            raise self._gone from None

    def receive(self, timeout_s: float) -> dict[str, object]:
        """Return the next message. Raise Gone, Hung."""
        return self._lines.wait(self._fill, timeout_s)

    def interrupt(self) -> None:
        """Kill the container without waiting for its end."""
        with ignore_missing_containers():
            self._api.kill(self._id)

    def kill(self, grace_s: float = 0.0) -> str:
        """End the container, and return how it ended."""
        if self._how is None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)  # the end of its stdin
            self._how = self._end_of_it(grace_s)
            self._remove()
        return self._how.how

    def close(self) -> None:
        """End the container."""
        self.kill(_GRACE_S)

    @property
    def _gone(self) -> Gone:
        assert self._how is not None
        return self._how

    def _end_of_it(self, grace_s: float) -> Gone:
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException

        try:
            return self._ended(grace_s)
        except APIError:  # the engine has no such container any more
            return Gone("was killed by the harness")
        except (DockerException, RequestException):
            return Gone("was lost with the container engine")

    def _ended(self, grace_s: float) -> Gone:
        """Return how the server exited within ``grace_s`` seconds; kill it after that."""
        deadline = time.monotonic() + grace_s
        while True:
            state = self._api.inspect_container(self._id)["State"]
            if not state["Running"]:
                code = int(state["ExitCode"])
                # The flag is set by any process that was killed; here it is the server itself that has ended so.
                starved = bool(state.get("OOMKilled")) and code == _KILLED_CODE
                how = "was killed for want of memory" if starved else how_it_ended(code if code <= 128 else 128 - code)
                errors = self._errors.decode("utf-8", "replace").strip().splitlines()
                return Gone(f"{how}: {errors[-1][:160]}" if errors and not starved else how, out_of_memory=starved)
            if time.monotonic() >= deadline:
                self._api.kill(self._id)
                return Gone("was killed by the harness")
            time.sleep(0.02)

    def _remove(self) -> None:
        with ignore_missing_containers():
            self._api.remove_container(self._id, force=True, v=True)
        with contextlib.suppress(OSError):
            self._socket.close()
            self._stream.close()

    def _fill(self, timeout_s: float) -> None:
        """Read the output that has arrived. The engine frames it: stream (1 stdout, 2 stderr), three zeros, length,
        bytes."""
        self._socket.settimeout(timeout_s)
        try:
            more = self._socket.recv(65536)
        except TimeoutError:
            return
        except OSError:
            more = b""
        if not more:
            self.kill(_GRACE_S)
            raise self._gone
        self._frames += more
        while len(self._frames) >= 8:
            stream, length = struct.unpack(">BxxxL", self._frames[:8])
            if len(self._frames) < 8 + length:
                break
            content = bytes(self._frames[8 : 8 + length])
            del self._frames[: 8 + length]
            if stream == 1:
                self._lines.feed(content)
            else:
                self._errors = (self._errors + content)[-4000:]
        if self._lines.garbage or len(self._frames) > 1 << 24:
            self.kill()
            raise Gone("was killed for writing garbage")


@contextlib.contextmanager
def ignore_missing_containers() -> Iterator[None]:
    """Ignore errors of Docker within the block: a container to be ended may have exited already, or its daemon may have."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException):
        pass


def _removed(client: DockerClient, owner: str) -> Iterator[str]:
    """Remove every container of an owner, and yield the id of each."""
    with container_engine.engine_errors():
        for found in client.api.containers(all=True, filters={"label": f"{container_engine.OWNER}={owner}"}):
            with ignore_missing_containers():
                client.api.remove_container(found["Id"], force=True, v=True)
                yield str(found["Id"])
