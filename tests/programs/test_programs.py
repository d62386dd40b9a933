"""Programs as people write them, unmodified, as cells: on real ranks and in the simulation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dsregress.programs.launch import missing_imports
from tests.paths import ROOT, SOURCE
from tests.programs.cells import passed, ran
from vgpu.device.card import VirtualCard

pytestmark = pytest.mark.usefixtures("surroundings")

WORKSPACE = VirtualCard().blas_workspace_bytes

PLAIN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(0)
for step in range(20):
    for micro_batch in range(2):
        loss = model(torch.randn(4, 64).cuda()).pow(2).mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
"""

DEEPSPEED = """
import argparse, torch, deepspeed
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.add_argument("--stage", type=int)
stage = parser.parse_args().stage
deepspeed.init_distributed()
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
config = {
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "bf16": {"enabled": True},
    "zero_optimization": {"stage": stage, "reduce_bucket_size": 50000, "stage3_param_persistence_threshold": 0},
}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
torch.manual_seed(0)
while True:
    loss = engine(torch.randn(2, 64, dtype=torch.bfloat16).to(engine.device)).float().pow(2).mean()
    engine.backward(loss)
    engine.step()
"""


def test_plain_pytorch_has_its_phases_on_a_cpu(folder: Path) -> None:
    (folder / "train.py").write_text(PLAIN)
    record = passed(ran(folder, "cpu", 1, "python train.py"))
    phases = record.ranks[0].phases
    assert list(phases) == ["init", "forward", "backward", "step"]
    weights = (64 * 256 + 256 + 256 * 64 + 64) * 4
    assert phases["init"].device_retained_bytes >= weights
    assert phases["backward"].device_retained_bytes >= 4 * weights  # gradients and both moments
    assert all(reading.host_calls for phase, reading in phases.items() if phase != "init")
    numerics = record.ranks[0].numerics
    assert numerics is not None
    assert len(numerics.losses) == 3
    assert numerics.note == ""
    for error in (numerics.loss_error, numerics.gradient_norm_error, numerics.parameter_error):
        assert error is not None
        assert error < 1  # as plain PyTorch in fp32 has it


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_the_learning_rate_of_each_step_is_the_one_it_was_taken_with(folder: Path, device: str) -> None:
    schedule = "schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 8)"
    scheduled = PLAIN.replace("torch.manual_seed(0)", schedule).replace(
        "optimizer.step()", "optimizer.step(); schedule.step()"
    )
    (folder / "train.py").write_text(scheduled)
    numerics = passed(ran(folder, device, 1, "python train.py")).ranks[0].numerics
    assert numerics is not None
    first = [1e-3 * (step + 1) / 8 for step in range(3)]
    assert numerics.learning_rates == [[rate] for rate in first[: 3 if device == "cpu" else 2]]
    assert numerics.weight_bits == [32] * len(numerics.learning_rates)


AS_A_SCENARIO = """
from dsregress.probe.program import program
SCENARIO = program(version=1, folder="programs", line="python train.py {more}", values={"more": ""}, packages=%r)
"""


@pytest.mark.parametrize(("packages", "said"), [({}, "1 passed"), ({"nobodys-package": ""}, "1 skipped")])
def test_a_scenario_of_a_program_runs_under_plain_pytest(tmp_path: Path, packages: dict[str, str], said: str) -> None:
    folder = tmp_path / "scenarios"
    (folder / "programs").mkdir(parents=True)
    for name in ("__init__.py", "models.py", "test_scenarios.py"):
        (folder / name).write_text((ROOT / "scenarios" / name).read_text())
    (folder / "programs" / "train.py").write_text(PLAIN)
    (folder / "toy.py").write_text(AS_A_SCENARIO.replace('"programs"', repr(str(folder / "programs"))) % packages)
    command = [sys.executable, "-m", "pytest", "scenarios", "-q", "--import-mode=importlib", "-p", "no:cacheprovider"]
    paths = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])}
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True, timeout=300
    )
    assert said in done.stdout, done.stdout


def test_a_program_that_seeds_nothing_trains_alike_in_every_run(folder: Path) -> None:
    (folder / "train.py").write_text(PLAIN.replace("torch.manual_seed(0)", ""))
    runs = [passed(ran(folder, "cpu", 1, "python train.py")).ranks[0].numerics for _ in range(2)]
    assert runs[0] == runs[1]


def test_plain_pytorch_that_says_cuda_is_on_the_virtual_card_in_sim(folder: Path) -> None:
    (folder / "train.py").write_text(PLAIN)
    phases = passed(ran(folder, "sim", 1, "train.py")).ranks[0].phases
    weights = (64 * 256 + 256 + 256 * 64 + 64) * 4
    assert phases["backward"].device_retained_bytes >= 4 * weights
    assert phases["backward"].flops


@pytest.mark.parametrize("stage", [1, 3])
def test_a_deepspeed_program_is_the_same_to_the_byte_in_sim_and_on_ranks(folder: Path, stage: int) -> None:
    pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(DEEPSPEED)
    line = f"deepspeed --num_gpus 2 train.py --stage {stage}"
    on_ranks = passed(ran(folder, "cpu", 2, line)).ranks[0].phases
    simulated = passed(ran(folder, "sim", 2, line)).ranks[0].phases
    for phase in ("forward", "backward", "step"):
        cpu, sim = on_ranks[phase], simulated[phase]
        assert sim.collectives == cpu.collectives
        assert sim.flops == cpu.flops
        # On ranks there is no cuBLAS, of which each of two threads has a workspace; Adam's step count is on the host.
        assert sim.device_retained_bytes - 2 * WORKSPACE == cpu.device_retained_bytes - 4


