"""Scripts are short, need the released packages alone, and say all that the cell has, or are refused."""

from __future__ import annotations

import ast
import builtins
import math
import sys
from typing import Any

import msgspec
import pytest

from dsregress.bisect.questions import parse_question
from dsregress.probe import scenario
from dsregress.reproduce.factors import SIMPLEST
from dsregress.reproduce.script import LAYERS, TRANSFORMERS, NoFragment, Script, Subject, compose, read_endings
from dsregress.reproduce.text import literal
from tests.paths import ROOT

MINIMAL = scenario.load(ROOT / "scenarios" / f"{SIMPLEST}.py")
DEFAULTS = MINIMAL.resolve("base", "cpu")
BAD = {"torch": "2.13.0", "transformers": "4.57.6", "peft": "0.21.2", "deepspeed": "0.18.3"}
GOOD = {**BAD, "deepspeed": "0.18.2"}
RELEASED = {"torch", "deepspeed", "transformers", "peft"}
QUARTER: dict[str, Any] = {"zero_stage": 1, "gradient_accumulation_steps": 4, "model_outputs": "all"}


def script(metric: str, model: str = LAYERS, expected: object = msgspec.UNSET, **changes: Any) -> Script:
    return compose(
        Subject(
            parameters=MINIMAL.resolve("base", "cpu", changes),
            defaults=DEFAULTS,
            question=parse_question(metric),
            bad=BAD,
            good=GOOD,
            model=model,
            expected=expected,
        )
    )


