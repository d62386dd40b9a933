"""What a run of a script says, by its exit code and its output."""

from __future__ import annotations

import subprocess

import pytest

from dsregress.config.settings import Settings
from dsregress.model import Environment, Stack, Verdict
from dsregress.reproduce import running
from dsregress.reproduce.running import ScriptRun, figure, read_verdict
from dsregress.reproduce.script import Script

LINE = "gradient norm 0.1459, plain PyTorch 0.5834, ratio 0.250"
TRACE = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/me/reproduce.py", line 40, in <module>
[rank0]: RuntimeError: Output 0 of Split is a view and is being modified inplace
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""


def script(says: str = "plain PyTorch", *, is_crash: bool = False, is_hang: bool = False) -> Script:
    return Script(
        text="",
        file="f.py",
        ranks=1,
        says=says,
        has_truth=not is_crash,
        compares=False,
        counts=says.startswith("bytes"),
        needs_expected=False,
        is_crash=is_crash,
        is_hang=is_hang,
        model="layers",
    )


def done(code: int, out: str = "", err: str = "") -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess(["python"], code, out.encode(), err.encode())


@pytest.mark.parametrize(("code", "answer"), [(1, Verdict.BAD), (0, Verdict.GOOD), (2, Verdict.UNKNOWN)])
def test_the_exit_code_answers_where_the_line_is_there(code: int, answer: Verdict) -> None:
    found = read_verdict(script(), done(code, f"[INFO] log\n{LINE}\nMA 0.42 GB\n"), "0.18.3", "")
    assert found.answer is answer
    if code < 2:
        assert found.line == LINE


def test_an_exception_is_no_answer_though_python_exits_with_1() -> None:
    found = read_verdict(script(), done(1, "", TRACE), "0.18.3", "")
    assert found.answer is Verdict.UNKNOWN
    assert found.line == "RuntimeError: Output 0 of Split is a view and is being modified inplace"


def test_a_crash_is_known_by_how_its_error_begins() -> None:
    crash = script("trains ", is_crash=True)
    assert read_verdict(crash, done(1, "", TRACE), "0.18.7", "RuntimeError: Output 0 of Split").answer is Verdict.BAD
    assert read_verdict(crash, done(1, "", TRACE), "0.18.7", "ValueError: another").answer is Verdict.UNKNOWN
    assert read_verdict(crash, done(0, "trains 2 steps\n"), "0.18.6", "RuntimeError").answer is Verdict.GOOD


def test_a_line_has_no_colors() -> None:
    trace = TRACE.replace("Output 0", "\x1b[1mOutput\x1b[0m 0")
    found = read_verdict(
        script("trains ", is_crash=True), done(1, "", trace), "0.18.7", "RuntimeError: Output 0 of Split"
    )
    assert found.answer is Verdict.BAD
    assert found.line == "RuntimeError: Output 0 of Split is a view and is being modified inplace"


def test_a_class_of_another_module_is_known_by_its_name_and_any_part_of_its_message() -> None:
    trace = TRACE.replace("RuntimeError: Output", "pydantic_core._pydantic_core.ValidationError: 1 error; Output")
    crash = script("trains ", is_crash=True)
    assert read_verdict(crash, done(1, "", trace), "0.18.7", "ValidationError: 1 error").answer is Verdict.BAD
    assert read_verdict(crash, done(1, "", trace), "0.18.7", "Output 0 of").answer is Verdict.BAD
    assert read_verdict(crash, done(1, "", trace), "0.18.7", "reproduce.py").answer is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("errors", "answer"),
    [
        ("", Verdict.BAD),
        ("Exception ignored in: <function>\nTypeError: 'NoneType' object is not callable\n", Verdict.BAD),
        ("  traceback : Signal 15 (SIGTERM) received by PID 42\n", Verdict.BAD),
        ("  traceback : Signal 11 (SIGSEGV) received by PID 42\n", Verdict.UNKNOWN),
        (TRACE, Verdict.UNKNOWN),
    ],
)
def test_a_rank_that_broke_after_its_line_is_no_answer(errors: str, answer: Verdict) -> None:
    found = read_verdict(script(), done(1, f"{LINE}\n", errors), "0.18.3", "")
    assert found.answer is answer
    assert (found.line == LINE) is (answer is Verdict.BAD)


