"""``images``: the container images of stacks, and their removal."""

from __future__ import annotations

import click

from dsregress.cli import options
from dsregress.cli.lines import print_text
from dsregress.envs import stack_images
from dsregress.system import container_engine


@click.command("images")
@click.argument("stacks", nargs=-1, metavar="[STACK]...")
@click.option("--prune", is_flag=True, help="Remove images, except those in use by a container.")
@click.option("--keep", multiple=True, metavar="STACK", help="With --prune: keep these. Repeatable.")
def images_command(stacks: tuple[str, ...], prune: bool, keep: tuple[str, ...]) -> None:
    """List the images that `regress --executor docker` has built, newest first: one per stack, and the shared ones.

    STACK is a part of a stack's id. The images of stacks share a base image, which is removed with the last of them. Sizes
    include it, though it is on disk only once.

    \b
    Examples:
      dsregress images
      dsregress images --prune                                       remove all; the next run builds what it needs
      dsregress images --prune deepspeed0.16.4                       remove those of one release
      dsregress images --prune --keep deepspeed0.16.4 --keep deepspeed0.15.0
    """
    options.load_settings()
    client = container_engine.connect()
    try:
        found = stack_images.stored_images(client)
        if not prune:
            shown = [image for image in found if not stacks or any(part in image.stack for part in stacks)]
            for image in shown:
                print_text(_image_line(image))
            count = sum(image.role == "stack" for image in shown)
            print_text(f"{count} {'stack' if count == 1 else 'stacks'}, {len(shown) - count} common")
            return
        removed = 0
        for image in stack_images.superfluous(found, stacks, keep):
            gone = stack_images.remove_image(client, image)
            removed += gone
            print_text(f"{'removed' if gone else 'in use, kept'}: {image.tag}")
        print_text(f"removed {removed} of {len(found)}")
    finally:
        client.close()


def _image_line(image: stack_images.StoredImage) -> str:
    what = image.stack or "shared by stacks"
    lock = f"lock {image.lock_sha256[:12]}" if image.lock_sha256 else "common"
    size = f"{image.size_bytes / 1e6:,.0f} MB"
    return f"{image.tag}  {image.id[7:19]}  {image.created}  {size}  {lock}  on {image.base}  {what}"