def imported(text: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    return found


def unknown(text: str) -> set[str]:
    """Names that are read and that nothing binds."""
    nodes = list(ast.walk(ast.parse(text)))
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names = [name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for name in node.names]
    bound |= {(name.asname or name.name).partition(".")[0] for name in names}
    return read - bound - set(dir(builtins))


def statements(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


CHANGES = [
    {},
    {"zero_stage": 3, "forward_between": True, "varying_length": True},
    QUARTER,
    {"zero_stage": 3, "zero_init": True, "world_size": 2, "gradient_checkpointing": "non_reentrant"},
    {"zero_stage": 3, "zero_init": True, "world_size": 4, "hpz_partition_size": 2},
    {"zero_stage": 2, "dtype": "bf16", "offload_optimizer": True, "gradient_accumulation_dtype": "fp32"},
    {"dtype": "fp16", "zero_stage": 1, "decay_groups": True, "learning_rate_decay": 0.5},
    {"objective": "two_backwards", "zero_stage": 2},
    {"objective": "several_outputs", "model_outputs": "all"},
    {"objective": "no_head"},
    {"objective": "two_runs", "gradient_checkpointing": "reentrant"},
    {"frozen": "layers.0", "zero_stage": 3, "zero_init": True},
    {"checkpoint": True, "evaluate": True, "compile_backend": "eager"},
    {"infinite_gradient_step": 1, "dtype": "bf16"},
    {"no_sync": True, "gradient_accumulation_steps": 2, "objective": "two_backwards", "communication_dtype": "fp32"},
    {"backward_on": "several", "zero_stage": 2, "gradient_accumulation_steps": 2, "evaluate_within": True},
    {"backward_on": "loss", "zero_stage": 3, "all_reduce_for_fetch": True, "prescale_gradients": True},
    {"optimizer": "configured", "learning_rate_decay": 0.5, "uneven_last": True, "frozen": "layers.0"},
    {"checkpoint": True, "resume": True, "zero_stage": 3, "zero_init": True, "frozen": "layers.0"},
    {"second_engine": True, "gradient_accumulation_steps": 2, "identical_micro_batches": True, "decay_groups": True},
    {"zero_stage": 1, "checkpoint": True, "resume": True, "universal": True, "decay_groups": True},
    {
        "zero_stage": 3,
        "zero_init": True,
        "checkpoint": True,
        "resume": True,
        "exported": "16bit",
        "optimizer": "configured",
    },
    {"zero_stage": 2, "marks_boundary": True, "gradient_accumulation_steps": 2, "exported": "zero_to_fp32"},
    {"zero_stage": 3, "gather_weights": True, "empty_cache": True, "module_hooks": True, "leaf_modules": True},
    {"warmup": True, "decay_groups": True, "group_learning_rates": True, "destroyed_engine": True, "zero_stage": 2},
    {
        "world_size": 3,
        "uneven_ranks": True,
        "uneven_last": True,
        "identical_micro_batches": True,
        "torch_autocast": True,
    },
    {"optimizer": "configured", "learning_rate_decay": 0.5, "dtype": "fp16", "loss_scale": 256, "zero_stage": 2},
    {"backward_on": "divided", "gradient_accumulation_steps": 2, "halved_gradients": "full", "zero_stage": 2},
    {"zero_stage": 3, "zero_init": True, "halved_gradients": "local", "unwrapped": True, "reference": "beside"},
    {"schedule": "WarmupCosineLR", "decay_groups": True, "frozen": "layers.0", "grouped_frozen": True},
    {"schedule": "WarmupDecayLR", "zero_grad": True, "reference": "destroyed", "dtype": "fp16", "torch_autocast": True},
    {"caller_autocast": True, "dtype": "bf16", "zero_stage": 2, "forward_between": True, "objective": "two_backwards"},
    {"zero_stage": 3, "unwrapped": True, "gradient_accumulation_steps": 2, "world_size": 2, "varying_length": True},
]
METRICS = [
    "gradient_norm_error",
    "loss_error",
    "parameter_error",
    "backward.device_retained_bytes",
    "init.device_retained_bytes",
    "step.device_excess_bytes",
    "forward.collective_count",
    "init.collective_count",
    "backward.collective_bytes",
    "step.device_peak_bytes",
    "init.device_peak_bytes",
    "backward.host_calls",
    "forward.flops",
    "configuration:deepspeed.gradient_clipping",
    "outcome",
]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("changes", CHANGES, ids=scenario.variant_id)
@pytest.mark.parametrize("model", [LAYERS, TRANSFORMERS])
def test_a_script_is_python_and_imports_released_packages_alone(
    metric: str, changes: dict[str, Any], model: str
) -> None:
    found = script(metric, model, **changes)
    assert imported(found.text) <= RELEASED | sys.stdlib_module_names
    assert not unknown(found.text)
    assert "harness" not in found.text
    assert max(map(len, found.text.splitlines())) <= 125
    assert "\n\n\n\n" not in found.text


def test_what_is_done_before_a_step_is_done_once_where_micro_batches_differ() -> None:
    text = script(
        "gradient_norm_error", zero_stage=3, unwrapped=True, zero_grad=True, gradient_accumulation_steps=2
    ).text
    step = text[text.rindex("for step in range(2):") :]
    assert step.splitlines()[1:8] == [
        "    engine.optimizer.zero_grad()",
        "    micro_batch = 0",
        "    with deepspeed.zero.unwrap_model_for_generation(engine):",
        "        engine.eval()",
        "        with torch.no_grad():",
        "            loss_of(engine.module, step, micro_batch)",
        "        engine.train()",
    ]


def test_gradients_are_halved_in_the_truth_as_well() -> None:
    text = script("gradient_norm_error", zero_stage=2, halved_gradients="full", gradient_accumulation_steps=2).text
    assert "    (loss_of(plain, step, micro_batch) / 4).backward()" in text
    assert "        if micro_batch == 1:\n            for parameter in model.parameters():" in text


def test_the_callers_autocast_is_around_the_forward_and_nothing_else_is_in_half_precision() -> None:
    text = script("forward.device_retained_bytes", caller_autocast=True, dtype="bf16").text
    assert '"bf16"' not in text
    assert '    with torch.autocast("cpu", dtype=torch.bfloat16):\n        loss = engine(' in text


def test_only_the_engine_that_goes_on_is_configured_to_load_a_universal_checkpoint() -> None:
    text = script("loss_error", zero_stage=3, checkpoint=True, resume=True, universal=True).text
    saved, configured, made = map(text.index, ("save_checkpoint(", "load_universal", "load_checkpoint("))
    assert saved < configured < made
    assert text.count("load_universal") == 1


def test_a_norm_that_nothing_asks_about_is_not_computed() -> None:
    assert "true_norm" not in script("loss_error", zero_stage=3).text
    assert "clip_grad_norm_" not in script("loss_error", zero_stage=3, gradient_clipping=0.0).text
    assert (
        "    torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)"
        in script("loss_error", gradient_clipping=1.0).text
    )


def test_the_text_of_a_script() -> None:
    """As a maintainer reads it."""
    text = script("gradient_norm_error", **QUARTER).text
    lines = text.splitlines()
    assert lines[:3] == [
        "# pip install torch==2.13.0 deepspeed==0.18.3  # shows the fault: exit code 1",
        "# pip install torch==2.13.0 deepspeed==0.18.2  # does not: exit code 0",
        "# torchrun --nproc-per-node 1 reproduce.py",
    ]
    assert '    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4,' in text
    assert '"zero_optimization": {"stage": 1},' in text
    assert "        return (x - y).pow(2).sum(), x" in lines
    assert "    for micro_batch in range(4):" in lines
    assert "RANK" not in text
    assert statements(text) <= 42


def test_a_script_has_ranks_and_micro_batches_only_where_there_are_several() -> None:
    alone = script("loss_error").text
    assert "def loss_of(model, step):" in alone
    assert "for step in range(2):\n    loss = loss_of(engine, step)\n    engine.backward(loss)\n" in alone
    assert "RANK" not in alone
    assert "micro_batch in" not in alone
    ranks = script("loss_error", world_size=2).text
    assert "def loss_of(model, step, rank):" in ranks
    assert "    for rank in range(2):\n        loss = loss_of(plain, step, rank)\n        (loss / 2)" in ranks
    assert 'if RANK == 0:\n    print(f"loss' in ranks
    assert "micro_batch in" not in ranks


def test_without_a_truth_a_loss_is_computed_where_it_is_needed() -> None:
    counted = script("backward.device_retained_bytes", zero_stage=3, world_size=2).text
    assert "def loss_of" not in counted
    assert "manual_seed" not in counted
    assert "class Model" not in counted
    assert "    loss = engine(torch.randn(8, 128)).pow(2).sum()\n    engine.backward(loss)\n" in counted
    assert 'if engine.global_rank == 0:\n    print(f"{measured' in counted
    evaluated = script("step.device_retained_bytes", zero_stage=3, evaluate=True).text
    assert "    engine.backward(engine(torch.randn(8, 128)).pow(2).sum())\n    engine.step()\n" in evaluated
    assert "    with torch.no_grad():\n        engine(torch.randn(8, 128)).pow(2).sum()\n" in evaluated


def test_layers_without_a_class_are_called_in_their_own_dtype() -> None:
    text = script("step.op_launches", dtype="bf16", zero_stage=1).text
    assert "engine(torch.randn(8, 128, dtype=torch.bfloat16)).float().pow(2).sum()" in text
    casts = script("step.op_launches", zero_stage=1, torch_autocast=True).text
    assert "class Model" in casts


def test_without_a_truth_batches_differ_where_the_cell_says_so() -> None:
    metric = "backward.collective_count"
    sized = script(metric, zero_stage=3, world_size=2, uneven_ranks=True, varying_length=True).text
    assert "loss = loss_of(engine, step, RANK)" in sized
    assert "size = 8 - 2 * (step % 4) - rank" in sized
    same = script(metric, identical_micro_batches=True, gradient_accumulation_steps=2).text
    assert "    torch.manual_seed(1000 * step)\n" in same


def test_what_is_printed_of_an_infinite_gradient_does_not_change_from_run_to_run() -> None:
    text = script("gradient_norm_error", infinite_gradient_step=1, world_size=2).text
    assert "torch.manual_seed(0)\nmodel = " in text
    assert "def loss_of(model, step, rank):\n    torch.manual_seed(1000 * step + 100 * rank)\n" in text
    assert "    if step == 1 and RANK == 1:\n" in text


def test_a_model_that_is_made_once_has_its_layers_there() -> None:
    once, twice = script("loss_error", zero_stage=3).text, script("loss_error", zero_stage=3, zero_init=True).text
    layers = "torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(128, 128), torch.nn.Tanh())))"
    assert f"\nmodel = {layers}\nplain = copy.deepcopy(model)\n" in once
    assert f"\nplain = {layers}\nwith deepspeed.zero.Init(config_dict_or_path=CONFIG):\n    model = {layers}\n" in twice
    by_transformers = script("outcome", TRANSFORMERS, zero_stage=3, zero_init=True).text
    assert "Model()" not in by_transformers
    assert ":\n    model = AutoModelForCausalLM.from_config(" in by_transformers


def test_a_truth_takes_the_same_batches_in_its_own_dtype() -> None:
    cast = "    x, y = torch.randn(8, 128).to(next(model.parameters()).dtype), torch.randn(8, 128)\n"
    text = script("gradient_norm_error", dtype="bf16").text
    assert f"{cast}    return (model(x).float() - y).pow(2).sum()\n" in text
    assert "class Model" not in text
    assert "    return (model(torch.randn(8, 128)) - torch.randn(8, 128)).pow(2).sum()\n" in script("loss_error").text
    twice = script("gradient_norm_error", dtype="bf16", objective="two_runs").text
    assert (
        f"{cast}    return ((model(x).float() - y).pow(2).sum() + (model(-x).float() - y).pow(2).sum()) / 2\n" in twice
    )


def test_a_frozen_layer_is_the_first_and_no_other_that_ends_alike() -> None:
    text = script("outcome", zero_stage=3, frozen="layers.0").text
    assert 'if name.startswith("0."):' in text


def test_an_optimizer_that_zero_takes_unasked_needs_no_leave() -> None:
    assert "zero_allow_untested_optimizer" not in script("outcome", zero_stage=1).text
    assert "zero_allow_untested_optimizer" in script("loss_error", zero_stage=1).text


def test_a_model_of_one_output_returns_it_alone() -> None:
    assert ".pow(2).sum()\n" in script("gradient_norm_error", **{**QUARTER, "model_outputs": "loss"}).text


def test_a_script_configures_no_accumulation_that_it_does_not_have() -> None:
    without = script("gradient_norm_error", **{**QUARTER, "gradient_accumulation_steps": 1}).text
    assert "gradient_accumulation_steps" not in without


def test_a_count_is_printed_until_the_figure_to_compare_with_is_known() -> None:
    metric = "backward.device_retained_bytes"
    first, second = script(metric), script(metric, expected=27_328)
    assert first.needs_expected
    assert "sys.exit(measured" not in first.text
    assert not second.needs_expected
    assert "deepspeed 0.18.2 27,328, ratio {measured / 27328:.3f}" in second.text
    assert "sys.exit(measured > 27874)\n" in second.text


@pytest.mark.parametrize(
    ("metric", "lines"),
    [
        (
            "backward.device_retained_bytes",
            ["engine.backward(loss)", "gc.collect()", "measured = counted.live_bytes()"],
        ),
        (
            "backward.device_peak_bytes",
            [
                "counted.peak_bytes = counted.live_bytes()",
                "engine.backward(loss)",
                "measured = max(measured, counted.peak_bytes)",
            ],
        ),
        (
            "backward.host_calls",
            [
                "with cProfile.Profile() as profile:",
                "    engine.backward(loss)",
                "measured += sum(entry.callcount for entry in profile.getstats())",
            ],
        ),
        (
            "backward.collective_count",
            [
                "with torch.profiler.profile() as profile:",
                "    engine.backward(loss)",
                'measured += sum(event.name.startswith("c10d::") for event in profile.events())',
            ],
        ),
        (
            "backward.op_launches",
            ["before = counted.launches", "engine.backward(loss)", "measured += counted.launches - before"],
        ),
    ],
)
def test_what_is_counted_is_counted_in_its_phase(metric: str, lines: list[str]) -> None:
    text = script(metric, expected=1, gradient_accumulation_steps=2).text
    assert "".join(f"        {line}\n" for line in lines) in text


def test_init_is_counted_from_the_start() -> None:
    assert "\nmeasured = counted.peak_bytes\nfor step in" in script("init.device_peak_bytes").text
    collectives = script("init.collective_count").text
    assert "\nprofile = torch.profiler.profile()\nprofile.start()\nmodel = " in collectives
    assert "config=CONFIG)\nprofile.stop()\nmeasured = sum(" in collectives


@pytest.mark.parametrize("metric", ["init.host_calls", "generate.device_peak_bytes"])
def test_what_a_script_does_not_have_is_not_counted(metric: str) -> None:
    with pytest.raises(NoFragment):
        script(metric)


def test_an_optimizer_is_made_by_its_name_with_the_truths_own_options() -> None:
    text = script("gradient_norm_error", optimizer="configured").text
    assert '"optimizer": {"type": "SGD", "params": {"lr": 0.01}},' in text
    assert "model_parameters=model.parameters()," in text


def test_what_loading_undoes_is_trained_in_between_unless_the_engine_is_new() -> None:
    assert "# which loading undoes" in script("parameter_error", checkpoint=True).text
    resumed = script("parameter_error", checkpoint=True, resume=True).text
    assert "# which loading undoes" not in resumed
    assert resumed.count("deepspeed.initialize(") == 2


def test_empty_lines_are_where_a_reader_expects_them() -> None:
    text = script("step.device_peak_bytes", zero_stage=3, zero_init=True, second_engine=True, varying_length=True).text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "}\n\n\ndef loss_of" in text
    assert ".sum()\n\n\nclass Counted" in text
    assert "    peak_bytes = 0\n\n    def __torch_dispatch__" in text
    assert "\n\n\ncounted = Counted().__enter__()\nwith deepspeed.zero.Init(" in text


def test_a_setting_is_read_from_the_engine() -> None:
    text = script("configuration:deepspeed.zero_config.overlap_comm", expected=True).text
    assert "value = engine._config.zero_config.overlap_comm" in text
    assert "engine.backward" not in text


def test_packages_that_a_script_does_not_import_are_not_installed() -> None:
    assert "transformers" not in script("gradient_norm_error").text
    assert "transformers==4.57.6" in script("gradient_norm_error", TRANSFORMERS).text
    assert "peft==0.21.2" in script("outcome", TRANSFORMERS, lora_rank=8).text


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"attention": "eager"}, "attention=eager"),
        ({"objective": "preference"}, "objective=preference"),
        ({"integration": "transformers"}, "integration=transformers"),
    ],
)
def test_what_no_fragment_says_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(NoFragment, match=named):
        script("gradient_norm_error", **changes)