def test_silence_is_said() -> None:
    assert read_verdict(script(), done(-9), "0.18.3", "").line == "no output, exit code -9"


def run_of(line: str, answer: Verdict = Verdict.GOOD) -> ScriptRun:
    return ScriptRun(version="v", answer=answer, exit_code=0, line=line, printed=line)


def test_a_figure_is_read_from_the_line() -> None:
    assert figure(script("bytes held after"), run_of("369,664 bytes held after backward")) == 369_664
    assert figure(script("deepspeed.gradient_clipping is "), run_of("deepspeed.gradient_clipping is 0.0")) == 0.0


def test_a_run_without_an_answer_has_no_figure() -> None:
    with pytest.raises(ValueError, match="no output"):
        figure(script("bytes held after"), run_of("no output, exit code 3", Verdict.UNKNOWN))


def test_a_setting_is_read_from_all_of_a_long_line() -> None:
    setting = script("deepspeed.sizes is ")
    found = read_verdict(setting, done(0, f"deepspeed.sizes is {list(range(100))}\n"), "0.18.2", "")
    assert len(found.line) < 200
    assert figure(setting, found) == list(range(100))


def test_a_setting_that_is_no_literal_has_no_figure() -> None:
    with pytest.raises(ValueError, match="no literal"):
        figure(script("deepspeed.dtype is "), run_of("deepspeed.dtype is <DType.BF16: 'bf16'>"))


def test_a_hang_is_known_by_where_its_ranks_wait() -> None:
    hang, key = script("trains ", is_hang=True), "no sign of life for"
    line = "hangs: rank 0 waits in reduce_scatter_tensor; rank 1 waits in wait, called by fetch_sub_module"
    found = read_verdict(
        hang, done(1, f"[INFO] log\n{line}\n", TRACE), "0.17.6", key
    )  # the other rank, once the first has gone
    assert (found.answer, found.line) == (Verdict.BAD, line)
    assert read_verdict(hang, done(0, "trains 2 steps\n"), "0.18.0", key).answer is Verdict.GOOD
    assert read_verdict(hang, done(1, "", TRACE), "0.18.0", key).answer is Verdict.UNKNOWN
    assert read_verdict(hang, done(1, "trains 2 steps\n", TRACE), "0.18.0", key).answer is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("answers", "is_hang", "answer", "runs"),
    [
        ([Verdict.GOOD, Verdict.BAD, Verdict.GOOD], True, Verdict.BAD, 2),
        ([Verdict.GOOD, Verdict.UNKNOWN, Verdict.GOOD], True, Verdict.UNKNOWN, 3),
        ([Verdict.GOOD, Verdict.GOOD, Verdict.GOOD], True, Verdict.GOOD, 3),
        ([Verdict.GOOD, Verdict.BAD, Verdict.BAD], False, Verdict.GOOD, 1),
    ],
)
def test_a_script_of_a_hang_runs_until_its_ranks_hang(
    answers: list[Verdict], is_hang: bool, answer: Verdict, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(answers)

    def once(*_: object) -> ScriptRun:
        return ScriptRun(version="0.17.6", answer=next(left), exit_code=0, line="")

    monkeypatch.setattr(running, "_run_once", once)
    stack = Stack(python="3.11", versions={"deepspeed": "0.17.6"})
    environment = Environment(stack=stack, lock_sha256="")
    found = running.run_script(script("trains ", is_hang=is_hang), environment, "0.17.6", "", Settings())
    assert found.answer is answer
    assert len(list(left)) == len(answers) - runs
