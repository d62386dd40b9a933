"""A line that a shell carries out comes to the launch line that it would start, and nothing else happens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dsregress.errors import UsageError
from dsregress.run.shell_launches import Launch, SeveralLaunches, launch_of_shell, needs_shell
from vgpu import isolation

SCRIPT = """#!/bin/bash
set -e
pip install -r requirements.txt
MODEL=${1:-gpt2}
export CUDA_VISIBLE_DEVICES=0,1
mkdir -p out
echo started > started.txt
python -m pip install trl
torchrun --nproc_per_node=$GPUS --nnodes=$NODES \\
    train.py --model "$MODEL" \\
    --name "a b" --out out/$(date +%Y) 2>&1 | tee out/log
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if shutil.which("bash") is None or isolation.strongest(tmp_path) == isolation.NONE:
        pytest.skip("no bash, or nothing keeps its files away here")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "run.sh").write_text(SCRIPT)
    (tmp_path / "scripts" / "two.sh").write_text(
        "for lr in 1 2; do deepspeed train.py --lr $lr --token hf_abcdefghijklmnopqrstu; done"
    )
    (tmp_path / "scripts" / "outer.slurm").write_text("srun -N 2 bash scripts/run.sh qwen")
    (tmp_path / "scripts" / "sweep.sh").write_text("wandb sweep x.yaml")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("torchrun train.py --n 1", False),
        ("A=1 python train.py", False),
        ("train.py '$(nproc) | x'", False),
        ("uv pip install x", False),
        ("srun.py", False),
        ("", False),
        ("python train.py 'a", False),
        ("bash run.sh", True),
        ("A=1 ./scripts/run.sh x", True),
        ("nohup python train.py", True),
        ("uv run train.py", True),
        ("python train.py --n $(nproc)", True),
        ("python train.py 2>&1 | tee log", True),
        ("export A=1\npython train.py", True),
    ],
)
def test_lines_that_need_a_shell(line: str, needs: bool) -> None:
    assert needs_shell(line) is needs


#: What `SCRIPT` comes to, without the ranks.
STARTED = "train.py --model gpt2 --name 'a b' --out out/1970"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "comes_to"),
    [
        ("python train.py --n $(echo 3) --x '$y' > log 2>&1 &", "python train.py --n 3 --x '$y'"),
        ("touch x; A=1 nohup accelerate launch train.py | tee log", "A=1 accelerate launch train.py"),
        ("uv run --frozen --with trl train.py --lr 1", "python train.py --lr 1"),
        ("conda run -n env python -m tools.train", "python -m tools.train"),
        ("GPUS=4 NODES=1 sh scripts/run.sh", f"torchrun --nproc_per_node=4 --nnodes=1 {STARTED}"),
        (
            "torchrun --master_addr $(hostname -I | awk '{print $1}') train.py",
            "torchrun --master_addr 127.0.0.1 train.py",
        ),
        ("export PATH=/opt/cuda/bin; echo; torchrun --nnodes=1 train.py", "torchrun --nnodes=1 train.py"),
        ("ray start --head; ray job submit --runtime-env-json='{\"a\": 1}' -- python -m t x=1", "python -m t x=1"),
        ("sbatch --wait scripts/outer.slurm", f"torchrun {STARTED.replace('gpt2', 'qwen')}"),
        ("python prepare.py; cd scripts && exec torchrun train.py", "torchrun train.py"),
    ],
)
def test_a_shell_line_comes_to_what_it_starts(line: str, comes_to: str, folder: Path) -> None:
    launch = launch_of_shell(line, folder)
    assert launch.line.removeprefix("CUDA_VISIBLE_DEVICES=0,1 ").removeprefix("GPUS=4 NODES=1 ") == comes_to
    assert launch.line.startswith("CUDA_VISIBLE_DEVICES=0,1 ") == ("scripts/" in line)
    assert launch.folder == str(folder / "scripts" if "cd scripts" in line else folder)


