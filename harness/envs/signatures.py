"""An installer's output -> the stack's failure as one stable line, or the machine's fault as an error.

"No such version" is a result of the stack. "No index answers" or "disk full" says nothing about any release.
"""

from __future__ import annotations

import re

from harness.errors import EnvironmentUnavailable
from harness.model import Failed
from harness.probe.border.faults import without_folders

_DETAIL_CHARACTERS = 4000
_SIGNATURE_CHARACTERS = 200

#: What an installer prints when the machine is at fault -> what to do about it.
_NETWORK = re.compile(
    r"dns error|failed to lookup address|Temporary failure in name resolution|Connection refused|Connection reset"
    r"|Network is unreachable|No route to host|error sending request|operation timed out|Connection timed out"
    r"|ConnectTimeoutError|NewConnectionError|tcp connect error|network was disabled|HTTP status server error"
    r"|invalid peer certificate|CERTIFICATE_VERIFY_FAILED|407 Proxy Authentication",
    re.IGNORECASE,
)
_DISK = re.compile(r"No space left on device|os error 28|Disk quota exceeded")
_ACCESS = re.compile(r"Read-only file system|os error 30|Permission denied|os error 13")
_PYTHON = re.compile(r"No interpreter found for|Python interpreter not found|python-build-standalone")
_MACHINE = (
    (_PYTHON, "the stack's Python cannot be found", "install it or choose another one"),  # uv tries to download it
    (_NETWORK, "no package index can be reached", "check the network and pip's own configuration (pip config list)"),
    (_DISK, "the disk is full", "free space or set DSREGRESS_ENVIRONMENTS to another disk"),
    (_ACCESS, "a folder cannot be written", "set DSREGRESS_ENVIRONMENTS to a writable folder"),
)


def classify(output: str, where: str) -> Failed:
    """The failure that the installer's ``output`` reports. Raises EnvironmentUnavailable where the machine is at fault."""
    package_is_at_fault = "build backend returned an error" in output or "metadata-generation-failed" in output
    if not package_is_at_fault:
        for pattern, what, hint in _MACHINE:
            if found := pattern.search(output):
                raise EnvironmentUnavailable(f"{what} ({found[0]})", where=where, hint=hint)
    return Failed("install", signature(output), without_folders(output.strip())[-_DETAIL_CHARACTERS:])


def build_failure(output: str, name: str) -> Failed:
    """The failure of a source that does not build. Whatever its setup prints, about networks too, is not this machine's
    fault: everything that the build needs is installed."""
    lines = [re.sub(r"^[\s×├╰─▶│]+", "", line).strip() for line in output.splitlines()]
    errors = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b(:|$)", line)]
    text = without_folders(output.strip())[-_DETAIL_CHARACTERS:]
    return Failed("install", _short(f"build of {name}: {errors[-1] if errors else 'failed'}"), text)


def failed_build(output: str) -> str:
    """The package whose build failed, empty where none did."""
    found = re.search(r"Failed to (?:build|download and build) `?([\w.-]+)==", output)
    return found[1] if found else ""


def signature(output: str) -> str:
    """One line that is the same for the same fault: no paths of this machine, no addresses, no times."""
    lines = [re.sub(r"^[\s×├╰─▶│]+", "", line).strip() for line in output.splitlines()]
    errors = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b(:|$)", line)]
    package = failed_build(output)
    if package:
        return _short(f"build of {package}: {errors[-1] if errors else 'failed'}")
    text = " ".join(lines)
    if because := re.search(r"Because (.+?)(?:\. (?:And|hint)|, we can conclude|$)", text):
        return _short(f"no solution: {because[1]}")
    if errors:
        return _short(errors[-1])
    reported = [line for line in lines if re.match(r"(error|ERROR):", line)]
    return _short(reported[0] if reported else next((line for line in lines if line), "no output"))


def _short(text: str) -> str:
    text = re.sub(r"\S+", _last_part, text)
    text = re.sub(r"\b0x[0-9a-f]+\b", "0x", text)
    return re.sub(r"\s+", " ", text)[:_SIGNATURE_CHARACTERS].rstrip(" .")


def _last_part(word: re.Match[str]) -> str:
    """Of a path; not by a pattern that looks for a slash behind each character again: what a build prints can be long."""
    return word[0][word[0].rstrip("/").rfind("/") + 1 :]