def test_any_rank_is_simulated_and_says_which(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os, torch\nrank = int(os.environ['RANK'])\nkept = torch.empty(1000 * rank, device='cuda')\n" + PLAIN
    )
    one = passed(ran(folder, "sim", 8, "torchrun train.py", rank="5"))
    assert [rank.rank for rank in one.ranks] == [5]
    kinds = passed(ran(folder, "sim", 8, "torchrun train.py", rank="all-kinds"))
    assert [rank.rank for rank in kinds.ranks] == [0, 1, 4, 7]
    held = [rank.phases["step"].device_retained_bytes for rank in kinds.ranks]
    assert held[3] - held[0] == pytest.approx(28_000, abs=1024)


@pytest.mark.parametrize(
    ("program", "signature"),
    [
        (
            "print('nothing')\n",
            "ProgramError: train.py ended without an optimizer step: one that only generates or scores is measured with "
            "--inference",
        ),
        (
            "import torch\nfor _ in range(3):\n    torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()\n",
            "ProgramError: train.py ended after 3 backward passes and no optimizer step, and 2 are needed",
        ),
        (
            PLAIN.replace("range(20)", "range(1)"),
            "ProgramError: train.py ended after 1 optimizer step, and 2 are needed",
        ),
        ("import sys\nsys.exit(3)\n", "ProgramError: train.py exits with 3"),
        (
            "from argparse import ArgumentParser as P\np = P()\np.add_argument('--lr', required=True)\np.parse_args()\n",
            "ProgramError: train.py exits with 2: train.py: error: the following arguments are required: --lr",
        ),
        (
            "import sys, warnings\nwarnings.warn('old')\nprint('run `pip install absent-one[app]`')\nsys.exit(1)\n",
            "CannotRun: run `pip install absent-one[app]`: give --with absent-one",
        ),
        ("def inner():\n    raise KeyError('text')\ninner()\n", "KeyError: 'text'"),
    ],
)
def test_a_program_that_does_not_train_is_one_line(folder: Path, program: str, signature: str) -> None:
    (folder / "train.py").write_text(program)
    record = ran(folder, "sim", 1, "train.py")
    assert record.outcome == "failed"
    assert record.signature.startswith(signature)


@pytest.mark.parametrize(
    ("program", "needs"),
    [
        (
            "import absent_one\n",
            "lacks the module 'absent_one': add its package with --with PACKAGE",
        ),
        (
            "import torch, absent_two\nfrom absent_one import x\n",
            "lacks the modules 'absent_two', 'absent_one': add their packages with --with PACKAGE",
        ),
        (
            "import beside\n",
            "imports 'beside' of the folder that it is launched in: write PYTHONPATH=. before the line",
        ),
        ("import own.model\n", "imports 'own' of the folder src: write PYTHONPATH=src before the line"),
        ("import data\n", "lacks the module 'data': add its package with --with PACKAGE"),
        (
            "import cv2, absent_two\n",
            "lacks the modules 'cv2', 'absent_two': add --with opencv-python-headless, and with --with PACKAGE that of "
            "'absent_two'",
        ),
        (
            "if 1:\n    import cv2\nimport lightning\n",
            "lacks the modules 'cv2', 'lightning': add --with opencv-python-headless --with lightning",
        ),
    ],
)
def test_modules_that_the_environment_lacks_say_nothing_of_a_release(folder: Path, program: str, needs: str) -> None:
    for name in ("beside", "code", "data", "src", "src/own"):
        (folder / name).mkdir()
    for name in ("beside/part.py", "data/train.json", "src/own/model.py"):
        (folder / name).touch()
    (folder / "code" / "train.py").write_text(program)
    record = ran(folder, "sim", 1, "python code/train.py")
    assert (record.outcome, record.stage) == ("failed", "import")
    assert record.signature == f"CannotRun: code/train.py {needs}"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of installed packages."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.setattr(missing_imports, "LIBRARIES", (f"{packages}{os.sep}",))
    monkeypatch.syspath_prepend(str(packages))
    return packages


def test_what_a_package_imports_undeclared_when_it_is_loaded_is_a_fault_of_its_release(
    folder: Path, installed: Path
) -> None:
    (installed / "undeclaring.py").write_text("import absent_three\n")
    (installed / "lazily.py").write_text(
        "try:\n    import undeclaring\nexcept ImportError as error:\n"
        "    raise RuntimeError(f'Failed to import undeclaring:\\n{error}') from error\n"
    )
    for module in ("undeclaring", "lazily"):
        (folder / "train.py").write_text(f"import {module}\n")
        record = ran(folder, "sim", 1, "train.py")
        assert "No module named 'absent_three'" in record.signature
        assert (record.outcome, record.stage) == ("failed", "init")
        assert not record.signature.startswith("CannotRun")


@pytest.mark.parametrize(
    "package",
    [
        "def call():\n    import absent_three\ncall()\n",
        "try:\n    import absent_three\nexcept ImportError:\n    raise ImportError('pip install absent-three') from None\n",
        "import triton\n",
    ],
    ids=["for a call", "in its own words", "of a GPU"],
)
def test_what_a_package_leaves_to_its_user_says_nothing_of_its_release(
    folder: Path, installed: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / "optional.py").write_text(package)
    (folder / "train.py").write_text("import optional\n")
    record = ran(folder, "cpu", 1, "python train.py")
    assert (record.outcome, record.stage) == ("failed", "import")
    assert record.signature.startswith("CannotRun: ")