@pytest.mark.slow
def test_a_script_that_changes_to_a_folder_of_another_machine_starts_where_its_program_is(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "examples").mkdir()
    (folder / "examples" / "tune.py").touch()
    (folder / "scripts" / "tune.sh").write_text("cd /home/nobody/project\ntorchrun examples/tune.py")
    launch = launch_of_shell("bash tune.sh", folder / "scripts")
    assert (launch.line, launch.folder) == ("torchrun examples/tune.py", str(folder))


@pytest.mark.slow
def test_a_script_that_is_to_be_started_in_its_own_folder_starts_there(folder: Path) -> None:
    (folder / "scripts" / "tune.py").touch()
    (folder / "scripts" / "tune.sh").write_text("torchrun tune.py --out ./out")
    for line in ("bash scripts/tune.sh", "cd . && ./scripts/tune.sh"):
        (folder / "scripts" / "tune.sh").chmod(0o755)
        launch = launch_of_shell(line, folder)
        assert (launch.line, launch.folder) == ("torchrun tune.py --out ./out", str(folder / "scripts"))
    (folder / "tune.py").touch()
    assert launch_of_shell("bash scripts/tune.sh", folder).folder == str(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["bash log.sh", "torchrun train.py > logs/of/a.log 2>&1", "torchrun train.py 2>&1 | tee -a logs/of/a.log"]
)
def test_a_log_in_a_folder_that_is_not_there_hides_no_program(line: str, folder: Path) -> None:
    (folder / "log.sh").write_text("torchrun train.py \\\n  > ./logs/of/a.log 2>&1\n")
    assert launch_of_shell(line, folder).line == "torchrun train.py"
    assert not (folder / "logs").exists()


@pytest.mark.slow
def test_a_script_that_ends_without_a_token_starts_its_program(folder: Path) -> None:
    (folder / "token.sh").write_text("[ -z $HF_TOKEN ] && cat token && exit 1\n[ -z $HF_TOKEN ] || torchrun train.py\n")
    assert launch_of_shell("bash token.sh", folder).line == "torchrun train.py"


def test_a_job_of_slurm_is_its_first_task_on_as_many_nodes_as_it_asks_for(folder: Path) -> None:
    (folder / "job.slurm").write_text(
        "#!/bin/bash\n#SBATCH --nodes=4 # of 8\n"
        "head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        "srun torchrun --nnodes $SLURM_NNODES --node_rank $SLURM_NODEID --rdzv_endpoint $head:1 train.py"
    )
    said = "torchrun --nnodes {} --node_rank 0 --rdzv_endpoint localhost:1 train.py"
    assert launch_of_shell("sbatch job.slurm", folder).line == said.format(4)
    assert launch_of_shell("sbatch -N 2 job.slurm", folder).line == said.format(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", ["--ntasks 16 --gres gpu:8", "--ntasks=16 --label --gres=gpu:8", "-n 16 -l --exclusive", "--nodes 2 -u"]
)
def test_options_of_slurms_are_no_program(folder: Path, options: str) -> None:
    assert launch_of_shell(f"srun {options} python train.py --bf16", folder).line == "python train.py --bf16"


@pytest.mark.slow
def test_a_node_has_eight_cards_however_a_script_counts_them(folder: Path) -> None:
    for count in ("nvidia-smi -L", "nvidia-smi --query-gpu=name --format=csv,noheader", "nvidia-smi --list-gpus"):
        line = f"torchrun --nproc-per-node $({count} | wc -l) train.py"
        assert launch_of_shell(line, folder).line == "torchrun --nproc-per-node 8 train.py"


@pytest.mark.slow
def test_options_without_a_value_are_left_out_and_said(folder: Path) -> None:
    launch = launch_of_shell("bash scripts/run.sh", folder)
    assert (launch.line, launch.folder) == (f"CUDA_VISIBLE_DEVICES=0,1 torchrun {STARTED}", str(folder))
    assert launch.empty == ("--nproc_per_node=", "--nnodes=")


