from __future__ import annotations

import pytest

from dsregress.probe.launch_line import INSTALLED, LaunchLineError, parse


@pytest.mark.parametrize(
    ("line", "launcher", "program", "arguments"),
    [
        ("train.py --lr 1", "python", "train.py", ("--lr", "1")),
        ("python3.11 -u train.py x", "python", "train.py", ("x",)),
        ("/usr/bin/python train.py", "python", "train.py", ()),
        ("torchrun --nproc_per_node=8 --standalone train.py a b", "torchrun", "train.py", ("a", "b")),
        ("torchrun --nnodes 2 --rdzv_backend c10d dir/train.py -m x", "torchrun", "dir/train.py", ("-m", "x")),
        (
            "deepspeed --num_gpus 8 --no_local_rank train.py --deepspeed ds.json",
            "deepspeed",
            "train.py",
            ("--deepspeed", "ds.json"),
        ),
        ("deepspeed --include localhost:0,1 train.py", "deepspeed", "train.py", ()),
        ("deepspeed train.py -- 1", "deepspeed", "train.py", ("1",)),
        ("torchrun train.py -- --lr 1 -- 2", "torchrun", "train.py", ("--lr", "1", "--", "2")),
        ("python train.py -- 1", "python", "train.py", ("--", "1")),
        ("accelerate launch --config_file zero3.yaml --num_processes 4 train.py", "accelerate", "train.py", ()),
        ("accelerate launch --use_deepspeed train.py -q", "accelerate", "train.py", ("-q",)),
        ("accelerate launch --an_option_of_another_release train.py x", "accelerate", "train.py", ("x",)),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "torchrun", "train.py", ()),
        ("trl sft --model_name_or_path m", "trl", "sft", ("--model_name_or_path", "m")),
        ("llamafactory-cli train x.yaml", "llamafactory-cli", "train", ("x.yaml",)),
        ("mpirun -np 8 -H a:4,b:4 -x NCCL_DEBUG=INFO --allow-run-as-root python -u train.py --lr 1", "python", "train.py",
         ("--lr", "1")),
        ("ray job submit --address http://x:8265 --working-dir . -- torchrun train.py a", "torchrun", "train.py", ("a",)),
        ("composer -n 8 train.py yamls/mpt-125m.yaml -n 3", "torchrun", "train.py", ("yamls/mpt-125m.yaml", "-n", "3")),
        ("colossalai run --nproc_per_node 8 train.py -p gemini", "torchrun", "train.py", ("-p", "gemini")),
        ("torchrun \\\n  --nproc_per_node 2 \\\n  train.py", "torchrun", "train.py", ()),
    ],
)  # fmt: skip
def test_a_launch_line_is_launcher_program_and_arguments(
    line: str, launcher: str, program: str, arguments: tuple[str, ...]
) -> None:
    parsed = parse(line)
    assert (parsed.launcher, parsed.program, parsed.arguments) == (launcher, program, arguments)
    assert not parsed.is_module


def test_a_module_differs_from_a_file() -> None:
    assert parse("python -m axolotl.cli.train x.yaml").is_module
    assert parse("accelerate launch -m axolotl.cli.train x.yaml").program == "axolotl.cli.train"
    assert parse("torchrun --nproc_per_node 8 --module axolotl.cli.train x.yaml").name == "train"
    assert parse("composer -n 8 -m own.train x.yaml").is_module


def test_variables_that_were_read_before_the_program_begins_have_no_effect() -> None:
    line = "OMP_NUM_THREADS=8 HF_HOME=/data PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True PYTHONPATH=. torchrun train.py"
    assert parse(line).without_effect == ("OMP_NUM_THREADS", "HF_HOME")


def test_variables_before_the_launcher_are_the_programs() -> None:
    assert parse("A=1 B='x y' python train.py").variables == (("A", "1"), ("B", "x y"))


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("train.py", None),
        ("torchrun --nproc_per_node 8 --nnodes 4 train.py", 32),
        ("torchrun --nproc-per-node=auto train.py", None),
        ("deepspeed --num_gpus=4 --num_nodes 2 train.py", 8),
        ("accelerate launch --num_processes 16 --num_machines 2 train.py", 16),
        ("python train.py --num_gpus 3", None),
        ("deepspeed --include localhost:0,1,2,3 --master_port 29500 train.py", 4),
        ("deepspeed --include=one:0,1@two:1 train.py", 3),
        ("deepspeed --include one@two:1 train.py", None),
        ("tune run --nproc_per_node 4 full_finetune_distributed --config llama3_2/1B_full", 4),
        ("trl sft --model_name_or_path Qwen/Qwen2.5-7B --num_processes 2", 2),
        ("NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B", 4),
        ("NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train sft.yaml", 16),
        ("NPROC_PER_NODE=4 torchrun train.py", None),
    ],
)
def test_ranks_are_those_of_the_launchers_own_options(line: str, ranks: int | None) -> None:
    assert parse(line).ranks == ranks