def test_adapters_need_a_model_of_transformers() -> None:
    with pytest.raises(NoFragment, match="adapters"):
        script("outcome", LAYERS, lora_rank=8)


def test_a_metric_without_a_verdict_is_refused() -> None:
    with pytest.raises(NoFragment, match="step_time_s"):
        script("step_time_s")


@pytest.mark.parametrize(
    ("package", "installed"),
    [
        ("deepspeed", "torch==2.13.0 deepspeed==0.18.2"),
        ("transformers", "torch==2.13.0 deepspeed==0.18.2 transformers==4.57.6"),
        ("torch", "torch==2.13.0 deepspeed==0.18.2"),
    ],
)
def test_what_is_installed_has_deepspeed_and_each_package_once(package: str, installed: str) -> None:
    parameters = MINIMAL.resolve("base", "cpu")
    question = parse_question("gradient_norm_error")
    text = compose(
        Subject(parameters=parameters, defaults=DEFAULTS, question=question, bad=BAD, good=GOOD, package=package)
    ).text
    assert f"# pip install {installed}  # does not" in text


def test_a_count_of_none_in_the_good_release_has_no_ratio() -> None:
    text = script("forward.collective_count", expected=0).text
    assert 'deepspeed 0.18.2 0")' in text
    assert "ratio" not in text
    assert "sys.exit(measured > 0)\n" in text


