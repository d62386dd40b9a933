"""Stacks to environments: what the user is told of those that cannot be had."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.cli.progress import QuietWatch
from dsregress.model import Environment, Failed, LockedStack, Stack
from dsregress.run.stack_environments import build_locked
from dsregress.run.targets import BuildProgress

GOOD, BAD = (Stack(python="3.11", versions={"deepspeed": version}, label=version) for version in ("1.0", "2.0"))


class Watch(QuietWatch):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


def build(locked: Sequence[LockedStack], progress: BuildProgress) -> tuple[Environment, ...]:
    return tuple(
        Environment(stack=one.stack, lock_sha256=one.sha256, notes=("torch 9 is yanked by its publisher",))
        for one in locked
    )


def test_a_stack_that_does_not_resolve_is_one_line_with_what_conflicts() -> None:
    watch = Watch()
    failed = Failed("install", "no solution: deepspeed==2.0 depends on torch>=9 and you require torch===8")
    lock = LockedStack(stack=GOOD, requirements=(), sha256="l")
    made = build_locked([GOOD, BAD], [lock, failed], build, watch)
    assert [environment.failure for environment in made] == [None, failed]
    assert watch.lines[0] == (
        "2.0 cannot be installed: no solution: deepspeed==2.0 depends on torch>=9 and you require torch===8; "
        "choose other versions of these"
    )


def test_a_note_that_several_environments_have_is_one_line() -> None:
    watch = Watch()
    locks = [LockedStack(stack=stack, requirements=(), sha256="l") for stack in (GOOD, BAD)]
    build_locked([GOOD, BAD], locks, build, watch)
    assert watch.lines == ["torch 9 is yanked by its publisher"]
