"""Files that commands are given, whatever they are: each is read to an end, or named in one line."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from dsregress.cli import named_files, run_command_line

COMMANDS = (("diagnose", "{}"), ("upgrade", "--from", "{}"), ("reproduce", "{}.json"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for suffix in ("", ".json"):
        os.mkfifo(tmp_path / f"fifo{suffix}")
        (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
        (tmp_path / f"loop{suffix}").symlink_to(f"loop{suffix}")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("fifo", "a FIFO, not a regular file"),
        ("zero", "a device, not a regular file"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_what_never_ends_is_named_in_one_line(
    command: tuple[str, ...], name: str, why: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = command[-1].format(files / name)
    with pytest.raises(SystemExit) as ended:
        run_command_line([*command[:-1], file])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"dsregress: error: {file}: cannot be read: {why}; ")


@pytest.mark.parametrize("command", COMMANDS[:2], ids=lambda words: words[0])
def test_a_closed_stdin_is_one_line(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        run_command_line([*command[:-1], "-"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "dsregress: error: stdin: is closed; pipe a text into it, or name a file\n"


@pytest.mark.parametrize("read", [named_files.read_named, lambda file, hint: named_files.read_end(file, 5, hint=hint)])
def test_an_endless_stdin_is_not_read_for_ever(read: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "MOST_FILE_BYTES", 3 << 20)
    monkeypatch.setattr(named_files, "_MOST_STDIN_BYTES", 3 << 20)
    with open("/dev/zero", "rb") as zero:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(zero))
        with pytest.raises(named_files.UsageError, match="stdin: longer than 3 MiB; hint"):
            read("-", hint="hint")  # type: ignore[operator]


@pytest.mark.parametrize("length", [1, 5, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_the_end_of_a_text_is_the_same_from_stdin_as_from_a_file(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = bytes(range(256)) * (10 << 10) + b"end"
    file = tmp_path / "log"
    file.write_bytes(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert named_files.read_end("-", length, hint="") == text[-length:]
    assert named_files.read_end(str(file), length, hint="") == text[-length:]
