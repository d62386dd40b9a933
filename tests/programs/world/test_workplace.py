"""The run's own copy of a user's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsregress.probe import launch_line
from dsregress.programs.world import workplace
from vgpu import isolation


def test_files_outside_of_the_folder_are_found_and_folders_stay(tmp_path: Path) -> None:
    source = tmp_path / "mine" / "here"
    source.mkdir(parents=True)
    (source.parent / "out").mkdir()
    config = source.parent / "zero3.yaml"
    config.touch()
    line = launch_line.parse(
        "accelerate launch --config_file ../zero3.yaml train.py --ds=../zero3.yaml --out ../out --no ../no"
    )
    read = workplace.placed_line(line, str(source), tmp_path / "run")
    assert read.options == ("--config_file", str(config))
    assert read.program == "train.py"
    assert read.arguments == (f"--ds={config}", "--out", "../out", "--no", "../no")


def test_a_program_that_resolves_its_own_path_stays_in_the_copy(tmp_path: Path) -> None:
    source, run = tmp_path / "mine", tmp_path / "run"
    (source / "src").mkdir(parents=True)
    (source / "src" / "train.py").write_text("import pathlib\n")
    (source / "data.bin").write_bytes(b"1")
    (tmp_path / "shared.py").touch()
    (source / "linked.py").symlink_to(tmp_path / "shared.py")
    run.mkdir()
    made = workplace.make_workplace(run, str(source))
    assert (made / "src" / "train.py").resolve().is_relative_to(run)
    assert (made / "src" / "train.py").read_text() == "import pathlib\n"
    assert (made / "data.bin").resolve() == source / "data.bin"
    assert (made / "linked.py").resolve() == tmp_path / "shared.py"


def test_what_a_line_would_write_elsewhere_is_written_in_the_folder_of_the_run(tmp_path: Path) -> None:
    """Else the second release resumes from the first one's checkpoint."""
    run, mine = tmp_path / "run", tmp_path / "mine"
    mine.mkdir()
    (mine / "data.bin").touch()
    line = launch_line.parse(
        f"train.py --data {mine}/data.bin --output_dir={mine}/out --log {mine}/a/log.txt --prompt /no_think"
    )
    assert line.arguments[2] == f"--output_dir={mine}/out"
    placed = workplace.placed_line(line, str(mine), run).arguments
    assert placed[1] == f"{mine}/data.bin"
    assert placed[2] == f"--output_dir={run}/elsewhere{mine}/out"
    Path(placed[2].partition("=")[2]).mkdir()
    assert not (mine / "out").exists()
    assert placed[4] == f"{run}/elsewhere{mine}/a/log.txt"
    assert placed[6] == "/no_think"
    (mine / "out").mkdir()
    (mine / "out" / "old.bin").touch()
    lines = (f"train.py --output_dir {mine}/out", f"train.py --model {mine}/out")
    written, read = (
        workplace.placed_line(launch_line.parse(line), str(mine), tmp_path / "again").arguments[1] for line in lines
    )
    assert (written, read) == (f"{tmp_path}/again/elsewhere{mine}/out", f"{mine}/out")
    assert (Path(written) / "old.bin").is_file()
    assert not (Path(written) / "old.bin").is_symlink()  # without a view of its own, a run has copies
    assert workplace.as_typed(placed[4], run) == f"{mine}/a/log.txt"


def test_what_a_program_reaches_beside_its_folder_is_copied_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    source, run = tmp_path / "project" / "training", tmp_path / "run"
    for name in ("training", "data"):
        (tmp_path / "project" / name).mkdir(parents=True)
    (source / "train.py").write_text("sys.path.append('..'); open('../data/rows.bin')")
    (source.parent / "tools.py").write_text("x = 1")
    (source.parent / "data" / "rows.bin").write_bytes(b"1")
    run.mkdir()
    made = workplace.make_workplace(run, str(source))
    assert made == workplace.launch_folder(run) == run / "program" / "training"
    assert (made / "../tools.py").resolve().is_relative_to(run)
    assert (made / "../data/rows.bin").resolve() == source.parent / "data" / "rows.bin"
    assert workplace.path_beside(str(run / "program" / "data" / "x"), str(made)) == "../data/x"
    assert workplace.path_beside(str(run / "elsewhere"), str(made)) is None
    line = launch_line.parse("python train.py ../tools.py ../no.py")
    assert workplace.placed_line(line, str(source), run) == line


def test_links_to_themselves_and_to_nothing_and_files_of_others_are_there_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    (source / "loop.yaml").symlink_to("loop.yaml")
    (source / "gone.json").symlink_to("nowhere")
    (source / "above").symlink_to("..")
    os.mkfifo(source / "pipe.txt")
    (source / "secret.json").write_text("{}")
    (source / "secret.json").chmod(0)
    for number, kind in enumerate((isolation.VIEW, isolation.LANDLOCK)):
        run = tmp_path / f"run-{number}"
        made = run / "program"
        made.mkdir(parents=True)
        workplace._Mirror(in_view=kind == isolation.VIEW).fill(source, made)
        assert sorted(os.listdir(made)) == ["above", "gone.json", "loop.yaml", "pipe.txt", "secret.json"]
        assert all((made / name).is_symlink() for name in ("above", "gone.json", "loop.yaml", "pipe.txt"))


def test_without_a_view_linked_folders_are_made_anew_and_large_files_stay_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workplace, "_LARGEST_COPY_BYTES", 4)
    shares_blocks = workplace._shares_blocks
    monkeypatch.setattr(workplace, "_shares_blocks", lambda source, made: False)
    source, scratch, made = (tmp_path / name for name in ("mine", "scratch", "made"))
    for folder in (source, scratch, made):
        folder.mkdir()
    (source / "outputs").symlink_to(scratch)
    (scratch / "small.bin").write_bytes(b"1234")
    (scratch / "large.bin").write_bytes(b"12345")
    assert shares_blocks(str(scratch / "large.bin"), tmp_path / "shared") == (tmp_path / "shared").exists()
    workplace._Mirror(in_view=False).fill(source, made)
    assert not (made / "outputs").is_symlink()
    assert (made / "outputs" / "small.bin").is_symlink() is False
    assert (made / "outputs" / "small.bin").read_bytes() == b"1234"
    assert (made / "outputs" / "large.bin").resolve() == scratch / "large.bin"