@pytest.mark.parametrize("line", ["python -m ours.run", "python train.py"])
def test_a_module_that_an_importer_does_not_find_is_found_in_the_project(folder: Path, line: str) -> None:
    for name in ("examples/pretrain", "src/ours", "examples/pretrain/hydra"):
        (folder / name).mkdir(parents=True)
    (folder / "setup.py").touch()
    for name in ("src/ours/__init__.py", "src/ours/run.py", "examples/ours/prepare.py"):  # the latter is no package
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    at = folder / "examples" / "pretrain"
    (at / "hydra" / "errors.py").write_text("class InstantiationException(Exception): pass\n")
    (at / "train.py").write_text(
        "from hydra.errors import InstantiationException\n"
        "try:\n    import ours.run\n"
        "except ImportError as error:\n    raise InstantiationException('Error locating target') from error\n"
    )
    record = ran(at, "sim", 1, line)
    assert record.signature.endswith(
        "imports 'ours' of its project's ../../src: write PYTHONPATH=../../src before the line"
    )


def test_an_importers_words_are_not_the_reason(folder: Path) -> None:
    (folder / "hydra").mkdir()
    (folder / "hydra" / "errors.py").write_text("class InstantiationException(Exception): pass\n")
    (folder / "train.py").write_text(
        "from hydra.errors import InstantiationException\n"
        "try:\n    raise RuntimeError('no such layer')\n"
        "except RuntimeError as error:\n    raise InstantiationException('Error in call to target') from error\n"
    )
    assert ran(folder, "sim", 1, "python train.py").signature == "RuntimeError: no such layer"


def test_a_variable_that_is_not_set_is_named(folder: Path) -> None:
    (folder / "train.py").write_text("import os\nos.environ['HUB_TOKEN_OF_OURS']\n")
    assert ran(folder, "sim", 1, "python train.py").signature == (
        "CannotRun: train.py:2 reads the variable HUB_TOKEN_OF_OURS, which is not set: write HUB_TOKEN_OF_OURS=VALUE before "
        "the line"
    )


@pytest.mark.parametrize(
    "said",
    [
        "pass an `api_key`, `admin_api_key`, or set the `KEY_OF_OURS` or `ADMIN_KEY` environment variable.",
        "either by passing api_key to the client or by setting the KEY_OF_OURS environment variable",
        "Please set environment variable KEY_OF_OURS",
    ],
)
def test_a_variable_that_a_package_asks_for_is_named(folder: Path, said: str) -> None:
    (folder / "train.py").write_text(f"raise RuntimeError({said!r})\n")
    assert ran(folder, "sim", 1, "python train.py").signature == (
        "CannotRun: train.py:1 needs the variable KEY_OF_OURS, which is not set: write KEY_OF_OURS=VALUE before the line"
    )


def test_a_variable_that_would_only_tell_more_is_not_asked_for(folder: Path) -> None:
    said = (
        "A parameter was not used. In addition, you can set the environment variable KEY_OF_OURS to INFO to print more."
    )
    (folder / "train.py").write_text(f"raise RuntimeError({said!r})\n")
    assert "KEY_OF_OURS=VALUE" not in ran(folder, "sim", 1, "python train.py").signature


def test_all_variables_that_the_rest_of_the_file_reads_are_named_at_once(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os\nif len(os.environ) < 1: os.environ['EARLIER']\nos.environ['WRITTEN'] = os.environ['PATH']\n"
        "entity = os.environ['ENTITY_OF_OURS']\nproject = os.environ['PROJECT_OF_OURS']\n"
    )
    assert ran(folder, "sim", 1, "python train.py").signature == (
        "CannotRun: train.py:4 reads the variables ENTITY_OF_OURS, PROJECT_OF_OURS, which are not set: write "
        "ENTITY_OF_OURS=VALUE PROJECT_OF_OURS=VALUE before the line"
    )


@pytest.mark.parametrize(
    "asks",
    [
        "lines, columns = os.popen('stty size', 'r').read().split()",
        "lines, columns = subprocess.check_output(['stty', 'size']).split()",
        "columns, lines = os.get_terminal_size()",
    ],
)
def test_a_rank_has_a_terminal_of_the_usual_size(folder: Path, asks: str) -> None:
    source = (
        f"import os, subprocess\n{asks}\nassert (int(lines), int(columns)) == (24, 80)\nraise RuntimeError('asked')\n"
    )
    (folder / "train.py").write_text(source)
    assert ran(folder, "sim", 1, "python train.py").signature.startswith("RuntimeError: asked")


