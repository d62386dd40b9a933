"""``clean``: the removal of environments that no configured stack uses."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from dsregress.cli import options
from dsregress.cli.lines import print_text
from dsregress.config.settings import Settings
from dsregress.envs import cleaning
from dsregress.envs.places import environment_folder
from dsregress.errors import EnvironmentUnavailable
from dsregress.run import pipeline
from dsregress.run.lock import run_lock
from dsregress.system.obstacles import obstacle_error
from dsregress.versions import locking
from dsregress.wording.quantities import quantity


@click.command("clean")
@click.option("--all", "everything", is_flag=True, help="Remove all environments, and everything that supports them.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed; remove nothing.")
def clean_command(everything: bool, dry_run: bool) -> None:
    """Remove the environments that no configured stack uses, and what only they share.

    The stacks of [tool.dsregress] stay: those that `regress` would compare, and the named ones. Results are never removed,
    and what was removed is built again when it is needed.

    \b
    Examples:
      dsregress clean --dry-run         what would be removed, and how much disk that frees
      dsregress clean                   remove it
      dsregress clean --all             remove every environment, lock and cache under `environments`
    """
    settings = options.load_settings()
    folder = Path(settings.environments)
    if not folder.is_dir():
        print_text(f"{folder}: no environments")
        return
    try:
        with contextlib.nullcontext() if dry_run else run_lock(folder):
            if not dry_run:
                cleaning.check_idle(folder)
            found = cleaning.everything(folder) if everything else cleaning.unused(folder, _used(settings))
            for removable in found:
                if not dry_run:
                    cleaning.remove_unused(removable)
                place = removable.place.relative_to(folder)
                print_text(
                    f"{'would remove' if dry_run else 'removed'} {place}: {quantity(removable.size_bytes, 'bytes')}"
                )
    except OSError as error:
        hint = "check its owner (ls -l)"
        raise obstacle_error(EnvironmentUnavailable, "cannot be removed", error, where=folder, hint=hint) from None
    total = quantity(sum(removable.size_bytes for removable in found), "bytes")
    print_text(f"{total} {'would be free' if dry_run else 'freed'}" if found else "nothing to remove")


def _used(settings: Settings) -> set[str]:
    """Return the names of the folders of the configured stacks' environments."""
    installer = pipeline.new_installer(settings)
    choices = [pipeline.Choice(), *(pipeline.Choice(stack=name) for name in settings.stacks)]
    stacks = [stack for choice in choices for stack in pipeline.plan_stacks(settings, choice, installer).stacks]
    folder = Path(settings.environments)
    locks = [locking.known_lock(stack, cache=folder / "locks") for stack in stacks if not stack.existed]
    return {environment_folder(lock, folder, gpu=gpu).name for lock in locks if lock for gpu in (False, True)}
