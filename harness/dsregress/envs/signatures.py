"""An installer's output -> the stack's failure as one stable line, or the machine's fault as an error.

"No such version" is a result of the stack. "No index answers" or "disk full" says nothing about any release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Failed, MachineFault, NotInstalled
from dsregress.probe.border import machine
from dsregress.probe.border.faults import without_folders
from dsregress.probe.border.masking import without_secrets

_DETAIL_CHARACTERS = 4000
_SIGNATURE_CHARACTERS = 200


class _Printed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns of an installer's output."""

    printed: tuple[str, ...]
    ignores_case: bool = False
    fault: str = ""
    hint: str = ""

    def search(self, output: str) -> re.Match[str] | None:
        """Return the first match in an output."""
        return re.search("|".join(self.printed), output, re.IGNORECASE if self.ignores_case else 0)


class _Outputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``signatures.toml``."""

    machine: tuple[_Printed, ...]  #: the machine is at fault
    damaged: _Printed  #: a package is damaged, or not the file that its index listed


_OUTPUTS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Outputs)


def classify(output: str, where: str) -> NotInstalled:
    """Return the failure that the installer's ``output`` reports. Raise EnvironmentUnavailable if the machine is at fault,
    and no other stack would fare better."""
    if "build backend returned an error" in output or "metadata-generation-failed" in output:
        return _build_failure(signature(output), output)
    for known in _OUTPUTS.machine:
        if found := known.search(output):
            raise EnvironmentUnavailable(f"{known.fault} ({found[0]})", where=where, hint=known.hint)
    if _OUTPUTS.damaged.search(output):
        return MachineFault("install", machine.DAMAGED, signature(output), _failure_detail(output))
    if fault := machine.in_log(output):
        raise EnvironmentUnavailable(f"{fault} ({signature(output)})", where=where, hint=machine.REMEDIES[fault])
    return Failed("install", signature(output), _failure_detail(output))


def build_failure(output: str, name: str) -> NotInstalled:
    """Return the failure of a source that does not build."""
    return _build_failure(_of_build(name, _traceback_errors(_plain_lines(output))), output)


def _build_failure(line: str, output: str) -> NotInstalled:
    """Return the failure of a build. It is a download's if the build's last error says so; earlier network errors in its
    output may be harmless. The index gave the source, so the network is not lost: the build wants more of it."""
    if fault := machine.in_message(line) or machine.in_log(output):
        fault = machine.BUILD_DOWNLOAD if fault == machine.NETWORK else fault
        return MachineFault("install", fault, line, _failure_detail(output))
    return Failed("install", line, _failure_detail(output))


def _failure_detail(output: str) -> str:
    return without_folders(output.strip())[-_DETAIL_CHARACTERS:]


def failed_build(output: str) -> str:
    """Return the package whose build failed, empty if none did."""
    found = re.search(r"Failed to (?:build|download and build) `?([\w.-]+)==", output)
    return found[1] if found else ""


class UnreadableEntry(NamedTuple):
    """An entry that uv could not read from its cache."""

    package: str
    cause: str  #: one line, without folders


def unreadable_entry(output: str) -> UnreadableEntry | None:
    """Return the entry that uv had but could not install: damaged in its cache, or by its publisher."""
    found = re.search(
        r"Failed to install: \S+ \((?P<installed>[\w.-]+)==.*\n(?P<why>.*)"
        r"|Failed to download(?: and build)? `(?P<fetched>[\w.-]+)==.*\n(?P<cache>.*(?:cache entry|[/\\\\]archive-v\d).*)",
        output,
    )
    if found is None:
        return None
    cause = re.sub(r"^\W*(cause|Caused by):\s*", "", found["why"] or found["cache"])
    return UnreadableEntry(found["installed"] or found["fetched"], _short(without_folders(cause)))


def missing_releases(output: str) -> tuple[str, ...]:
    """Return the packages of which uv reports that a release, or any, is missing."""
    text = " ".join(output.split())
    return tuple(dict.fromkeys(re.findall(r"there (?:is|are) no versions? of ([\w.-]+)", text)))


def lists_nothing(output: str, package: str) -> bool:
    """Return True if uv reports that an index has a package but no release of it."""
    return f"there are no versions of {package} " in f"{' '.join(output.split())} "


def is_missing(output: str) -> bool:
    """Return True if uv reports that no index has the requirement."""
    return bool(re.search(r"there (is|are) no versions? of|was not found", " ".join(output.split())))


def signature(output: str) -> str:
    """Return one line that is the same for the same fault: no paths of this machine, no addresses, no times."""
    lines = _plain_lines(output)
    errors = _traceback_errors(lines)
    package = failed_build(output)
    if package:
        return _of_build(package, errors)
    text = " ".join(lines)
    if because := re.search(r"Because (.+?)(?:\. (?:And|hint)|, we can conclude|$)", text):
        return _short(f"no solution: {because[1]}")
    if errors:
        return _short(errors[-1])
    reported = [line for line in lines if re.match(r"(error|ERROR):", line)]
    return _short(reported[0] if reported else next((line for line in lines if line), "no output"))


def _plain_lines(output: str) -> list[str]:
    """Return the lines without the branches of the tree that uv draws."""
    return [re.sub(r"^[\s×├╰─▶│]+", "", line).strip() for line in output.splitlines()]


def _traceback_errors(lines: Iterable[str]) -> list[str]:
    """Return the last lines of tracebacks."""
    return [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b(:|$)", line)]


def _of_build(name: str, errors: Sequence[str]) -> str:
    return _short(f"build of {name}: {errors[-1] if errors else 'failed'}")


def _short(text: str) -> str:
    text = re.sub(r"\S+", _last_part, without_secrets(text))
    text = re.sub(r"\b0x[0-9a-f]+\b", "0x", text)
    return re.sub(r"\s+", " ", text)[:_SIGNATURE_CHARACTERS].rstrip(" .")


def _last_part(word: re.Match[str]) -> str:
    """Return the last part of a path. Not by a pattern that searches for a slash after each character again: a build's
    output can be long."""
    return word[0][word[0].rstrip("/").rfind("/") + 1 :]
