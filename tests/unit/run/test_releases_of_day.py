"""The releases of a day that are taken go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dsregress.config.settings import Settings
from dsregress.model import Failed, NotInstalled, Stack
from dsregress.run import releases_of_day
from dsregress.run.releases_of_day import releases_that_go_together

FOUND = {"transformers": "4.40.0", "protobuf": "5.26.1", "wandb": "0.16.6"}
BASE = Stack(
    python="3.11",
    versions={"torch": "2.13.0", "transformers": "5.24.0", "protobuf": "7.0", "wandb": "0.31.0", "fschat": "0.2.36"},
)


@pytest.mark.parametrize(
    ("resolved", "taken"),
    [
        (
            {"protobuf": "4.25.9", "wandb": "0.16.6"},
            {"transformers": "4.40.0", "protobuf": "4.25.9", "wandb": "0.16.6"},
        ),
        (Failed("install", "no solution: x"), {"transformers": "4.40.0"}),
    ],
)
def test_an_older_release_is_taken_of_what_excludes_another_of_the_day(
    resolved: Mapping[str, str] | NotInstalled, taken: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Stack, Mapping[str, str]]] = []

    def newest(stack: Stack, limits: Mapping[str, str], *rest: Any) -> Mapping[str, str] | NotInstalled:
        asked.append((stack, limits))
        return resolved

    monkeypatch.setattr(releases_of_day, "newest_beside", newest)
    installer: Any = None
    assert releases_that_go_together(FOUND, BASE, Settings(), installer) == taken
    ((stack, limits),) = asked
    assert stack.versions == {"torch": "2.13.0", "transformers": "4.40.0", "fschat": "0.2.36"}
    assert limits == {"protobuf": "<=5.26.1", "wandb": "<=0.16.6"}


def test_packages_of_every_stack_alone_are_taken_as_they_are() -> None:
    installer: Any = None
    assert releases_that_go_together({"peft": "0.10.0"}, BASE, Settings(), installer) == {"peft": "0.10.0"}
