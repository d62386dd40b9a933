"""``clean --images``: the images of stacks are listed or removed."""

from __future__ import annotations

import types

import click.testing
import pytest

from dsregress.cli.clean import clean_command
from dsregress.envs import stack_images
from dsregress.envs.stack_images import StoredImage
from dsregress.errors import UsageError
from dsregress.system import container_engine


def image(role: str, tag: str, stack: str = "") -> StoredImage:
    return StoredImage(
        id=f"sha256:{tag:0<12}",
        tag=tag,
        role=role,
        common="c1",
        stack=stack,
        lock_sha256="l" * 64 if stack else "",
        base="python:3.11-slim",
        created="2026-11-27T03:00:00Z",
        size_bytes=2_500_000_000,
    )


IMAGES = [
    image("stack", "new", "torch2.13.0-deepspeed0.16.4"),
    image("stack", "old", "torch2.13.0-deepspeed0.15.0"),
    image("common", "base"),
]


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tags that were removed; the engine uses none of the images but ``old``."""
    gone: list[str] = []

    def remove_image(client: object, one: StoredImage) -> bool:
        gone.append(one.tag)
        return one.tag != "old"

    monkeypatch.setattr(container_engine, "connect", lambda: types.SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(stack_images, "stored_images", lambda client: IMAGES)
    monkeypatch.setattr(stack_images, "remove_image", remove_image)
    return gone


def cleaned(*arguments: str) -> str:
    return click.testing.CliRunner().invoke(clean_command, arguments, catch_exceptions=False).output


def test_a_dry_run_lists_the_images_and_removes_none(removed: list[str]) -> None:
    assert cleaned("--images", "--dry-run", "deepspeed0.16.4") == (
        "new  new000000000  2026-11-27T03:00:00Z  2,500 MB  lock llllllllllll  on python:3.11-slim  "
        "torch2.13.0-deepspeed0.16.4\nwould remove 1 of 3\n"
    )
    assert removed == []


def test_images_are_removed_but_those_in_use_and_those_to_keep(removed: list[str]) -> None:
    assert cleaned("--images", "--keep", "deepspeed0.16.4") == "in use, kept: old\nremoved 0 of 3\n"
    assert cleaned("--images") == "removed: new\nin use, kept: old\nremoved: base\nremoved 2 of 3\n"
    assert removed == ["old", "new", "old", "base"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--images", "--all"), "--images: --all is about environments; give one of the two"),
        (("deepspeed0.16.4",), "clean: only images are removed by stack; add --images"),
        (("--keep", "deepspeed0.16.4"), "clean: only images are removed by stack; add --images"),
    ],
)
def test_images_and_environments_are_not_removed_together(
    arguments: tuple[str, ...], error: str, removed: list[str]
) -> None:
    with pytest.raises(UsageError) as raised:
        cleaned(*arguments)
    assert str(raised.value) == error
    assert removed == []
