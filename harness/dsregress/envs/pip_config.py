"""The user's pip configuration, in uv's words. Standard library only: the noxfile imports it as well.

uv reads neither ``pip.conf`` nor ``PIP_*``. ``pip config list`` prints all of them as pip merged them:

    global.index-url='https://mirror/simple'
    global.extra-index-url='https://a/simple https://b/simple'
    install.trusted-host='mirror'
    :env:.find-links='/srv/wheels'

The variables win over the command's section, which wins over ``global`` (pip's documentation, "Configuration").
"""

from __future__ import annotations

import ast
import dataclasses
import os.path
import subprocess
import sys
from collections.abc import Mapping

#: The index that pip uses by default.
_PYPI = "https://pypi.org/simple"

_SECTIONS = ("global", "install", ":env:")  # later wins


@dataclasses.dataclass(frozen=True)
class PipConfig:
    """The sources of packages, and the access to them."""

    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str = ""  #: file of certificates to trust
    client_cert: str = ""
    proxy: str = ""
    timeout_s: str = ""
    no_index: bool = False

    def uv_options(self) -> list[str]:
        """Return options for ``uv pip`` commands that resolve or install."""
        options = ["--no-index"] if self.no_index else []
        for place in self.find_links:
            options += ["--find-links", place]
        for host in self.trusted_hosts:
            options += ["--allow-insecure-host", host]
        return options

    def uv_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return variables for uv. Indexes are passed in variables and not as options, as their URLs may hold passwords.

        Variables that ``environment`` already sets by uv's own names are left alone.
        """
        main = environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL") or self.index_url or _PYPI
        wanted = {
            "UV_DEFAULT_INDEX": self.index_url,
            # Of equal versions uv takes the file of the first index, where pip takes the one that fits the platform best: an
            # extra index may have one for any platform, without the library in it.
            "UV_INDEX": " ".join((main, *self.extra_index_urls)) if self.extra_index_urls else "",
            # pip takes the best version over all its indexes; uv by default the first index that has the package.
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_HTTP_TIMEOUT": self.timeout_s,
            "SSL_CERT_FILE": self.cert,
            "SSL_CLIENT_CERT": self.client_cert,
            "ALL_PROXY": self.proxy,
        }
        older_words = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}
        return {
            name: value
            for name, value in wanted.items()
            if value and name not in environment and older_words.get(name, name) not in environment
        }


def read_pip_config(python: str = sys.executable, environment: Mapping[str, str] | None = None) -> PipConfig:
    """Return the configuration that pip of the interpreter ``python`` sees; the defaults without pip."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return PipConfig()
    return parse_pip_config(done.stdout)


def parse_pip_config(listing: str) -> PipConfig:
    """Parse the output of ``pip config list``. Unknown keys and sections of other commands are ignored."""
    values: dict[str, str] = {}
    lines = [line.partition("=") for line in listing.splitlines()]
    for section in _SECTIONS:
        for name, _, quoted in lines:
            if name.startswith(f"{section}."):
                values[name.removeprefix(f"{section}.")] = _unquote(quoted)
    return PipConfig(
        index_url=values.get("index-url", values.get("pypi-url", "")),
        extra_index_urls=tuple(values.get("extra-index-url", "").split()),
        find_links=tuple(os.path.expanduser(place) for place in values.get("find-links", "").split()),
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        cert=os.path.expanduser(values.get("cert", "")),
        client_cert=os.path.expanduser(values.get("client-cert", "")),
        proxy=values.get("proxy", ""),
        timeout_s=values.get("timeout", values.get("default-timeout", "")),
        no_index=values.get("no-index", "").lower() in ("1", "true", "yes", "on"),
    )


def _unquote(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text