@pytest.mark.slow
def test_a_script_changes_no_file_of_the_user(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    launch_of_shell("echo x > scripts/two.sh; rm -r scripts/outer.slurm; bash scripts/run.sh", folder)
    assert sorted(folder.rglob("*")) == before
    assert "deepspeed" in (folder / "scripts" / "two.sh").read_text()


@pytest.mark.slow
def test_a_folder_below_the_project_stays_in_it(folder: Path) -> None:
    assert (
        launch_of_shell("export PYTHONPATH=$PWD/src:; python train.py", folder).line
        == "PYTHONPATH=src: python train.py"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("bash scripts/sweep.sh", "starts no program: it calls wandb"),
        ("bash scripts/absent.sh", "starts no program: scripts/absent.sh: No such file or directory"),
        ("false", None),
    ],
)
def test_a_line_that_comes_to_no_program_says_why(line: str, reason: str | None, folder: Path) -> None:
    with pytest.raises(UsageError) as refused:
        launch_of_shell(line, folder)
    hint = "write the line that it starts, e.g. 'torchrun train.py'"
    assert str(refused.value) == f"--program: {reason or 'starts no program'}; {hint}"


@pytest.mark.slow
def test_variables_that_nobody_sets_are_all_named_at_once(folder: Path) -> None:
    with pytest.raises(UsageError) as refused:
        launch_of_shell(
            "torchrun --master_port=$MASTER_PORT train.py --data ${ITS_DATA} --out ${ITS_OUTPUT} | tee log", folder
        )
    assert str(refused.value) == (
        "--program: no value for ITS_DATA, ITS_OUTPUT; "
        "write them before the line: 'ITS_DATA=VALUE ITS_OUTPUT=VALUE; torchrun ...'"
    )


@pytest.mark.slow
@pytest.mark.parametrize("starter", ["mpiexec -n 8", "mpirun -np 8"])
def test_a_starter_of_ranks_is_part_of_the_line(starter: str, folder: Path) -> None:
    launch = launch_of_shell(f'FLAGS="--lr 1"; {starter} python train.py $FLAGS', folder)
    assert launch.line == f"{starter} python train.py --lr 1"


@pytest.mark.slow
def test_variables_of_a_machine_are_those_of_one_node(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODE_RANK", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    launch = launch_of_shell(
        "OUT=made; torchrun --node_rank=${NODE_RANK} --master_addr=$MASTER_ADDR train.py --out $OUT", folder
    )
    assert launch.line == "torchrun --node_rank=0 --master_addr=localhost train.py --out made"
    assert launch.filled == (("NODE_RANK", "0"), ("MASTER_ADDR", "localhost"))
    monkeypatch.setenv("NODE_RANK", "1")
    assert "--node_rank=1" in launch_of_shell("torchrun --node_rank=${NODE_RANK} train.py", folder).line


@pytest.mark.slow
def test_a_line_that_comes_to_several_programs_has_their_lines_without_secrets(folder: Path) -> None:
    with pytest.raises(SeveralLaunches) as refused:
        launch_of_shell("bash scripts/two.sh", folder)
    assert str(refused.value) == "--program: starts 2 programs; give one of these lines"
    assert refused.value.lines == [f"deepspeed train.py --lr {lr} --token ***" for lr in (1, 2)]


@pytest.mark.slow
def test_the_first_of_several_lines_stands_for_them_if_one_program_trains(folder: Path) -> None:
    (folder / "prepare.py").write_text("import json, helper\n")
    (folder / "helper.py").touch()
    (folder / "train.py").write_text("def main():\n    from helper_of_training import step\n")
    (folder / "helper_of_training.py").write_text("import torch\n")
    (folder / "folds.sh").write_text(
        "python prepare.py; for n in 1 2; do python train.py --fold $n; done; python prepare.py"
    )
    with pytest.raises(SeveralLaunches) as refused:
        launch_of_shell("bash folds.sh", folder)
    assert refused.value.first_that_trains() == Launch("python train.py --fold 1", str(folder))
    (folder / "helper.py").write_text("import torch\n")
    assert refused.value.first_that_trains() is None


@pytest.mark.slow
def test_a_script_that_waits_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsregress.run.shell_launches._TIMEOUT_S", 1)
    with pytest.raises(UsageError, match="had not started its program after 1 s"):
        launch_of_shell("sleep 30 & sleep 30", folder)


