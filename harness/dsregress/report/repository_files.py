"""The files that ``init`` writes into a repository: the table of its job, and its workflows."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from dsregress.config.job import JobSettings
from dsregress.config.settings import OWN_TABLE

#: Folder of the workflows in a repository.
WORKFLOWS = ".github/workflows"

_TEMPLATES = Path(__file__).with_name("workflows")

#: The place of the action until the repository that built this package is known, and the jobs that a template has.
_ACTION, _BUMP = "OWNER/dsregress@v1", "'bump'"


def job_table(job: JobSettings) -> str:
    """Return the job as TOML, without what has its default."""
    lines = [f"[{OWN_TABLE}.job]"]
    for field in msgspec.structs.fields(JobSettings):
        value = getattr(job, field.name)
        if value != field.default:
            lines.append(f"{field.encode_name} = {_toml_value(value)}")
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    """Return a value as TOML. JSON's text is TOML's but for DEL, which TOML wants escaped."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def workflow_files(repository: str, *, is_framework: bool) -> dict[str, str]:
    """Return the workflows by their files. ``repository`` is the action's, ``owner/name``; empty if it is not known. A
    framework's pull requests are measured, as it has no packages to bump."""
    found = {}
    for template in sorted(_TEMPLATES.glob("*.yml")):
        text = template.read_text("utf-8")
        if repository:
            text = text.replace(_ACTION, f"{repository}@v1")
        if is_framework:
            text = text.replace(_BUMP, "'change'")
        found[f"{WORKFLOWS}/{template.name}"] = text
    return found