def test_of_many_modules_that_the_environment_lacks_the_detail_names_all(folder: Path) -> None:
    names = [f"absent_{number:02}" for number in range(40)]
    (folder / "train.py").write_text("".join(f"import {name}\n" for name in names))
    record = ran(folder, "sim", 1, "train.py")
    named = ", ".join(map(repr, names[:17]))
    assert record.signature == (
        f"CannotRun: train.py lacks the modules {named} and 23 more: add their packages with --with PACKAGE"
    )
    assert record.log_tail.splitlines()[-1] == f"All 40: {', '.join(map(repr, names))}"


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (
            "raise ImportError('Tok requires the SomePiece library but it was not found in your environment. Check ...')",
            "CannotRun: Tok requires the SomePiece library but it was not found in your environment: give --with somepiece",
        ),
        (
            "cause = ImportError('Install the library by pip install absent-pretty')\n"
            "raise RuntimeError('Failed to import trl.x because of the following error (look up to see it):') from cause",
            "CannotRun: Install the library by pip install absent-pretty: give --with absent-pretty",
        ),
        (
            "from transformers import AutoModel\nAutoModel.from_pretrained('nobody/nothing')",
            "NotHere: train.py:2: nobody",
        ),
        (
            "import transformers as t\nt.Wav2Vec2FeatureExtractor.from_pretrained('nobody/nothing')",
            "NotHere: train.py:2: nobody",
        ),
        ("input('Which?')", "StartedError: the program asks for input"),
        (  # as hydra does
            "import sys\ntry:\n    input('Which?')\nexcept Exception as error:\n    print(error)\n    sys.exit(1)",
            "StartedError: the program asks for input",
        ),
        (
            "import multiprocessing\ndef its_optimizer_worker(): pass\n"
            "its_optimizer_worker.__module__ = 'deepspeed.runtime.somewhere'\n"
            "multiprocessing.Process(target=its_optimizer_worker).start()",
            "StartedError: train.py:4: an optimizer in a process of its own is not measured: leave out",
        ),
        (
            "import torch\ntorch.load('out/x.pt')",
            "CannotRun: train.py:2: there is no out/x.pt where the program is launched",
        ),
        ("open('/nowhere/x.txt')", "CannotRun: train.py:1: there is no .../x.txt on this machine"),
        (
            "import transformers as t\nt.TrainingArguments(output_dir='x', deepspeed='ds/z.json')",
            "CannotRun: train.py:2: there is no ds/z.json where the program is launched",
        ),
        (
            "import transformers as t\nt.AutoModelForCausalLM.from_pretrained('/nowhere/llama')",
            "CannotRun: train.py:2: there is no .../llama on this machine",
        ),
        (
            "import transformers as t\nt.AutoModelForCausalLM.from_pretrained('out/stage1/llama')",
            "CannotRun: train.py:2: there is no out/stage1/llama where the program is launched",
        ),
        (
            "import socket\nsocket.create_connection(('pypi.org', 443))",
            "CannotRun: train.py:2: no connection to pypi.org",
        ),
    ],
)
def test_what_is_not_here_says_nothing_of_a_release(folder: Path, program: str, says: str) -> None:
    (folder / "train.py").write_text(program)
    record = ran(folder, "sim", 1, "train.py")
    assert (record.outcome, record.stage) == ("failed", "import")
    assert record.signature.startswith(says)


@pytest.mark.parametrize(
    ("program", "lacks"),
    [
        (
            "import torch\ntorch.cuda.get_device_properties(0).clock_rate",
            "torch.cuda.get_device_properties().clock_rate",
        ),
        ("import torch\ntorch.cuda.caching_allocator_alloc(8)", "torch._C._cuda_cudaCachingAllocator_raw_alloc"),
        ("from flash_attn import flash_attn_of_tomorrow as f\nf()", "flash_attn.flash_attn_of_tomorrow"),
        ("import flash_attn.modules.mha as mha\nmha.MHA(64)", "flash_attn.modules.mha.MHA"),
        ("from flash_attn.ops import fused_dense as f\nf.Dense()", "flash_attn.ops.fused_dense.Dense"),
        ("from flash_attn.ops import Fused\nFused()", "flash_attn.ops.Fused"),
        (
            "from deepspeed.ops.op_builder import CPUAdamBuilder\nkernel = CPUAdamBuilder().load()\n"
            "assert not hasattr(kernel, 'of_tomorrow')\nkernel.of_tomorrow()",
            "DeepSpeed's cpu_adam.of_tomorrow",
        ),
        ("from deepspeed.ops.op_builder import FPQuantizerBuilder as B\nB().load()", "DeepSpeed's kernel"),
    ],
)
def test_what_a_stand_in_lacks_says_nothing_of_a_release(folder: Path, program: str, lacks: str) -> None:
    if "deepspeed" in program:
        pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(program)
    record = ran(folder, "cpu", 1, "train.py")
    assert (record.outcome, record.stage) == ("failed", "harness")
    assert record.signature.startswith(f"NoStandInError: {lacks} has no stand-in: leave out what needs it, or run on")


BEFORE_ITS_CARD = """
import os, torch
rank = int(os.environ["LOCAL_RANK"])
model = torch.nn.Linear(4096, 8192, bias=False).to({where})
torch.cuda.set_device(rank)
model = model.cuda()
optimizer = torch.optim.SGD(model.parameters())
while True:
    model(torch.ones(1, 4096, device="cuda")).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("where", "notes"),
    [
        (
            "'cuda'",
            [
                "each of the 2 ranks of a node puts 0.1 GiB on GPU 0 before torch.cuda.set_device, 0.2 GiB in all; "
                "the figures are those of a rank alone"
            ],
        ),
        ("f'cuda:{rank}'", []),
    ],
)
def test_what_every_rank_puts_on_the_first_card_is_said(folder: Path, where: str, notes: list[str]) -> None:
    (folder / "train.py").write_text(BEFORE_ITS_CARD.replace("{where}", where))
    assert passed(ran(folder, "sim", 2, "torchrun train.py")).ranks[0].notes == notes


TELLS = """
import os, sys
told = sorted(name for name in os.environ if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"))
sys.exit(" ".join(told) or "nothing")
"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("python train.py", "nothing"),
        ("torchrun train.py", "LOCAL_RANK MASTER_PORT RANK WORLD_SIZE"),
        (
            "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_PORT=29500 python train.py",
            "LOCAL_RANK MASTER_PORT RANK WORLD_SIZE",
        ),
        ("accelerate launch --num_processes 1 train.py", "nothing"),
    ],
)
def test_only_a_launcher_tells_a_program_its_rank(folder: Path, line: str, told: str) -> None:
    if line.startswith("accelerate"):
        pytest.importorskip("accelerate")
    (folder / "train.py").write_text(TELLS)
    assert ran(folder, "cpu", 1, line).signature == f"ProgramError: train.py exits with '{told}'"


