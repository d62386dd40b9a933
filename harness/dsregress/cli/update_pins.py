"""Refresh the committed releases and locks: ``python -m dsregress.cli.update_pins``, called by ``nox -s update_pins``.

Run it in a checkout, look at the diff, commit it. It joins stations as the pipeline does, for the project's own upkeep.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from packaging.version import Version

from dsregress.config.settings import Settings, read_settings
from dsregress.config.variables import installer_environment
from dsregress.envs.installer import Installer
from dsregress.errors import HarnessError
from dsregress.model import NotInstalled, Stack
from dsregress.versions import locking, releases
from dsregress.versions.declared_requirements import FILE as REQUIREMENTS
from dsregress.versions.declared_requirements import write_requirements
from dsregress.versions.stack_plans import ConfiguredStacks, plan_stacks
from dsregress.versions.yanked import FILE as YANKED
from dsregress.versions.yanked import write_yanked


def update_pins(
    settings: Settings, installer: Installer, *, upgrade: bool, report: Callable[[str], None] = print
) -> None:
    """Write the committed releases, the yanked ones, the requirements, the base lock, and the locks of the default and the
    named stacks.

    With ``upgrade``, packages that no stack pins move to their newest releases; without, they keep those of the base lock.
    """
    releases.write_releases({package: installer.published(package) for package in releases.OLDEST})
    report(f"wrote {releases.FILE.name}")
    write_yanked({package: installer.yanked_releases(package) for package in releases.OLDEST})
    report(f"wrote {YANKED.name}")
    write_requirements(installer.published, installer.declared_requirements)
    report(f"wrote {REQUIREMENTS.name}")

    configured = ConfiguredStacks(
        table=settings.stack, baseline=settings.baseline, python=locking.OLDEST_PYTHONS[-1], named=settings.stacks
    )

    def stacks(name: str | None) -> tuple[Stack, ...]:
        return plan_stacks(configured, name=name).stacks

    newest = max(stacks(None), key=lambda stack: [Version(stack.versions[p]) for p in sorted(stack.versions)])
    base = "" if upgrade else locking.base_pins()
    _lock(newest, locking.BASE, base, installer)
    base = locking.base_pins()
    kept = {locking.BASE}
    for name in (None, *settings.stacks):
        for stack in stacks(name):
            file = locking.FOLDER / locking.file_name(stack)
            if file not in kept:
                _lock(stack, file, base, installer)
                report(f"wrote locks/{file.name}")
            kept.add(file)
    for stale in set(locking.FOLDER.glob("*.txt")) - kept:
        stale.unlink()
        report(f"removed locks/{stale.name}")


def _lock(stack: Stack, file: Path, base: str, installer: Installer) -> None:
    requirements = locking.wanted(stack)
    pins = locking.resolve(requirements, base=base, compile=installer.compile, python=stack.python)
    if isinstance(pins, NotInstalled):
        raise HarnessError(pins.signature, where=f"locking {stack.id}", hint="change [tool.dsregress.stack]")
    locking.write_lock(file, requirements, pins)


def refresh_pins() -> int:
    """Return the exit code of the command."""
    try:
        update_pins(read_settings(), Installer(environment=installer_environment()), upgrade="--keep" not in sys.argv)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(refresh_pins())
