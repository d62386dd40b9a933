"""Shared parts of everything that uses a Ray cluster: its settings, the connection, and its errors as one line each.

Ray is an extra (``pip install 'dsregress[ray]'``), imported only here and in `dsregress.launch.ray.executor`, when it is
requested. The harness's own code travels to the nodes with each job; its dependencies must be installed there.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
import signal
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from dsregress.config.ray import Ray
from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.probe.border.own_code import SOURCES

_WHERE = "ray"

#: Seconds that an address may take to answer. Ray itself would try for minutes.
_ANSWER_S = 10.0

#: Memory for Ray's own objects if we start it; ours are small.
_OBJECTS_BYTES = 128 << 20

#: Variables that Ray sets in our processes on its nodes. Without the first, it hides the GPUs from a task that holds
#: the whole node and requests none of them by itself.
_ON_NODES = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

#: The packages that travel to the nodes.
_CODE = [str(SOURCES / package) for package in ("dsregress", "vgpu", "skeletons")]


def connect(settings: Ray) -> None:
    """Join the cluster, once. Raise EnvironmentUnavailable, or UsageError if the address is not one."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise EnvironmentUnavailable(
            f"Ray is not installed: {error}", where="--executor ray", hint="pip install 'dsregress[ray]'"
        ) from None
    if ray.is_initialized():
        return
    options: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "runtime_env": {"py_modules": _CODE, "env_vars": _ON_NODES, "excludes": ["**/__pycache__/"]},
    }
    if settings.address:
        _check_answers(settings.address)
    with _own_signals(), ray_errors(settings.address):
        if settings.address:
            ray.init(address=settings.address, **options)
            return
        try:
            ray.init(address="auto", **options)
        except ConnectionError:
            ray.init(address="local", include_dashboard=False, object_store_memory=_OBJECTS_BYTES, **options)


@contextlib.contextmanager
def ray_errors(address: str = "") -> Iterator[None]:
    """Turn errors of Ray within the block, except those about single nodes, into EnvironmentUnavailable."""
    try:
        yield
    except Exception as error:  # Ray raises errors of all kinds, plain ones too, and each becomes one line
        raise ray_fault(error, address) from None


def ray_fault(error: BaseException, address: str = "") -> EnvironmentUnavailable:
    """Return Ray's error as one line: the cause, and what to do."""
    text = re.sub(r"\s+", " ", str(error)).strip()
    where = f"{_WHERE} {address}".strip()
    if re.search(r"[Vv]ersion mismatch|different versions? of (Ray|Python)", text):
        versions = "; ".join(re.findall(r"(?:Ray|Python): ?[\d.]+", text))
        return EnvironmentUnavailable(
            f"the cluster runs another Ray or Python than this process ({versions or text[:160]})",
            where=where,
            hint="install the cluster's Ray here, under the same minor release of Python",
        )
    if re.search(r"ray\[client\]|grpc", text):
        return EnvironmentUnavailable(
            "a ray:// address needs Ray's client", where=where, hint="pip install 'ray[client]'"
        )
    if re.search(r"No node info found|node_ip_address|raylet", text):
        return EnvironmentUnavailable(
            "this machine is not a node of that cluster",
            where=where,
            hint="run the command on the head node, or give ray://HEAD:10001",
        )
    if re.search(r"timed out during startup", text):
        return EnvironmentUnavailable(
            "Ray did not start in time on this machine",
            where=where,
            hint="free the machine, or start it: ray start --head",
        )
    return EnvironmentUnavailable(text[:300], where=where, hint="check with `ray status`")


def _check_answers(address: str) -> None:
    """Raise UsageError if the address is not one, EnvironmentUnavailable if nothing listens there."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    hint = "start the head (ray start --head --port=6379), and check --ray-address"
    if not host or not port.isdigit():
        raise UsageError(
            f"not an address: {address!r}", where="--ray-address", hint="write HOST:PORT, or ray://HOST:PORT"
        )
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_S).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise EnvironmentUnavailable(f"Ray does not respond: {why}", where=f"{_WHERE} {address}", hint=hint) from None


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep our handler for SIGTERM within the block, since Ray installs its own."""
    ours = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if ours is not None:
            with contextlib.suppress(ValueError):  # not in the main thread, where Ray leaves it alone too
                signal.signal(signal.SIGTERM, ours)


def totals(node: Mapping[str, Any]) -> dict[str, float]:
    """Return the total resources of a node of `ray.nodes()`."""
    return {str(name): float(amount) for name, amount in (node.get("Resources") or {}).items()}