def test_one_of_several_ranks_gets_its_rank_from_whatever_started_it(folder: Path) -> None:
    (folder / "train.py").write_text(TELLS)
    assert "LOCAL_RANK" in ran(folder, "cpu", 2, "python train.py").signature


@pytest.mark.parametrize(
    "asks",
    [
        "import torch\ntorch.distributed.init_process_group('gloo')",
        "import deepspeed\ndeepspeed.init_distributed()",
        "import os\nos.environ['LOCAL_RANK']",
    ],
)
def test_a_program_that_asks_for_a_rank_that_nobody_tells_is_to_be_started_by_a_launcher(
    folder: Path, asks: str
) -> None:
    if "deepspeed" in asks:
        pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(asks)
    record = ran(folder, "cpu", 1, "python train.py")
    assert (record.outcome, record.stage) == ("failed", "import")
    assert record.signature == (
        "CannotRun: train.py asks for its rank, and no launcher gives it one: start it by torchrun or deepspeed"
    )


def test_a_program_that_tiny_cannot_shrink_is_one_line(folder: Path) -> None:
    (folder / "train.py").write_text(PLAIN)
    signature = ran(folder, "sim", 1, "train.py", tiny=True).signature
    assert signature.startswith("ProgramError: train.py builds no model from a configuration class")


def test_a_traceback_points_into_the_users_file(folder: Path) -> None:
    (folder / "train.py").write_text("import library\nlibrary.boom()\n")
    (folder / "library.py").write_text("\n\ndef boom():\n    raise ValueError('here')\n")
    record = ran(folder, "cpu", 1, "train.py")
    assert 'File "train.py", line 2, in <module>' in record.log_tail
    assert 'library.py", line 4, in boom' in record.log_tail


def test_what_a_program_writes_reaches_no_file_of_the_users(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "log.txt").write_text("mine\n")
    (folder / "train.py").write_text(
        "import os\n"
        "assert open('data/log.txt').read() == 'mine\\n'\n"
        "open('data/log.txt', 'a').write('more')\n"
        "assert open('data/log.txt').read() == 'mine\\nmore'\n"
        "open('new.txt', 'w').write('x')\n"
        "os.makedirs('out/checkpoint')\n" + PLAIN
    )
    passed(ran(folder, "cpu", 1, "train.py"))
    assert sorted(os.listdir(folder)) == ["data", "train.py"]
    assert (folder / "data" / "log.txt").read_text() == "mine\n"


def test_a_program_that_catches_everything_is_ended_all_the_same(folder: Path) -> None:
    body = "".join(f"    {line}\n" for line in PLAIN.strip().splitlines())
    (folder / "train.py").write_text(f"try:\n{body}except Exception:\n    print('caught')\nprint('never')\n")
    passed(ran(folder, "cpu", 1, "train.py"))


def test_arguments_and_variables_reach_the_program(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os, sys\n"
        "assert sys.argv == ['train.py', '--lr', '2'], sys.argv\n"
        "assert os.environ['MINE'] == 'x y'\n" + PLAIN
    )
    passed(ran(folder, "cpu", 1, "MINE='x y' python train.py --lr {lr}", lr=2))


@pytest.mark.parametrize("path", ["src", "../library"])
def test_a_path_of_modules_before_the_launcher_is_searched(folder: Path, path: str) -> None:
    (folder / path).mkdir()
    (folder / path / "mine.py").write_text("size = 64\n")
    (folder / "jobs").mkdir()
    (folder / "jobs" / "train.py").write_text("import mine\n" + PLAIN)
    passed(ran(folder, "sim", 1, f"PYTHONPATH={path} torchrun jobs/train.py"))


def test_a_module_of_the_users_is_launched_by_its_name(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "job.py").write_text(PLAIN)
    passed(ran(folder, "cpu", 1, "python -m package.job"))


def test_accelerates_own_configuration_file_says_how_its_ranks_start(folder: Path) -> None:
    pytest.importorskip("accelerate")
    (folder / "zero.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\n"
        "num_processes: 2\nuse_cpu: false\ndeepspeed_config:\n  zero_stage: 2\n  gradient_accumulation_steps: 3\n"
    )
    (folder / "train.py").write_text(
        "import os\n"
        "assert os.environ['ACCELERATE_USE_DEEPSPEED'] == 'true'\n"
        "assert os.environ['ACCELERATE_DEEPSPEED_ZERO_STAGE'] == '2'\n"
        "assert os.environ['ACCELERATE_MIXED_PRECISION'] == 'bf16'\n" + PLAIN
    )
    passed(ran(folder, "cpu", 2, "accelerate launch --config_file zero.yaml train.py"))


def test_new_tokens_get_embeddings_in_sim(folder: Path) -> None:
    pytest.importorskip("transformers")
    (folder / "train.py").write_text(
        "import torch, transformers\n"
        "sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4, vocab_size=96)\n"
        "model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).cuda()\n"
        "model.resize_token_embeddings(104)\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "while True:\n"
        "    ids = torch.arange(96, 104, device='cuda')[None]\n"
        "    model(input_ids=ids, labels=ids).loss.backward()\n"
        "    optimizer.step()\n"
    )
    passed(ran(folder, "sim", 1, "train.py"))