def test_a_count_is_too_many_where_it_is_nearer_to_the_bad_releases() -> None:
    """Later releases may do a little more of something else."""
    parameters = MINIMAL.resolve("base", "cpu")
    question = parse_question("backward.host_calls")
    subject = Subject(parameters=parameters, defaults=DEFAULTS, question=question, bad=BAD, good=GOOD, expected=1686)
    text = compose(msgspec.structs.replace(subject, shown=2457)).text
    assert text.endswith("sys.exit(measured > 2071)  # nearer to deepspeed 0.18.3, 2,457\n")
    assert compose(msgspec.structs.replace(subject, shown=1690)).text.count("measured > 1719")


def test_a_setting_that_is_none_in_the_good_release_is_compared_with() -> None:
    found = script("configuration:deepspeed.gradient_clipping", expected=None)
    assert not found.needs_expected
    assert "EXPECTED = None" in found.text


def test_a_loss_that_is_not_a_number_is_the_worst() -> None:
    line = next(line for line in script("loss_error").text.splitlines() if line.startswith("loss, true_loss"))
    names: dict[str, Any] = {"losses": [1.0, float("nan")], "true_losses": [1.0, 0.9]}
    exec(line, names)
    assert math.isnan(names["loss"])


def test_texts_are_quoted_as_python() -> None:
    assert ast.literal_eval(literal({'a"b': 'c"\\'})) == {'a"b': 'c"\\'}


