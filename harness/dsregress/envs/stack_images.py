"""Locked stack -> container image, built unless it exists.

Two images per stack, from the Dockerfiles next to this module: ``dsregress-common:KEY`` holds all that the stack shares with
its neighbours, ``dsregress:FRAMEWORK-KEY`` adds one layer, the framework under test. A key is the hash of everything an
image is made of: requirements, base image, Dockerfile. So a second run finds its images and builds nothing.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dsregress.config.containers import Containers
from dsregress.envs import bringing, hardware, inside, signatures
from dsregress.envs.installer import Installer
from dsregress.envs.recipe import CpuBuilds, peers, recipe
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Environment, Failed, Hardware, LockedStack, NotInstalled
from dsregress.system import container_engine
from dsregress.system.locks import held
from dsregress.system.scratch_folders import scratch_folder

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

_LOG = logging.getLogger(__package__)

_DOCKERFILES = Path(__file__).with_name("docker")

_COMMON, _STACK = "dsregress-common", "dsregress"

#: NVIDIA tags its images with the toolkit's whole release, which the numbers of CUDA's wheels do not show. A release that is
#: not listed is requested by the wheels' number; `--image-base` and ``base`` name another image.
_CUDA_TAGS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, str])


class ImageParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a stack's two images."""

    base: str
    python: str
    common: tuple[str, ...]  #: requirements
    framework: tuple[str, ...]  #: requirements: the framework under test alone
    common_key: str
    key: str
    notes: tuple[str, ...] = ()  #: lines for the user

    @property
    def common_tag(self) -> str:
        """Name and tag of the image that is shared."""
        return f"{_COMMON}:{self.common_key}"

    @property
    def tag(self) -> str:
        """Name and tag of the stack's own image."""
        readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join(self.framework).split(";")[0]).strip("-.")
        return f"{_STACK}:{f'{readable}-' if readable else ''}{self.key}"


class StoredImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image of ours in the engine."""

    id: str
    tag: str
    role: str  #: ``stack`` or ``common``
    common: str  #: key of the common image: its own, or the one that it stands on
    stack: str  #: id of the stack; empty for a common one
    lock_sha256: str
    base: str
    created: str  #: UTC, ISO 8601
    size_bytes: int  #: with the layers that it shares


def image_parts(
    locked: LockedStack, framework: str, limits: Containers, *, gpu: bool, cpu_builds: CpuBuilds
) -> ImageParts:
    """Return the parts of the stack's images. Pure."""
    made_of = recipe(locked.requirements, gpu=gpu, cpu_builds=cpu_builds)
    lines = made_of.requirements
    own = tuple(line for line in lines if re.match(rf"{re.escape(framework)}\s*(==|@|\[)", line, re.IGNORECASE))
    common = tuple(line for line in lines if line not in own)
    base = base_image(locked, limits, gpu=gpu)
    made_by = {file.name: file.read_text(encoding="utf-8") for file in sorted(_DOCKERFILES.iterdir())}
    common_key = _content_key(base, locked.stack.python, common, made_by)
    return ImageParts(
        base=base,
        python=locked.stack.python,
        common=common,
        framework=own,
        common_key=common_key,
        key=_content_key(common_key, own, locked.sha256),
        notes=made_of.notes,
    )


def base_image(locked: LockedStack, limits: Containers, *, gpu: bool) -> str:
    """Return the configured base image, else one for the stack's Python; with GPUs, one for the CUDA that its lock pins."""
    if limits.base:
        return limits.base
    if not gpu:
        return f"python:{locked.stack.python}-slim"
    pins = (re.match(r"nvidia-cuda-runtime(?:-cu\d+)?==(\d+\.\d+)(\.\d+)?", line) for line in locked.requirements)
    cuda = next((f"{found[1]}{found[2] or ''}" for found in pins if found), "12.4")
    short = ".".join(cuda.split(".")[:2])
    return limits.cuda_base.format(cuda=_CUDA_TAGS.get(short, cuda))