def test_an_explained_program_names_the_lines_that_hold_its_memory(folder: Path) -> None:
    (folder / "train.py").write_text(PLAIN)
    run = folder.parent / "explained"
    record = passed(ran(folder, "sim", 1, "train.py", run=run, explain=True))
    assert '"train.py:' in (run / "explanation.json").read_text()
    assert record.detail.configuration["optimizer"] == "AdamW"


def test_an_engines_own_configuration_is_told_from_deepspeeds_defaults(folder: Path) -> None:
    pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(DEEPSPEED)
    record = passed(ran(folder, "sim", 2, "torchrun --nproc_per_node 2 train.py --stage 3"))
    given = record.detail.deepspeed_config
    assert given["zero_optimization.stage"] == record.detail.configuration["deepspeed.zero_config.stage"]
    assert "zero_optimization.overlap_comm" not in given  # which has a default


PIPELINE = """
import argparse, torch, deepspeed
from deepspeed.pipe import PipelineModule, LayerSpec
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.parse_args()
deepspeed.init_distributed("nccl")
layers = [LayerSpec(torch.nn.Linear, 64, 64, bias=False) for _ in range(4)]
net = PipelineModule(layers=layers, loss_fn=torch.nn.MSELoss(), num_stages=2, activation_checkpoint_interval=0)
data = [(torch.randn(64), torch.randn(64)) for _ in range(64)]
config = {
    "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "steps_per_print": 100,
    "optimizer": {"type": "Adam", "params": {}},
}
engine, _, _, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), training_data=data, config=config)
while True:
    engine.train_batch()
"""


def test_a_pipeline_has_the_phases_of_its_micro_batches(folder: Path) -> None:
    pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(PIPELINE)
    record = ran(folder, "sim", 2, "deepspeed --num_gpus 2 train.py")
    assert record.outcome == "passed", record.signature
    phases = record.ranks[0].phases
    assert set(phases) == {"init", "forward", "backward", "step"}
    assert phases["forward"].collectives["send"][0] == phases["forward"].collectives["recv"][0] + 1 == 4
    assert phases["step"].op_launches > 0


def test_a_later_stage_of_a_pipeline_learns_what_the_stages_before_it_send(folder: Path) -> None:
    pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(PIPELINE.replace("num_stages=2", "num_stages=4"))
    record = passed(ran(folder, "sim", 4, "deepspeed --num_gpus 4 train.py", rank="3"))
    (last,) = record.ranks
    assert last.rank == 3
    assert sum(last.phases[phase].collectives["recv"][0] for phase in ("forward", "backward")) == 4


WAITING = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
length = torch.zeros(1, dtype=torch.int64, device="cuda")
if os.environ["RANK"] == "0":
    raise ValueError("no data")
dist.recv(length, 0)
print(length.item())
"""


def test_a_rank_that_waits_for_one_that_fails_says_for_what(folder: Path) -> None:
    (folder / "train.py").write_text(WAITING)
    signature = ran(folder, "sim", 2, "torchrun train.py", rank="1").signature
    assert "rank 1 receives nothing (ValueError: no data (train.py:" in signature
    assert "from rank 0" in signature


SHARDED = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
torch.distributed.init_process_group("nccl")
split = init_device_mesh("cuda", (2,))
halves = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)).cuda()
parallelize_module(halves, split, {"0": ColwiseParallel(), "1": RowwiseParallel()})
with torch.device("meta"):
    shards = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 64))
fully_shard(shards, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
shards.to_empty(device=torch.device("cuda"))
for layer in shards:
    layer.reset_parameters()
weights = [*halves.parameters()], [*shards.parameters()]
optimizers = [torch.optim.AdamW(each, lr=1e-3) for each in weights]
while True:
    (shards(halves(torch.randn(4, 64, device="cuda"))).float().pow(2).mean()).backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_tensors_split_and_sharded_are_the_same_in_sim_and_on_ranks(folder: Path) -> None:
    (folder / "train.py").write_text(SHARDED)
    measured, simulated = (
        passed(ran(folder, device, 2, "torchrun train.py")).ranks[0].phases for device in ("cpu", "sim")
    )
    assert simulated["forward"].collectives == measured["forward"].collectives
    assert simulated["forward"].collectives["all_reduce"] == [1, 4 * 64 * 4]  # of the split layers' result
    assert simulated["backward"].collectives == measured["backward"].collectives


IN_BACKWARD = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)).cuda()
optimizers = {weight: torch.optim.AdamW([weight], foreach=False) for weight in model.parameters()}
def update(weight):
    optimizers[weight].step()
    optimizers[weight].zero_grad()
for weight in optimizers:
    weight.register_post_accumulate_grad_hook(update)
for step in range(20):
    model(torch.randn(4, 64).cuda()).pow(2).mean().backward()
"""


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_optimizers_that_step_in_backward_make_one_step_of_it(folder: Path, device: str) -> None:
    (folder / "train.py").write_text(IN_BACKWARD)
    phases = passed(ran(folder, device, 1, "train.py")).ranks[0].phases
    weights = (64 * 256 + 256 + 256 * 64 + 64) * 4
    assert phases["backward"].device_retained_bytes % WORKSPACE < 4 * weights  # no gradient is left
    assert phases["backward"].op_launches > phases["step"].op_launches == 0


