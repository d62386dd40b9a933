"""``clean``: the removal of environments that no configured stack uses, and of the container images of stacks."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click
import msgspec

from dsregress.cli import options
from dsregress.cli.configured_job import with_stack_of_job
from dsregress.cli.lines import print_text
from dsregress.config.settings import Settings
from dsregress.envs import cleaning, stack_images
from dsregress.envs.installer import Installer
from dsregress.envs.places import environment_folder
from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.run import pipeline
from dsregress.run.lock import run_lock
from dsregress.system import container_engine
from dsregress.system.obstacles import obstacle_error
from dsregress.versions import locking
from dsregress.wording.quantities import quantity


class WantedImages(msgspec.Struct, frozen=True, kw_only=True):
    """The container images to remove."""

    images: bool  #: images in place of environments
    stacks: tuple[str, ...]  #: parts of stacks' ids; empty: all
    keep: tuple[str, ...]

    def check(self, everything: bool) -> None:
        """Raise UsageError if images are named, and environments are removed; or the reverse."""
        if self.images and everything:
            raise UsageError("--all is about environments", where="--images", hint="give one of the two")
        if not self.images and (self.stacks or self.keep):
            raise UsageError("only images are removed by stack", where="clean", hint="add --images")


@click.command("clean")
@options.grouped(
    "wanted",
    WantedImages,
    click.argument("stacks", nargs=-1, metavar="[STACK]..."),
    click.option(
        "--images", is_flag=True, help="Remove the images that `regress --executor docker` has built instead."
    ),
    click.option("--keep", multiple=True, metavar="STACK", help="With --images: keep these. Repeatable."),
)
@click.option("--all", "everything", is_flag=True, help="Remove all environments, and everything that supports them.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed; remove nothing.")
def clean_command(wanted: WantedImages, everything: bool, dry_run: bool) -> None:
    """Remove the environments that no configured stack uses, and what only they share.

    The stacks of [tool.dsregress] stay: those that `regress` would compare, those of the job, and the named ones. Results
    are never removed, and what was removed is built again when it is needed.

    With --images, remove container images instead, except those in use by a container. STACK is a part of a stack's id;
    without any, all images are removed. The images of stacks share a base image, which is removed with the last of them.
    Sizes include it, though it is on disk only once.

    \b
    Examples:
      dsregress clean --dry-run         what would be removed, and how much disk that frees
      dsregress clean                   remove it
      dsregress clean --all             remove every environment, lock and cache under `environments`
      dsregress clean --images --dry-run                             list the images, newest first
      dsregress clean --images deepspeed0.16.4                       remove those of one release
      dsregress clean --images --keep deepspeed0.16.4 --keep deepspeed0.15.0
    """
    wanted.check(everything)
    settings = options.load_settings()
    if wanted.images:
        _clean_images(wanted, dry_run=dry_run)
        return
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
    used = {environment_folder(lock, folder, gpu=gpu).name for lock in locks if lock for gpu in (False, True)}
    return used | _of_job(settings, installer)


def _of_job(settings: Settings, installer: Installer) -> set[str]:
    """Return the names of the folders of the configured job's environments: of its stack, whatever is added to it."""
    own, _ = with_stack_of_job(settings)
    if own.stack == settings.stack:
        return set()
    stacks = pipeline.plan_stacks(own, pipeline.Choice(), installer).stacks
    found = Path(settings.environments, "envs").glob("*")
    return {place.name for place in found if place.name.startswith(tuple(f"{stack.id}-" for stack in stacks))}


def _clean_images(wanted: WantedImages, *, dry_run: bool) -> None:
    client = container_engine.connect()
    try:
        found = stack_images.stored_images(client)
        chosen = stack_images.superfluous(found, wanted.stacks, wanted.keep)
        removed = 0
        for image in chosen:
            if dry_run:
                print_text(_image_line(image))
                continue
            gone = stack_images.remove_image(client, image)
            removed += gone
            print_text(f"{'removed' if gone else 'in use, kept'}: {image.tag}")
        print_text(f"would remove {len(chosen)} of {len(found)}" if dry_run else f"removed {removed} of {len(found)}")
    finally:
        client.close()


def _image_line(image: stack_images.StoredImage) -> str:
    what = image.stack or "shared by stacks"
    lock = f"lock {image.lock_sha256[:12]}" if image.lock_sha256 else "common"
    size = f"{image.size_bytes / 1e6:,.0f} MB"
    return f"{image.tag}  {image.id[7:19]}  {image.created}  {size}  {lock}  on {image.base}  {what}"