class ImageBuilder:
    """Builds the images of stacks, and reads the content of their environments."""

    def __init__(self, *, folder: Path, installer: Installer, limits: Containers, framework: str, gpu: bool) -> None:
        self._folder = folder
        self._installer = installer
        self._limits = limits
        self._framework = framework
        self._gpu = gpu
        self._hardware: Hardware | None = None

    def build_all(
        self, locked: Sequence[LockedStack], progress: Callable[[int, str, Environment | None], None]
    ) -> tuple[Environment, ...]:
        """Build the images one after the other, since they share their largest layers. See `dsregress.run.targets.Build`."""
        made = []
        client = container_engine.connect()
        try:
            for index, lock in enumerate(locked):
                progress(index, "started", None)
                environment = self.build(client, lock, functools.partial(progress, index, "waiting", None))
                progress(index, "done", environment)
                made.append(environment)
        finally:
            client.close()
        return tuple(made)

    def build(self, client: DockerClient, locked: LockedStack, waiting: Callable[[], None]) -> Environment:
        """Return the stack's environment: its existing image, or one built now."""
        cpu_builds = CpuBuilds() if self._gpu else self._installer.cpu_builds(locked.requirements, locked.stack.python)
        of = image_parts(locked, self._framework, self._limits, gpu=self._gpu, cpu_builds=cpu_builds)
        if (image := find_image(client, of.tag)) is not None:
            _LOG.debug("%s: reuse image %s", locked.stack.id, of.tag)
            return self._describe(client, image, locked)
        _LOG.debug("%s: build image %s", locked.stack.id, of.tag)
        began = time.monotonic()
        failed = self._ensure_stack(client, of, locked, waiting)
        build_s = round(time.monotonic() - began, 3)
        image = find_image(client, of.tag)
        if failed is not None or image is None:
            failed = failed or Failed(stage="harness", signature="its image no longer exists")
            _LOG.debug("%s: not built, %.1f s: %s", locked.stack.id, build_s, failed.signature)
            return Environment(stack=locked.stack, lock_sha256=locked.sha256, failure=failed)
        _LOG.debug("%s: built in %.1f s", locked.stack.id, build_s)
        environment = self._describe(client, image, locked)
        return msgspec.structs.replace(environment, build_s=build_s, notes=of.notes)

    def hardware(self) -> Hardware:
        """Return the hardware that containers run on, within their limits; known once an environment has been built. Raise
        EnvironmentUnavailable before that."""
        if self._hardware is None:
            raise EnvironmentUnavailable(
                "no stack could be installed", where="docker", hint="see the lines above for each reason"
            )
        return self._hardware

    def _ensure_stack(
        self, client: DockerClient, of: ImageParts, locked: LockedStack, waiting: Callable[[], None]
    ) -> NotInstalled | None:
        try:
            # Images belong to the engine, not to this project: builds wait for one another where their temporary
            # folder is the same; for those elsewhere see `give_name`.
            locks = Path(tempfile.gettempdir()) / f"dsregress-images-{os.getuid()}"
            locks.mkdir(mode=0o700, exist_ok=True)
            with held(locks / f"{of.common_key}.lock", waiting):
                if find_image(client, of.common_tag) is None:
                    arguments = {"BASE": of.base, "PYTHON": of.python}
                    labels = {
                        container_engine.ROLE: "common",
                        container_engine.BASE: of.base,
                        container_engine.COMMON: of.common_key,
                    }
                    failed = self._build_layers(client, "common", of.common, of.common_tag, arguments, labels)
                    if failed is not None:
                        return failed
                if find_image(client, of.tag) is not None:  # another run was faster
                    return None
                labels = {
                    container_engine.ROLE: "stack",
                    container_engine.BASE: of.base,
                    container_engine.LOCK: locked.sha256,
                    container_engine.STACK: locked.stack.id,
                }
                return self._build_layers(client, "stack", of.framework, of.tag, {"COMMON": of.common_tag}, labels)
        except OSError as error:
            raise EnvironmentUnavailable(
                f"cannot write the build's files: {error.strerror}",
                where=tempfile.gettempdir(),
                hint="free space, or set TMPDIR to a writable folder",
            ) from None

    def _build_layers(
        self,
        client: DockerClient,
        which: str,
        requirements: Sequence[str],
        tag: str,
        arguments: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> NotInstalled | None:
        """Build one image. Return the failure, None on success."""
        build = secrets.token_hex(8)
        with scratch_folder() as context:
            bringing.bring(self._installer, requirements, context / "installer")
            shutil.copy2(_DOCKERFILES / f"{which}.sh", context / "installer" / f"{which}.sh")
            (context / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements))
            proxies = {
                name: value for name, value in self._installer.environment.items() if name in bringing.PROXIES and value
            }
            with container_engine.engine_errors(tag):
                answers = client.api.build(
                    path=str(context),
                    dockerfile=str(_DOCKERFILES / f"{which}.Dockerfile"),
                    buildargs={**arguments, "BUILD": build, **proxies},
                    labels={**labels},
                    network_mode="host",  # an index on this machine is one as well
                    rm=True,
                    forcerm=True,
                    decode=True,
                )
                log, error, built = _read_build_log(answers)
        if not error:
            give_name(client, built, tag)
        _forget_stages(client, build)
        if not error:
            return None
        if "returned a non-zero code" in error and f"{bringing.PLACE}/{which}.sh" in error:
            output = log.partition("=== again, without isolation")[0]  # what it says first is why
            return signatures.classify(output, f"building {tag}")
        raise _build_fault(error, log, tag, arguments)

    def _describe(self, client: DockerClient, image: Image, locked: LockedStack) -> Environment:
        assert image.id is not None
        command = ["python", "-c", Path(inside.__file__).read_text(encoding="utf-8"), self._framework]
        command += peers(locked.stack)
        limits = container_engine.confined(self._limits, gpus=self._gpu)
        printed = container_engine.answer_of(client, image.id, command, str(self._folder), limits)
        answer = json.loads(printed)
        self._hardware = hardware.hardware_of(answer["machine"])
        return Environment(
            stack=locked.stack,
            lock_sha256=locked.sha256,
            python="python",
            image=image.id,
            installed=answer["installed"],
            demands=answer["demands"],
            code_sha256=answer["code_sha256"],
        )