ALIGNED = """
import torch
model = torch.nn.GRU(16, 32, batch_first=True).cuda()
optimizer = torch.optim.AdamW(model.parameters())
targets, lengths = torch.ones(3, 6, dtype=torch.int64).cuda(), torch.tensor([4, 6, 5]).cuda()
while True:
    scores = model(torch.randn(3, 20, 16).cuda())[0].transpose(0, 1)
    torch.nn.CTCLoss()(scores.log_softmax(-1), targets, torch.tensor([20, 18, 20]).cuda(), lengths).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_loss_over_alignments_takes_its_lengths_from_the_data(folder: Path) -> None:
    (folder / "train.py").write_text(ALIGNED)
    passed(ran(folder, "sim", 1, "train.py"))


SPAWNING = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def main(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        model(torch.randn(2, 64).to(rank)).sum().backward()
        optimizer.step()
if __name__ == "__main__":
    world = int(sys.argv[1])
    mp.spawn(main, args=(world,), nprocs=world)
"""


def test_a_program_that_spawns_its_ranks_is_each_of_them(folder: Path) -> None:
    (folder / "train.py").write_text(SPAWNING)
    record = ran(folder, "sim", 4, "python train.py 4")
    assert record.outcome == "passed", record.signature
    assert "all_reduce" in record.ranks[0].phases["backward"].collectives
    said = "CannotRun: train.py:12: mp.spawn starts 8 processes, and this job has 4 ranks on a node: give --ranks 8"
    assert str(ran(folder, "sim", 4, "python train.py 8").signature).startswith(said)


STARTING = """
import multiprocessing, sys
import torch, torch.distributed as dist
def main(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(2, 64).to(rank)).sum().backward()
        optimizer.step()
def tells(number):
    print("helper", number)
if __name__ == "__main__":
    world = int(sys.argv[1])
    helpers = [multiprocessing.Process(target=tells, args=("x",)) for _ in range(2)]
    ranks = [multiprocessing.Process(target=main, args=(rank, world)) for rank in range(world)] if world else []
    for process in helpers + ranks:
        process.start()
    for process in helpers + ranks:
        process.join()
"""


def test_a_program_that_starts_a_process_for_each_rank_is_each_of_them(folder: Path) -> None:
    (folder / "train.py").write_text(STARTING)
    record = passed(ran(folder, "sim", 4, "python train.py 4"))
    assert "all_reduce" in record.ranks[0].phases["backward"].collectives
    refused = ran(folder, "sim", 1, "python train.py 2")
    assert refused.signature == "CannotRun: train.py starts 2 ranks itself, by Process(main): give --ranks 2"
    alone = ran(folder, "sim", 4, "python train.py 0")
    assert alone.signature.startswith("ProgramError: train.py ended without a")


ONE_STEP = """
import torch
model = torch.nn.Linear(1024, 1024, device="cuda")
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(1, 1024, device="cuda")).sum().backward()
optimizer.step()
"""


def test_the_only_step_of_a_program_can_be_measured(folder: Path) -> None:
    (folder / "train.py").write_text(ONE_STEP)
    refused = ran(folder, "sim", 1, "python train.py")
    assert refused.signature.endswith("give it more data or epochs, or measure its last one with --steps 0")
    record = passed(ran(folder, "sim", 1, "python train.py", warmup_steps=0))
    phases = record.ranks[0].phases
    assert {"init", "forward", "backward", "step"} <= phases.keys()
    assert phases["step"].device_retained_bytes > 4 * 4 * 1024 * 1024


def test_a_module_that_the_project_has_to_compile_is_named_with_the_step(folder: Path) -> None:
    (folder / "align").mkdir()
    (folder / "align" / "__init__.py").write_text("from .core import maximum\n")
    (folder / "train.py").write_text("import align\n")
    assert ran(folder, "sim", 1, "train.py").signature.startswith("ModuleNotFoundError")
    (folder / "align" / "core.pyx").touch()
    said = "CannotRun: train.py lacks 'align.core', which the project compiles: build it first in align: "
    assert ran(folder, "sim", 1, "train.py").signature == f"{said}see its README"
    (folder / "align" / "setup.py").touch()
    assert ran(folder, "sim", 1, "train.py").signature == f"{said}`python setup.py build_ext --inplace`"


SAVED_WHOLE = """
import torch, torch.distributed as dist
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType
dist.init_process_group("nccl")
device = dist.get_rank()
torch.cuda.set_device(device)
model = FSDP(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).cuda(), device_id=device)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(2, 64, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    whole = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, whole):
        saved = model.state_dict()
    if device == 0:
        assert saved["0.weight"].shape == (64, 64) and saved["0.weight"].abs().sum() > 0
        torch.save(saved, "model.pt")
"""


def test_a_model_that_fsdp_gathers_on_the_host_is_saved_on_ranks(folder: Path) -> None:
    """torch itself reads what it has freed where card and host are one memory."""
    (folder / "train.py").write_text(SAVED_WHOLE)
    record = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py"))
    assert "save" in record.ranks[0].phases


