"""An engine that tests use, and projects whose cells run in its containers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.containers import engine
from tests.offline.project import Project

#: Longer than the images of a test take on a busy machine.
LIMIT_S = 600.0


@dataclass(frozen=True)
class Engine:
    """An engine, and a base image in it."""

    address: str
    base: str
    client: Any

    @property
    def folder(self) -> Path | None:
        """Of a daemon that the tests have started; None of one that is also used by others."""
        folder = Path(self.address.removeprefix("unix://")).parent
        return folder if folder.name.startswith(engine.PREFIX) else None

    def containers(self, owner: Path) -> list[Any]:
        """Every container, running or not, that was started for the environments in that folder; one that is removed
        while they are listed is left out."""
        label = f"dsregress.owner={owner}"
        found: list[Any] = self.client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
        return found


def configure(project: Project, of: Engine, *versions: str, limits: str = "", **values: object) -> None:
    """As `Project.configure`, with the base image."""
    text = f'[tool.dsregress.docker]\nbase = "{of.base}"\n{limits}'
    project.configure(*versions, text=text, **{"executor": "docker", **values})  # type: ignore[arg-type]
