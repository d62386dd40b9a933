"""Shared parts of everything that uses a container engine: its settings, its labels, and its errors as one line each.

The engine is reached through the Docker SDK for Python, which reads ``DOCKER_HOST``. It must run on this machine: cells
leave their files in a folder that is mounted into their container.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dsregress.config.containers import Containers
from dsregress.errors import EnvironmentUnavailable
from dsregress.wording import commands

if TYPE_CHECKING:
    from docker import DockerClient

#: Labels of everything that is ours in an engine.
ROLE = "dsregress.role"  #: of an image ``common`` or ``stack``, of a container ``server`` or ``question``
LOCK = "dsregress.lock"  #: of a stack's image: hash of its lock
BUILD = "dsregress.build"  #: of a stage that a build leaves behind: which build
STACK = "dsregress.stack"  #: of a stack's image: the stack's id
COMMON = "dsregress.common"  #: of both images of a stack: the key of the common one
BASE = "dsregress.base"  #: of an image: the base image that it was built on, by name
OWNER = "dsregress.owner"  #: of a container: the folder whose runs started it; one run at a time holds it

#: The user in a container where we are root: nobody.
NOBODY = 65534

#: Longest wait for one answer of the engine; a step of a build may print nothing for minutes.
_ANSWER_S = 1800

#: Seconds that a command in a container may take to print its answer: an image's Python runs code of the release.
_QUESTION_S = 300.0


def connect() -> DockerClient:
    """Return the engine. Raise EnvironmentUnavailable if none answers or we may not use it."""
    import docker

    with engine_errors():
        return docker.from_env(timeout=_ANSWER_S, version="auto")  # asks for its version: it must be there


@contextmanager
def engine_errors(where: str = "docker") -> Iterator[None]:
    """Turn errors of the engine within the block into EnvironmentUnavailable."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        raise engine_fault(error, where) from None


def engine_fault(error: BaseException, where: str = "docker") -> EnvironmentUnavailable:
    """Return the engine's error as one line: the cause, and what to do."""
    text = re.sub(r"\s+", " ", str(error)).strip()
    if re.search(r"PermissionError|[Pp]ermission denied", text) and "Connection aborted" in text:
        return EnvironmentUnavailable(
            "permission denied for the Docker daemon",
            where=where,
            hint="join its group (usermod -aG docker YOU, then log in again), or set DOCKER_HOST to a rootless daemon",
        )
    if re.search(
        r"Connection aborted|Error while fetching server API version|ConnectionError|Connection refused", text
    ):
        return EnvironmentUnavailable(
            "the Docker daemon does not respond",
            where=where,
            hint="start it (systemctl start docker), or set DOCKER_HOST",
        )
    if re.search(r"no space left on device|disk quota exceeded", text, re.IGNORECASE):
        return EnvironmentUnavailable(
            "the disk of the Docker daemon is full",
            where=where,
            hint=f"`{commands.REMOVE_IMAGES}` and `docker system prune` free space",
        )
    if re.search(r"could not select device driver", text):
        return EnvironmentUnavailable(
            "the Docker daemon offers no GPUs", where=where, hint="install the NVIDIA Container Toolkit"
        )
    return EnvironmentUnavailable(text[:300], where=where, hint="check with `docker info`")


def confined(limits: Containers, *, gpus: bool) -> dict[str, object]:
    """Return options for a container that runs measured code: no network, no writable paths but /tmp and its mounts, limits
    of memory (swap included), processes and shared memory, and no privileges."""
    from docker.types import DeviceRequest

    return {
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={limits.scratch_bytes}"},
        "mem_limit": limits.memory_limit_bytes,
        "memswap_limit": limits.memory_limit_bytes,
        "pids_limit": limits.pids or None,
        "shm_size": limits.shm_bytes,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "init": True,  # reaps orphans, and passes on how the server ended
        "device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])] if gpus else None,
    }


def user_in(client: DockerClient) -> int:
    """Return the user that measured code runs as: ours, so that we own its files, but `NOBODY` if we are root.

    In a rootless engine the container's root is the user who runs the engine, and no other may write in our folders.
    """
    if any("rootless" in option for option in client.info().get("SecurityOptions") or ()):
        return 0
    return os.getuid() or NOBODY


def answer_of(client: DockerClient, image: str, command: list[str], owner: str, host: Mapping[str, Any]) -> bytes:
    """Return the output of a command in a new container, which is removed. ``host`` are its options, see `confined`.

    Raise EnvironmentUnavailable, also if the command fails or does not end.
    """
    api = client.api
    with engine_errors():
        made = api.create_container(
            image,
            command,
            entrypoint=[],
            user=str(user_in(client)),
            labels={ROLE: "question", OWNER: owner},
            host_config=api.create_host_config(**host),
        )
        limit = threading.Timer(_QUESTION_S, _kill_container, (client, made["Id"]))  # its output ends with it
        try:
            # Attached before it starts: an engine's log of it may lag behind its end.
            printed = api.attach(made["Id"], stdout=True, stderr=True, stream=True, demux=True)
            api.start(made["Id"])
            limit.start()
            streams = list(printed)
            printed.close()
            code = api.wait(made["Id"], timeout=_ANSWER_S)["StatusCode"]
        finally:
            limit.cancel()
            api.remove_container(made["Id"], force=True, v=True)
    out, err = (b"".join(part[at] or b"" for part in streams) for at in (0, 1))
    if code != 0:
        last = (err.decode("utf-8", "replace").strip().splitlines() or [f"exit code {code}"])[-1]
        raise EnvironmentUnavailable(
            f"{command[0]} does not run in the image: {last[:200]}", where=image, hint="choose another --image-base"
        )
    return out


def _kill_container(client: DockerClient, container: str) -> None:
    """Kill a container. No error if it has ended."""
    with suppress(EnvironmentUnavailable), engine_errors():
        client.api.kill(container)
