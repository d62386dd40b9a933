"""Environment variables: those of the caller's that a measured process, an installer and Ray's own processes get."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

#: Variables that limit or choose the instructions that torch and its libraries compute with. They change results in their
#: last digits, so they count as part of the processor (`dsregress.envs.hardware`).
INSTRUCTION_SETS = (
    "ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA",
)  # fmt: skip

#: Variables of the caller's environment that a measured process may see. Others would be unnoticed variance. Its home is a
#: folder of its own, and it does not use the network: the address of a proxy may hold a password.
MEASURED_VARIABLES = frozenset((
    *("PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"),
    *("TMPDIR", "TEMP", "TMP"),
    *("LD_LIBRARY_PATH", "CC", "CXX", "CUDA_HOME", "CUDA_PATH"),
    *INSTRUCTION_SETS,
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
))  # fmt: skip

#: Prefixes of the variables by which people change training: of DeepSpeed, torch, NCCL and accelerate.
STACK_PREFIXES = ("ACCELERATE_", "DEEPSPEED_", "DS_", "NCCL_", "PYTORCH_", "TORCH_")

#: Least and most of a terminal's size: the tables of a report need 40 columns.
_SIZES = {"COLUMNS": (40, 4_000), "LINES": (2, 4_000)}

#: Further variables that an installer may see: its own settings, caches and credentials.
INSTALLER_PREFIXES = ("UV_", "PIP_")
INSTALLER_VARIABLES = frozenset((
    *("HOME", "NETRC", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("SSH_AUTH_SOCK", "CFLAGS", "CXXFLAGS", "LDFLAGS"),
))  # fmt: skip


def child_environment(
    extra: Mapping[str, str] | None = None, *, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a measured process: the allow-listed variables of ours, and ``extra``."""
    variables = os.environ if environ is None else environ
    return {**{name: value for name, value in variables.items() if name in MEASURED_VARIABLES}, **(extra or {})}


def shell_environment(extra: Mapping[str, str], *, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a shell that carries out a line as the user's own would: all of it, and ``extra``."""
    return {**(os.environ if environ is None else environ), **extra}


def withheld(*, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the variables of ours that would change training, and that no measured process gets: sorted names."""
    variables = os.environ if environ is None else environ
    return tuple(sorted(name for name in variables.keys() - MEASURED_VARIABLES if name.startswith(STACK_PREFIXES)))


def models_of_the_user(*, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variable by which a program finds the models that the user has downloaded: huggingface_hub's cache, which
    is read offline."""
    variables = os.environ if environ is None else environ
    home = variables.get("HF_HOME") or os.path.join(variables.get("HOME", ""), ".cache", "huggingface")
    cache = variables.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    return {"HF_HUB_CACHE": os.path.abspath(cache)} if os.path.isdir(cache) else {}


def instruction_sets(*, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return ``NAME=value`` of each of `INSTRUCTION_SETS` that is set."""
    variables = os.environ if environ is None else environ
    return tuple(f"{name}={variables[name]}" for name in INSTRUCTION_SETS if variables.get(name))


def display_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment for the library that draws tables, with plausible terminal sizes. The library takes a size as
    it is written: at COLUMNS=0 it prints nothing, and it fails at texts that Python calls digits but that are no number. So
    sizes that are no number are left out, and those that no terminal has are clipped."""
    variables = dict(os.environ if environ is None else environ)
    for name, (least, most) in _SIZES.items():
        text = variables.pop(name, "")
        if text.isascii() and text.isdigit() and int(text[:9]) > 0:
            variables[name] = str(min(max(int(text[:9]), least), most))
    return variables


def prepare_ray() -> None:
    """Set the variables that Ray reads if it is started here: no usage reports, and cells run at their usual priority."""
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness"):
        os.environ.setdefault(name, "0")


def folder_on_node(configured: str, *, environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of environments and scratch files on a node of a cluster."""
    variables = os.environ if environ is None else environ
    return Path(variables.get("DSREGRESS_ENVIRONMENTS") or configured).expanduser().absolute()


def installer_environment(
    extra: Mapping[str, str] | None = None, *, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of pip and uv: that of `child_environment`, plus the variables that configure them."""
    variables = os.environ if environ is None else environ
    own = {
        name: value
        for name, value in variables.items()
        if name in INSTALLER_VARIABLES or name.startswith(INSTALLER_PREFIXES)
    }
    return {**child_environment(environ=variables), **own, **(extra or {})}
