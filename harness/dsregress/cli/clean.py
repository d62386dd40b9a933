"""``clean``: the removal of environments that no configured stack uses, and of the container images of stacks."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import click
import msgspec

from dsregress.cli import options
from dsregress.cli.command_json import text_beside, write_command_json
from dsregress.cli.configured_job import with_stack_of_job
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


class Size(click.ParamType):  # type: ignore[type-arg]  # generic in some releases of click alone
    """A number of bytes, from ``500MB``, ``5GB`` or ``5GiB``."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes. Raise click.BadParameter."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?) ?([MGT])(i?)B", str(value))
        if found is None:
            self.fail(f"{value!r} is not a size: write e.g. 500MB, 5GB or 5GiB", param, ctx)
        return int(float(found[1]) * (1024 if found[3] else 1000) ** "_KMGT".index(found[2]))


class WantedImages(msgspec.Struct, frozen=True, kw_only=True):
    """The container images to remove."""

    images: bool  #: images in place of environments
    stacks: tuple[str, ...]  #: parts of stacks' ids; empty: all
    keep: tuple[str, ...]

    def check(self, everything: bool, limit_bytes: int | None) -> None:
        """Raise UsageError if images are named, and environments are removed; or the reverse; or all, and only some."""
        if self.images and everything:
            raise UsageError("--all is about environments", where="--images", hint="give one of the two")
        if limit_bytes is not None and (self.images or everything):
            raise UsageError("is about environments that stay", where="--limit", hint="without --images and --all")
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
@click.option(
    "--limit",
    "limit_bytes",
    type=Size(),
    metavar="SIZE",
    help="Remove the environments that were used least recently, whatever uses them, until the folder takes at most SIZE, "
    "e.g. 5GB.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed; remove nothing.")
@options.json_option
def clean_command(
    wanted: WantedImages, everything: bool, limit_bytes: int | None, dry_run: bool, json_file: str | None
) -> None:
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
      dsregress clean --limit 5GB       keep what was used last, and no more than that
      dsregress clean --images --dry-run                             list the images, newest first
      dsregress clean --images deepspeed0.16.4                       remove those of one release
      dsregress clean --images --keep deepspeed0.16.4 --keep deepspeed0.15.0
    """
    wanted.check(everything, limit_bytes)
    settings = options.load_settings()
    if wanted.images:
        _clean_images(wanted, dry_run=dry_run, json_file=json_file)
        return
    say = text_beside(json_file)
    folder = Path(settings.environments)
    if not folder.is_dir():
        say(f"{folder}: no environments")
        write_command_json(json_file, "clean", folder=str(folder), dry_run=dry_run, removed=[], freed_bytes=0)
        return
    try:
        with contextlib.nullcontext() if dry_run else run_lock(folder):
            if not dry_run:
                cleaning.check_idle(folder)
            found = _superfluous(folder, settings, everything=everything, limit_bytes=limit_bytes)
            for removable in found:
                if not dry_run:
                    cleaning.remove_unused(removable)
                place = removable.place.relative_to(folder)
                say(f"{'would remove' if dry_run else 'removed'} {place}: {quantity(removable.size_bytes, 'bytes')}")
    except OSError as error:
        hint = "check its owner (ls -l)"
        raise obstacle_error(EnvironmentUnavailable, "cannot be removed", error, where=folder, hint=hint) from None
    freed_bytes = sum(removable.size_bytes for removable in found)
    total = quantity(freed_bytes, "bytes")
    say(f"{total} {'would be free' if dry_run else 'freed'}" if found else "nothing to remove")
    removed = [
        {"place": removable.place.relative_to(folder).as_posix(), "size_bytes": removable.size_bytes}
        for removable in found
    ]
    write_command_json(
        json_file, "clean", folder=str(folder), dry_run=dry_run, removed=removed, freed_bytes=freed_bytes
    )


def _superfluous(
    folder: Path, settings: Settings, *, everything: bool, limit_bytes: int | None
) -> tuple[cleaning.Removable, ...]:
    """Return what is to be removed. Raise OSError, UsageError, EnvironmentUnavailable."""
    if everything:
        return cleaning.everything(folder)
    if limit_bytes is not None:
        return cleaning.beyond(folder, limit_bytes)
    return cleaning.unused(folder, _used(settings))


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


def _clean_images(wanted: WantedImages, *, dry_run: bool, json_file: str | None) -> None:
    say = text_beside(json_file)
    client = container_engine.connect()
    try:
        found = stack_images.stored_images(client)
        chosen = stack_images.superfluous(found, wanted.stacks, wanted.keep)
        in_use: set[str] = set()
        for image in chosen:
            if dry_run:
                say(_image_line(image))
                continue
            if not stack_images.remove_image(client, image):
                in_use.add(image.id)
            say(f"{'in use, kept' if image.id in in_use else 'removed'}: {image.tag}")
        say(
            f"would remove {len(chosen)} of {len(found)}"
            if dry_run
            else f"removed {len(chosen) - len(in_use)} of {len(found)}"
        )
        images = [
            {"tag": one.tag, "id": one.id, "stack": one.stack, "size_bytes": one.size_bytes, "in_use": one.id in in_use}
            for one in chosen
        ]
        write_command_json(json_file, "clean", dry_run=dry_run, images=images)
    finally:
        client.close()


def _image_line(image: stack_images.StoredImage) -> str:
    what = image.stack or "shared by stacks"
    lock = f"lock {image.lock_sha256[:12]}" if image.lock_sha256 else "common"
    size = f"{image.size_bytes / 1e6:,.0f} MB"
    return f"{image.tag}  {image.id[7:19]}  {image.created}  {size}  {lock}  on {image.base}  {what}"