def find_image(client: DockerClient, tag: str) -> Image | None:
    """Return the image of that name, None if it does not exist."""
    from docker.errors import ImageNotFound

    with container_engine.engine_errors(tag):
        try:
            return client.images.get(tag)
        except ImageNotFound:
            return None


def give_name(client: DockerClient, built: str, tag: str) -> None:
    """Tag an image, given by its id; if another build was faster, remove it instead: the id of the image that cells ran in
    is part of the identity of their results."""
    present = find_image(client, tag)
    with container_engine.engine_errors(tag):
        if present is None:
            client.images.get(built).tag(tag)
        elif present.id != built:
            client.images.remove(built)


def stored_images(client: DockerClient) -> list[StoredImage]:
    """Return all images of ours, stacks first, the newest of each first."""
    with container_engine.engine_errors():
        found = [image for image in client.images.list(filters={"label": container_engine.ROLE}) if image.tags]
    found.sort(key=lambda image: str(image.attrs["Created"]), reverse=True)  # to the nanosecond
    listed = [
        StoredImage(
            id=str(image.id),
            tag=image.tags[0],
            role=image.labels[container_engine.ROLE],
            common=image.labels.get(container_engine.COMMON, ""),
            stack=image.labels.get(container_engine.STACK, ""),
            lock_sha256=image.labels.get(container_engine.LOCK, ""),
            base=image.labels.get(container_engine.BASE, ""),
            created=str(image.attrs["Created"])[:19] + "Z",
            size_bytes=int(image.attrs["Size"]),
        )
        for image in found
    ]
    return sorted(listed, key=lambda one: one.role, reverse=True)


def superfluous(found: Sequence[StoredImage], only: Sequence[str], keep: Sequence[str]) -> list[StoredImage]:
    """Return the images of ``found`` to remove: stacks whose id contains one of ``only`` (empty: all) and none of ``keep``,
    and the common images on which no other image is then based. Pure."""

    def named(image: StoredImage, parts: Sequence[str]) -> bool:
        return any(part in image.stack for part in parts)

    stacks = [i for i in found if i.role == "stack" and (not only or named(i, only)) and not named(i, keep)]
    stood_on = {image.common for image in found if image.role == "stack" and image not in stacks}
    freed = {image.common for image in stacks}
    commons = [i for i in found if i.role != "stack" and i.common not in stood_on and (not only or i.common in freed)]
    return stacks + commons


def remove_image(client: DockerClient, image: StoredImage) -> bool:
    """Remove an image; return False if a container uses it."""
    from docker.errors import APIError

    try:
        with container_engine.engine_errors(image.tag):
            try:
                client.images.remove(image.tag)
            except APIError as error:
                if error.status_code == 409:
                    return False
                raise
    finally:
        _forget_stages(client, "")
    return True


def _forget_stages(client: DockerClient, build: str) -> None:
    """Remove the stages of a finished build: they hold the installer, and all packages a second time.

    Only those of ``build``, as another one may be about to copy from its own; if empty, those of every build.
    """
    label = f"{container_engine.BUILD}={build}" if build else container_engine.BUILD
    with container_engine.engine_errors():
        client.images.prune(filters={"dangling": True, "label": label})


def _read_build_log(answers: Iterator[dict[str, object]]) -> tuple[str, str, str]:
    """Return the output of a build's last step; its error, empty if it has none; the id of the image, empty if it has
    none."""
    log: list[str] = []
    built = ""
    for answer in answers:
        match answer.get("aux"):
            case {"ID": str(built)}:
                continue
        text = str(answer.get("stream", ""))
        if re.match(r"Step \d+/\d+ :", text):
            log.clear()
        elif not re.match(r" ---> |Removing intermediate container", text):
            log.append(text)
        if "error" in answer:
            return re.sub(r"\x1b\[[0-9;]*m", "", "".join(log)), str(answer["error"]), ""
    return "".join(log), "", built


def _build_fault(error: str, log: str, tag: str, arguments: Mapping[str, str]) -> EnvironmentUnavailable:
    """Return the error for a failed build that is not the stack's fault: the base image's, or the engine's."""
    base = arguments.get("BASE", "")
    absent = (
        r"pull access denied|manifest.* (unknown|not found)|not found: manifest|no such host|lookup |dial tcp|TLS hand"
    )
    absent += r"|i/o timeout|invalid reference format|failed to resolve|Client\.Timeout|context deadline|No such image"
    if base and re.search(absent, error):
        return EnvironmentUnavailable(
            f"the base image {base} cannot be pulled: {' '.join(error.split())[:160]}",
            where="docker",
            hint=f"`docker pull {base}`, or name another with --image-base",
        )
    if "returned a non-zero code" in error or "OCI runtime create failed" in error:
        last = next((line for line in reversed([error, *log.splitlines()]) if line.strip()), "no output")
        return EnvironmentUnavailable(
            f"the base image {base} cannot be prepared: {last.strip()[:200]}",
            where=tag,
            hint="choose one with the stack's Python by --image-base",
        )
    return container_engine.engine_fault(RuntimeError(error), tag)


def _content_key(*of: object) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()[:12]