HUNG = "outcome:no sign of life for"


def test_the_script_of_a_hang_says_where_its_ranks_wait_and_ends() -> None:
    found = script(HUNG, world_size=2, zero_stage=3)
    assert found.is_hang
    assert not found.is_crash
    assert unknown(found.text) == set()
    before, watched, after = found.text.partition("watch.start()")
    assert watched
    assert "os._exit(1)" in before
    assert "deepspeed.initialize" in after
    assert after.index("torch.distributed.barrier()") < after.index("watch.cancel()") < after.index("trains 2 steps")
    assert unknown(script(HUNG).text) == set()  # of one rank


def test_an_expert_gets_no_token_of_the_last_rank_where_ranks_hang() -> None:
    def composed(metric: str, **changes: Any) -> Script:
        parameters = MINIMAL.resolve(
            "base", "cpu", {"model": "mixtral-tiny", "world_size": 2, "zero_stage": 3, **changes}
        )
        question, defaults = parse_question(metric), {**DEFAULTS, "shape": parameters["shape"]}
        subject = Subject(parameters=parameters, defaults=defaults, question=question, bad=BAD, good=GOOD)
        return compose(msgspec.structs.replace(subject, model=TRANSFORMERS))

    found = composed(HUNG, uneven_last=True)
    assert "if RANK == 1 and len(logits) < 128 else logits" in found.text
    assert unknown(found.text) == set()
    assert "if RANK == 1 else logits" in composed(HUNG).text
    assert "logits" not in composed("outcome:RuntimeError").text


def test_an_ending_of_an_unknown_metric_or_with_an_unknown_field_is_refused() -> None:
    assert list(read_endings(b'[flops]\nkind = "counted"')) == ["flops"]
    with pytest.raises(ValueError, match="no such metric: flop$"):
        read_endings(b'[flop]\nkind = "counted"')
    with pytest.raises(ValueError, match="unknown field `text`"):
        read_endings(b'[flops]\nkind = "counted"\ntext = "x"')
