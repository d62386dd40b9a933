"""Copies the parts of this machine that a build inside a container needs: uv, the user's pip configuration, and local
packages.

Of indexes on the network only the addresses are copied. Folders (`find-links`, and indexes given as ``file:``) are out of a
build's sight, so the files that the requirements may need are copied.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlparse

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from dsregress.envs.installer import Installer

#: The folder that the Dockerfiles copy it to, in a stage that is left behind.
PLACE = "/installer"

#: uv's own variables for the sources of packages and the access to them.
_INDEX_VARIABLES = re.compile(
    r"UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|INDEX_STRATEGY|INDEX_\w+_(USERNAME|PASSWORD)|NO_INDEX"
    r"|INSECURE_HOST|HTTP_\w*TIMEOUT|NATIVE_TLS|SYSTEM_CERTS)$"
)

#: Passed to a build as arguments, which engines keep out of an image's history for these names.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy")


def bring(installer: Installer, requirements: Sequence[str], folder: Path) -> None:
    """Fill ``folder``, which becomes `PLACE` in a build that installs ``requirements``. Raise OSError."""
    folder.mkdir(parents=True)
    shutil.copy2(installer.uv, folder / "uv")
    packages = folder / "packages"
    packages.mkdir()
    for file in local_files(installer, requirements):
        shutil.copy2(file, packages / file.name)
    variables = {**_uv_variables(installer), **_copied_files(installer, folder)}
    (folder / "settings.sh").write_text(_shell_settings(installer, variables, any(packages.iterdir())))


def local_files(installer: Installer, requirements: Iterable[str]) -> Iterator[Path]:
    """Yield the packages in the user's folders that the requirements may need: those of the pinned versions; without an
    index, those of every version, as a build may need tools that are pinned nowhere else."""
    pins = dict(_pinned_versions(requirements))
    no_index = installer.pip.no_index
    for place in installer.pip.find_links:
        folder = _local_path(place)
        for file in sorted(folder.iterdir()) if folder is not None and folder.is_dir() else ():
            name, version = _name_and_version_in(file.name)
            if name and (no_index or pins.get(name) == version):
                yield file
    for index in () if no_index else (installer.pip.index_url, *installer.pip.extra_index_urls):
        folder = _local_path(index) if index.startswith("file:") else None
        for name, version in pins.items() if folder is not None else ():
            yield from _of_index(folder / name if folder is not None else Path(), name, version)


def _of_index(page_folder: Path, name: str, version: str) -> Iterator[Path]:
    """Yield the files of one release in the folder of a simple index on disk (PEP 503)."""
    try:
        page = (page_folder / "index.html").read_text(encoding="utf-8")
    except OSError:
        return
    for link in re.findall(r'href="([^"]+)"', page):
        file = page_folder / unquote(link.partition("#")[0])
        if _name_and_version_in(file.name) == (name, version) and file.is_file():
            yield file


def _local_path(place: str) -> Path | None:
    parsed = urlparse(place)
    if parsed.scheme in ("", "file"):
        return Path(unquote(parsed.path))
    return None


def _name_and_version_in(file: str) -> tuple[str, str]:
    """Return the name and version in the file name of a package; empty if it is not one."""
    try:
        if file.endswith(".whl"):
            name, version, _, _ = parse_wheel_filename(file)
        else:
            name, version = parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return "", ""
    return str(name), str(version)


def _pinned_versions(requirements: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        yield canonicalize_name(requirement.name), str(requirement.specifier).lstrip("=")


def _uv_variables(installer: Installer) -> dict[str, str]:
    """Return the sources of packages in uv's variables, without those that only this machine can reach."""
    pip = replace(
        installer.pip,
        index_url="" if installer.pip.index_url.startswith("file:") else installer.pip.index_url,
        extra_index_urls=tuple(url for url in installer.pip.extra_index_urls if not url.startswith("file:")),
        cert="",
        client_cert="",
    )
    own = {name: value for name, value in installer.environment.items() if _INDEX_VARIABLES.match(name)}
    return {
        **own,
        **pip.uv_environment(installer.environment),
        "UV_CACHE_DIR": f"{PLACE}/cache",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
        "DS_BUILD_OPS": "0",  # see dsregress.envs.installer
    }


def _copied_files(installer: Installer, folder: Path) -> dict[str, str]:
    """Copy certificates and the netrc, and return their paths by variable."""
    environment: Mapping[str, str] = installer.environment
    found = {}
    for variable, source in (
        ("SSL_CERT_FILE", environment.get("SSL_CERT_FILE") or installer.pip.cert),
        ("SSL_CLIENT_CERT", environment.get("SSL_CLIENT_CERT") or installer.pip.client_cert),
        ("NETRC", environment.get("NETRC") or os.path.join(environment.get("HOME", ""), ".netrc")),
    ):
        if source and os.path.isfile(source):
            shutil.copy2(source, folder / variable.lower())
            found[variable] = f"{PLACE}/{variable.lower()}"
    return found


def _shell_settings(installer: Installer, variables: Mapping[str, str], packages: bool) -> str:
    """Return a piece of shell: the variables, and uv_pip with the user's options."""
    options = replace(
        installer.pip, find_links=tuple(place for place in installer.pip.find_links if _local_path(place) is None)
    ).uv_options()
    if packages:
        options += ["--find-links", f"{PLACE}/packages"]
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    lines += ["uv_pip() {", '    command="$1"', "    shift"]
    lines += [f'    {PLACE}/uv pip "$command" {shlex.join(options)} "$@"', "}"]
    return "\n".join(lines) + "\n"
