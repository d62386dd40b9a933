"""Signs of life within a stage: while operators run, and only of the rank itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dsregress.probe.process import heartbeat as heartbeats
from dsregress.probe.process.channel import Channel, Message
from dsregress.probe.process.heartbeat import EVERY_S, Heartbeat
from dsregress.probe.process.ranks import CellEnded, Ranks


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_stage_is_announced_as_it_begins_and_that_operators_run_every_second(clock: list[float]) -> None:
    sent: list[Message] = []
    heartbeat = Heartbeat(sent.append)
    heartbeat.stage("generate")
    for _ in range(3):
        heartbeat.operator_ran()
    assert sent == [{"at": "stage", "stage": "generate"}]
    clock[0] += EVERY_S
    for _ in range(3):
        heartbeat.operator_ran()
    assert sent == [{"at": "stage", "stage": "generate"}, {"at": "working"}]


def test_a_process_that_the_rank_has_forked_gives_no_sign(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Message] = []
    heartbeat = Heartbeat(sent.append)
    heartbeat.stage("forward")
    clock[0] += EVERY_S
    monkeypatch.setattr(os, "getpid", lambda: -1)
    heartbeat.operator_ran()
    assert sent == [{"at": "stage", "stage": "forward"}]


def test_a_rank_is_timed_out_once_it_waits_and_not_while_it_runs_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_s, works_s = 1.0, 3.0

    def generate_then_wait(rank: int, channel: Channel) -> None:
        heartbeat = Heartbeat(channel.send)
        heartbeat.stage("generate")
        until = time.monotonic() + works_s
        while time.monotonic() < until:
            time.sleep(0.01)
            heartbeat.operator_ran()
        time.sleep(600)

    monkeypatch.setattr(heartbeats, "EVERY_S", 0.1)
    began = time.monotonic()
    with Ranks(generate_then_wait, range(2), 2, tmp_path, {}, limit_s) as ranks, pytest.raises(CellEnded) as ended:
        ranks.measured()
    assert (ended.value.outcome, ended.value.stage) == ("timed_out", "generate")
    assert time.monotonic() - began > works_s


def test_a_rank_that_works_in_one_stage_without_an_end_is_ended_after_ten_timeouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate_then_generate_forever(rank: int, channel: Channel) -> None:
        heartbeat = Heartbeat(channel.send)
        for stage in ["evaluate"] * 15 + ["generate"]:  # longer than a stage may last, but of many
            heartbeat.stage(stage)
            time.sleep(0.2)
        while True:
            time.sleep(0.01)
            heartbeat.operator_ran()

    monkeypatch.setattr(heartbeats, "EVERY_S", 0.1)
    with (
        Ranks(evaluate_then_generate_forever, range(2), 2, tmp_path, {}, 0.25) as ranks,
        pytest.raises(CellEnded) as ended,
    ):
        ranks.measured()
    assert (ended.value.outcome, ended.value.stage) == ("still_working", "generate")
    assert ended.value.signature == "not done after 2.5 s of work in generate"
