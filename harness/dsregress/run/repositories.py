"""Git repositories that commands read."""

from __future__ import annotations

from pathlib import Path

from dsregress.config.settings import Settings
from dsregress.config.variables import installer_environment
from dsregress.envs.repository import Repository


def open_repository(location: str, settings: Settings) -> Repository:
    """Open the framework's repository. Raise UsageError, EnvironmentUnavailable."""
    # Without the ceiling git would look above an unpacked commit, and find the repository that this runs in.
    ceiling = {"GIT_CEILING_DIRECTORIES": settings.environments}
    cache = Path(settings.environments) / "repositories"
    repository = Repository(location, cache=cache, environment=installer_environment(ceiling))
    repository.open()
    return repository