IN_A_NOTEBOOK = """
import sys, torch
from accelerate import Accelerator, notebook_launcher
def main(steps):
    accelerator = Accelerator()
    assert accelerator.num_processes == 2
    model = torch.nn.Linear(64, 64)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    for _ in range(steps):
        accelerator.backward(model(torch.ones(4, 64, device=accelerator.device)).mean())
        optimizer.step()
        optimizer.zero_grad()
notebook_launcher(main, (3,), num_processes=2)
"""


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_a_program_that_launches_its_ranks_as_a_notebook_does_is_each_of_them(device: str, folder: Path) -> None:
    """torchrun's agent would listen at one port for each rank."""
    (folder / "train.py").write_text(IN_A_NOTEBOOK)
    record = passed(ran(folder, device, 2, "python train.py"))
    assert "all_reduce" in record.ranks[0].phases["backward"].collectives
    assert "main starts 2 processes" in ran(folder, device, 1, "python train.py").signature


def test_the_process_that_makes_a_skeleton_is_none_of_the_programs(folder: Path) -> None:
    """It is started in the program's call, by its own interpreter."""
    (folder / "train.py").write_text("import transformers\ntransformers.AutoConfig.from_pretrained('gpt2')\n")
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature.startswith("ProgramError: train.py ended without an optimizer step: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import multiprocessing\np = multiprocessing.Process(target=print)\np.start()\np.join()",
            "it started Process(print)",
        ),
        ("name = input('model? ')", "asks for input"),
        ("import not_a_package", "add its package with --with"),
        (
            "import urllib.request\nurllib.request.urlopen('http://data.example.com/train.bin')",
            "train.py:2: downloads http://data.example.com/train.bin, and a run has no network: put it where it looks first",
        ),
    ],
)
def test_what_has_no_place_here_is_one_line_with_the_way_out(folder: Path, text: str, said: str) -> None:
    (folder / "train.py").write_text(text)
    assert said in ran(folder, "sim", 1, "train.py").signature


WRAPPED = """
import os, torch, torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
dist.init_process_group("nccl")
card = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(card)
replica = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda(), device_ids=[card], output_device=card)
shard = FullyShardedDataParallel(torch.nn.Linear(64, 64), device_id=card, sync_module_states=True)
other = FullyShardedDataParallel(torch.nn.Linear(64, 64), device_id=torch.device("cuda", card))  # as accelerate says it
optimizers = [torch.optim.SGD(model.parameters(), lr=1e-3) for model in (replica, shard, other)]
while True:
    other(shard(replica(torch.randn(4, 64).cuda()))).pow(2).mean().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_model_that_a_wrapper_puts_on_a_card_trains(folder: Path, device: str) -> None:
    (folder / "train.py").write_text(WRAPPED)
    passed(ran(folder, device, 2, "torchrun train.py"))


FP16 = """
import argparse, torch, deepspeed
argparse.ArgumentParser().parse_known_args()
deepspeed.init_distributed()
model = torch.nn.Linear(64, 64)
config = {"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": True, "hysteresis": 1, "initial_scale_power": 14}}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
while True:
    loss = 1000 * engine(torch.ones(1, 64, dtype=torch.float16, device=engine.device)).float().pow(2).sum()
    engine.backward(loss)
    engine.step()
"""


@pytest.mark.usefixtures("surroundings")
def test_a_program_in_fp16_says_its_loss_scales_and_skipped_steps(folder: Path) -> None:
    pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(FP16)
    numerics = passed(ran(folder, "cpu", 1, "deepspeed --num_gpus 1 train.py")).ranks[0].numerics
    assert numerics is not None
    assert numerics.loss_scales[0] > numerics.loss_scales[1]
    assert numerics.skipped_steps >= 2


LANGUAGE = """
import torch
torch.manual_seed(0)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16)
        self.embed.requires_grad_(False)
    def forward(self, input_ids, attention_mask, labels):
        logits = self.head(self.embed(input_ids))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
model = Model().to(DTYPE)
optimizer = torch.optim.AdamW(model.head.parameters())
rows = torch.tensor([[4, 5, 2, 0], [6, 7, 8, 2], [9, 2, 0, 0], [1, 3, 3, 2], *[[1, 2, 0, 0]] * 6])
for ids in torch.utils.data.DataLoader(rows, batch_size=2):
    mask = (ids != 0).long()
    model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_what_a_program_is_fed_and_what_it_trains_are_recorded(folder: Path) -> None:
    (folder / "train.py").write_text(LANGUAGE.replace("DTYPE", "torch.float32"))
    (rank,) = passed(ran(folder, "cpu", 1, "python train.py")).ranks
    measured = [batch for batch in rank.fed if batch.step <= 2]  # it runs on
    assert [batch.drawn for batch in measured] == [[0, 1], [2, 3]]
    assert [(batch.step, batch.rows, batch.length) for batch in measured] == [(1, 2, 4), (2, 2, 4)]
    assert [(row.tokens, row.supervised, row.last) for batch in measured for row in batch.first_rows] == [
        (3, 3, 2),
        (4, 4, 2),
        (2, 2, 2),
        (4, 4, 2),
    ]
    assert rank.numerics is not None
    assert rank.numerics.dtype == "float32"
    assert rank.numerics.trained == {"head.weight": 8 * 16, "head.bias": 16}


def test_a_simulated_program_is_fed_shapes_and_has_a_dtype(folder: Path) -> None:
    (folder / "train.py").write_text(
        LANGUAGE.replace("DTYPE", "'cuda', torch.bfloat16")
        .replace("= (ids", ", ids = (ids")
        .replace("ids != 0).long()", "ids != 0).long().cuda(), ids.cuda()")
    )
    (rank,) = passed(ran(folder, "sim", 1, "python train.py")).ranks
    assert [row.tokens for batch in rank.fed for row in batch.first_rows] == [4, 4, 4, 4]
    assert rank.numerics is not None
    assert rank.numerics.dtype == "bfloat16"