@pytest.mark.parametrize(
    ("line", "devices"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 deepspeed train.py", 4),
        ("CUDA_VISIBLE_DEVICES=1,3 torchrun --nproc_per_node gpu train.py", 2),
        ("CUDA_VISIBLE_DEVICES=0,1 trl sft --model_name_or_path Qwen/Qwen2.5-7B", 2),
        ("CUDA_VISIBLE_DEVICES=0,1 llamafactory-cli train sft.yaml", 2),
        ("CUDA_VISIBLE_DEVICES=1,3 torchrun train.py", None),
        ("CUDA_VISIBLE_DEVICES=0,1 python train.py", None),
        ("CUDA_VISIBLE_DEVICES= deepspeed train.py", None),
    ],
)
def test_a_launcher_that_asks_for_devices_gets_the_visible_ones(line: str, devices: int | None) -> None:
    assert parse(line).visible_devices == devices


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "no program; write e.g. 'train.py --model qwen'"),
        ("A=1", "no program; write e.g. 'train.py --model qwen'"),
        ("torchrun --nproc_per_node 8", "torchrun without a program; write e.g. 'torchrun train.py'"),
        ("accelerate test", "accelerate without launch launches nothing; write 'accelerate launch train.py'"),
        ("accelerate launch", "accelerate without a program; write e.g. 'accelerate launch train.py'"),
        ("python -c 'print(1)'", "python -c: write the program into a file"),
        ("srun python train.py", "srun is not understood; write the line that it starts, e.g. 'torchrun train.py'"),
        ("train.py 'x", "cannot be read as a shell would: No closing quotation"),
        ("trl", "trl without a command; write e.g. 'trl sft --model_name_or_path Qwen/Qwen2.5-7B'"),
        ("sudo python train.py", "sudo is not understood; write the line that it starts, e.g. 'torchrun train.py'"),
        (
            "/usr/bin/docker run x python train.py",
            "docker is not understood; write the line that it starts, e.g. 'torchrun train.py'",
        ),
        ("cd x\npython train.py", "several lines; write one launch line"),
    ],
)
def test_a_line_that_launches_nothing_says_why(line: str, why: str) -> None:
    with pytest.raises(LaunchLineError) as refused:
        parse(line)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("line", "program", "arguments", "name"),
    [
        (
            "litgpt finetune_lora phi --lora_r 8",
            "litgpt",
            ("finetune_lora", "phi", "--lora_r", "8"),
            "litgpt-finetune_lora",
        ),
        ("CUDA_VISIBLE_DEVICES=0 swift sft --model x", "swift", ("sft", "--model", "x"), "swift-sft"),
        ("tune", "tune", (), "tune"),
    ],
)
def test_a_word_that_names_no_file_is_a_command_that_a_package_installs(
    line: str, program: str, arguments: tuple[str, ...], name: str
) -> None:
    parsed = parse(line)
    assert (parsed.launcher, parsed.program, parsed.arguments, parsed.name) == (INSTALLED, program, arguments, name)
    assert parsed.is_command
    assert parsed.asks_for_devices
    assert parsed.ranks is None


@pytest.mark.parametrize("line", ["./train --lr 1", "bin/train x", "train.py"])
def test_what_has_a_folder_or_a_suffix_is_a_file(line: str) -> None:
    assert parse(line).launcher == "python"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("train.py | tee log", "|"),
        ("train.py --lr 1>log", ">"),
        ("train.py 2>&1", "2>&1"),
        ("train.py&", "&"),
        ("cd x; train.py", ";"),
        ("cd x&&train.py", "&&"),
        ("train.py --n $(nproc)", "$("),
        ('train.py --n "$(nproc)"', "$("),
        ("train.py --n `nproc`", "`"),
        ('train.py --out "a/`date`"', "`"),
        ("torchrun --nproc_per_node=$N train.py", "$N"),
        ("deepspeed --num_gpus ${N} train.py", "${N}"),
        ('train.py --data "$DATA/x"', "$DATA"),
        ("KEY=$SECRET train.py", "$SECRET"),
    ],
)
def test_what_only_a_shell_carries_out_is_refused(line: str, text: str) -> None:
    with pytest.raises(LaunchLineError) as refused:
        parse(line)
    assert str(refused.value) == (
        f"dsregress runs no shell: {text!r} would be an argument; write the line without it, or put it in single quotes"
    )