def test_files_that_a_script_writes_before_its_line_are_part_of_the_launch(folder: Path) -> None:
    (folder / "base.yaml").write_text("lr: 1\nbatch: 8\n")
    (folder / "scripts" / "config.sh").write_text(
        "mkdir -p conf/made\ncat > conf/made/ds.json <<EOF\n"
        '{"train_micro_batch_size_per_gpu": ${BATCH:-4}}\nEOF\n'
        "sed -i 's/lr: 1/lr: 2/' base.yaml\necho began > out.log\n"
        "deepspeed train.py --deepspeed_config conf/made/ds.json 2>&1 | tee run.txt\n"
    )
    launch = launch_of_shell("bash scripts/config.sh", folder)
    assert dict(launch.written) == {
        "base.yaml": "lr: 2\nbatch: 8\n",
        "conf/made/ds.json": '{"train_micro_batch_size_per_gpu": 4}\n',
    }
    assert not (folder / "conf").exists()
    assert (folder / "base.yaml").read_text() == "lr: 1\nbatch: 8\n"
    assert launch_of_shell("bash scripts/run.sh", folder).written == (("started.txt", "started\n"),)


MAKES_A_CONFIG = (
    "import json, sys\nfrom sizes import BATCH\njson.dump({'batch': BATCH, 'lr': sys.argv[1]}, open('ds.json', 'w'))\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "python make_config.py 1e-4 && deepspeed train.py --deepspeed ds.json",
        "python3 -u make_config.py 1e-4; python train.py --deepspeed ds.json",
    ],
)
def test_settings_that_a_script_of_python_writes_before_the_line_are_part_of_the_launch(
    folder: Path, line: str
) -> None:
    (folder / "make_config.py").write_text(MAKES_A_CONFIG)
    (folder / "sizes.py").write_text("BATCH = 4\n")
    (folder / "train.py").write_text("import torch\n")
    try:
        launch = launch_of_shell(line, folder)
    except SeveralLaunches as several:
        launch = several.first_that_trains()
    assert launch is not None
    assert "train.py --deepspeed ds.json" in launch.line
    assert dict(launch.written) == {"ds.json": '{"batch": 4, "lr": "1e-4"}'}
    assert not (folder / "ds.json").exists()


@pytest.mark.parametrize(
    ("script", "written"),
    [
        ("open('ds.json', 'w').write('{}')", True),
        ("open('ds.json', 'w').write('{}')\nraise SystemExit(1)", True),
        ("import torch\nopen('ds.json', 'w').write('{}')", False),
        ("import urllib.request\nopen('ds.json', 'w').write('{}')", False),
        ("from helper import x\nopen('ds.json', 'w').write('{}')", False),
    ],
)
def test_a_script_of_python_is_run_if_the_standard_library_suffices_and_always_succeeds(
    folder: Path, script: str, written: bool
) -> None:
    (folder / "make_config.py").write_text(script)
    (folder / "helper.py").write_text("import numpy\nx = 1\n")
    launch = launch_of_shell("python make_config.py && torchrun train.py", folder)
    assert (launch.line, bool(launch.written)) == ("torchrun train.py", written)


def test_numbers_that_python_prints_are_in_the_line(folder: Path) -> None:
    line = """torchrun --nproc_per_node $(python -c "import torch; print(torch.cuda.device_count())") train.py \\
        --batch $(python -c 'import sys; print(2 * int(sys.argv[1]))' 8) --port $(echo 'print(29500)' | python -)"""
    assert launch_of_shell(line, folder).line == "torchrun --nproc_per_node 8 train.py --batch 16 --port 29500"


def test_a_script_of_python_that_starts_a_program_comes_to_its_line(folder: Path) -> None:
    (folder / "launch.py").write_text(
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--nproc_per_node', '2', 'train.py'], check=True)\n"
    )
    launch = launch_of_shell("python launch.py > log", folder)
    assert launch.line == "python -m torch.distributed.run --nproc_per_node 2 train.py"