@pytest.mark.parametrize(
    ("line", "argument"),
    [
        ("train.py '$(nproc) `x` > ; | & $HOME'", "$(nproc) `x` > ; | & $HOME"),
        ("train.py \\$5", "$5"),
        ('train.py "a;b > c | d & e"', "a;b > c | d & e"),
        ('train.py "it\'s > 5$"', "it's > 5$"),
        ("train.py '<|im_end|>'", "<|im_end|>"),
        ("train.py 5$", "5$"),
        ("train.py '{\"a\": 1}'", '{"a": 1}'),
    ],
)
def test_quoted_text_is_an_argument(line: str, argument: str) -> None:
    assert parse(line).arguments == (argument,)


@pytest.mark.parametrize("value", ["-1", "0", "1.5", "1e3", "1000000", pytest.param("9" * 5000, id="long"), "4x", "٤"])
@pytest.mark.parametrize(
    ("before", "option"),
    [
        ("torchrun --nproc_per_node ", "--nproc_per_node"),
        ("torchrun --nproc-per-node=", "--nproc-per-node"),
        ("torchrun --nproc_per_node 8 --nnodes ", "--nnodes"),
        ("accelerate launch --num_processes ", "--num_processes"),
    ],
)
def test_a_number_of_processes_that_there_is_not_is_refused(before: str, option: str, value: str) -> None:
    with pytest.raises(LaunchLineError) as refused:
        parse(f"{before}{value} train.py")
    assert str(refused.value) == f"{option} {value[:20]}: write a whole number from 1 to 999,999"


def test_a_command_takes_its_number_of_processes_from_a_variable() -> None:
    with pytest.raises(LaunchLineError, match="NPROC_PER_NODE 0: write a whole number"):
        parse("NPROC_PER_NODE=0 swift sft")


@pytest.mark.parametrize(
    "options",
    [
        "torchrun --nproc_per_node auto --nnodes 1:4",
        "torchrun --nproc_per_node gpu --nnodes 08",
        "deepspeed --num_gpus -1 --num_nodes -1",
        "torchrun --nproc_per_node {ranks} --nnodes {nodes}",
    ],
)
def test_other_words_for_a_number_of_processes_are_the_launchers(options: str) -> None:
    assert parse(f"{options} train.py").program == "train.py"


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("mpirun -np 8 python train.py", 8),
        ("mpiexec -n 2 torchrun --nproc_per_node 4 --nnodes 2 train.py", 8),
        ("mpirun --hostfile hosts python train.py", None),
        ("ray job submit -- mpirun -np 4 python train.py", 4),
        ("ray job submit -- accelerate launch --num_processes 2 train.py", 2),
        ("composer -n 8 train.py", 8),
        ("composer --world_size 16 --nproc=8 --node_rank 0 --master_addr 0.0.0.0 -v train.py", 16),
        ("composer train.py", None),
        ("colossalai run --hostfile hosts --num_nodes 2 --nproc_per_node 4 train.py -p gemini", 8),
    ],
)
def test_ranks_are_those_of_the_launcher_or_of_what_starts_it(line: str, ranks: int | None) -> None:
    assert parse(line).ranks == ranks


def test_variables_that_a_starter_sets_are_the_programs() -> None:
    parsed = parse("A=1 mpirun -np 2 -x DS_ACCELERATOR=cpu -x PATH B=2 python train.py")
    assert dict(parsed.variables) == {"A": "1", "DS_ACCELERATOR": "cpu"}


def test_a_launcher_like_torchrun_starts_a_rank_on_each_card_unless_it_says_how_many() -> None:
    assert parse("composer train.py").asks_for_devices


@pytest.mark.parametrize("line", ["mpirun -np 8 ./a.out", "ray start --head", "ray job submit python"])
def test_a_starter_of_no_program_of_python_is_refused(line: str) -> None:
    with pytest.raises(LaunchLineError, match="is not understood; write the line that it starts"):
        parse(line)
