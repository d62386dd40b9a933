"""Problems in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dsregress.compare import Thresholds, compare
from dsregress.model import Failed, Result, TimedOut
from dsregress.probe.border.detail_lines import gathered_at, refused_by
from dsregress.probe.border.processor_faults import OF_PROCESSORS
from dsregress.probe.border.wire import Detail, FedBatch, Numerics, RunRecord
from dsregress.report.context import report_context
from dsregress.report.first_screen import FirstScreen
from dsregress.report.report_view import report_view
from dsregress.wording.workload_words import shared_conditions
from tests.builders import synthetic
from tests.builders.synthetic import MIB, result, stack

SIM = {"model": "llama-3-70b", "world_size": 32, "gpu": "A800-80G", "dtype": "bf16"}


def screen(*results: Result) -> FirstScreen:
    return report_view(report_context(compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None))).screen


def simulated(version: str, peak_gib: int) -> Result:
    made = synthetic.record()
    for rank in made.ranks:
        rank.phases["backward"].device_peak_bytes = peak_gib << 30
        rank.phases["backward"].device_retained_bytes = (peak_gib << 30) - MIB
    one = result(version, variant="gradient_checkpointing=non_reentrant", device="sim", run=made)
    one.cell.parameters.update(SIM)
    return one


def test_what_no_longer_fits_its_card_is_out_of_memory_with_the_nearest_release_that_fits() -> None:
    seen = screen(simulated("0.15.0", 40), simulated("0.16.0", 164), simulated("0.16.8", 40), simulated("0.17.0", 40))
    (section,) = seen.sections
    (line,) = section.problems
    assert section.title == "OUT OF MEMORY"
    assert line.releases == "0.16.0"
    assert line.consequence == (
        "llama-3-70b on 32 ranks does not fit A800-80G: needs 164 GiB, was 40.0 GiB. Use 0.16.8."
    )
    assert (line.since, line.until) == ("0.16.0; not in 0.15.0", "0.16.0; not in 0.16.8")
    assert [one.texts for one in seen.overview.headings] == [("0.16.8-0.17.0", "0.16.0", "0.15.0")]
    assert [row.words for row in seen.overview.rows] == [("fits", "OOM", "fits")]


def test_a_leak_that_still_fits_says_how_much_is_to_spare() -> None:
    seen = screen(simulated("0.15.0", 40), simulated("0.16.0", 60))
    (section,) = seen.sections
    assert section.title == "HOLDS MORE MEMORY"
    assert section.problems[0].consequence == (
        "llama-3-70b on 32 ranks fits A800-80G, 17.8 GiB to spare; the smallest card for it is H100-80G, was L40S. "
        "The last release without it is 0.15.0."
    )


def needing(version: str, peak_gib: int) -> Result:
    """With a peak that ends before the phase does."""
    one = simulated(version, peak_gib)
    for rank in one.record.ranks:
        rank.phases["backward"].device_retained_bytes = MIB
    return one


def test_memory_that_takes_a_larger_card_is_no_mere_cost() -> None:
    seen = screen(needing("0.15.0", 20), needing("0.16.0", 60), needing("0.17.0", 20))
    assert seen.headline == "deepspeed 0.15.0 to 0.17.0: 1 that needs a larger card"
    (section,) = seen.sections
    assert section.title == "NEEDS A LARGER CARD"
    assert section.problems[0].consequence == (
        "llama-3-70b on 32 ranks fits A800-80G, 17.8 GiB to spare; the smallest card for it is H100-80G, was L4. "
        "Use 0.17.0."
    )
    assert [row.words for row in seen.overview.rows] == [("fits", "larger", "fits")]


def test_more_memory_on_the_same_card_is_a_cost() -> None:
    seen = screen(needing("0.15.0", 20), needing("0.16.0", 22))
    assert [section.title for section in seen.sections] == ["COSTS MORE"]
    assert [row.words for row in seen.overview.rows] == [("fits",)]


def test_no_release_to_use_is_named_where_the_next_one_fails() -> None:
    def holding(mib: int) -> RunRecord:
        return synthetic.noisy_record(1, held_mib=mib)

    failed = result("0.17.0", outcome=Failed("step", "TypeError: no (engine.py:step)"))
    seen = screen(result("0.15.0", run=holding(0)), result("0.16.0", run=holding(3)), failed)
    lines = {line.releases: line.sentences for section in seen.sections for line in section.problems}
    assert lines["0.16.0"].endswith("The last release without it is 0.15.0.")
    assert lines["0.17.0"].endswith("Use 0.15.0.")


def test_no_release_to_use_is_named_for_what_goes_wrong_now_and_then() -> None:
    made = synthetic.record()
    made.ranks[0].numerics = Numerics(losses=[1.0], loss_error=9.0, right_when_repeated=True)
    (section,) = screen(result("0.15.0"), result("0.16.0", run=made)).sections
    (line,) = section.problems
    assert (
        line.sentences
        == "llama_zero3_backward: loss is wrong: in one of two runs, 9 times the tolerance from plain PyTorch."
    )
    others = "0.16.0; others, which ran once, may go wrong now and then as well"
    assert (line.since, line.until) == (others, others)


def test_what_a_changed_default_causes_names_the_setting_and_no_release() -> None:
    old, new = {"configuration": "old"}, {"configuration": "new"}
    values = {"old": True, "new": False}
    results = [
        result("0.15.0", variant="base", detail_sha256=old),
        result("0.15.0", variant="zero_stage=2", detail_sha256=old),
        result("0.16.0", variant="base", detail_sha256=new, run=synthetic.noisy_record(1, held_mib=90)),
        result("0.16.0", variant="zero_stage=2", detail_sha256=old),
    ]

    def detail_of(one: Result) -> Detail:
        return Detail(configuration={"deepspeed.contiguous_gradients": values[one.detail_sha256["configuration"]]})

    comparison = compare(results, results[0].cell.stack.id, Thresholds(), detail_of)
    (line,) = report_view(report_context(comparison)).screen.sections[0].problems
    assert line.sentences == (
        "llama_zero3_backward/base: backward holds 90.0 MiB more after it ends (46x): 2.00 MiB -> 92.0 MiB; "
        "contiguous_gradients is false where it is not set, was true. Set it; true keeps the old behaviour."
    )
    assert line.release_to_use == ""


def test_defaults_of_a_trainer_that_changed_in_the_same_releases_are_named() -> None:
    old = {"trainer.gradient_checkpointing": True, "trainer.optim": "adamw_torch", "trainer.max_steps": 9}
    new = old | {"trainer.gradient_checkpointing": False, "model.attention": "sdpa"}
    of = {"0.15.0": old, "0.16.0": new, "0.17.0": new | {"trainer.optim": "adamw_torch_fused"}}
    more = synthetic.noisy_record(1, held_mib=90)

    def sentences(*versions: str) -> str:
        results = [
            result(version, detail_sha256={"configuration": version}, run=None if version == "0.15.0" else more)
            for version in versions
        ]

        def detail_of(one: Result) -> Detail:
            return Detail(configuration=of[one.detail_sha256["configuration"]])

        return (
            report_view(report_context(compare(results, results[0].cell.stack.id, Thresholds(), detail_of)))
            .screen.sections[0]
            .problems[0]
            .sentences
        )

    said = "92.0 MiB. Defaults that changed with it, and may be why: gradient_checkpointing (true, now false). "
    assert said in sentences("0.15.0", "0.16.0")
    assert said in sentences("0.15.0", "0.16.0", "0.17.0")  # the optimizer is another one in the last alone


def memory_sentences(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Return what is said of 0.16.0, which holds more memory and has ``new`` settings; 0.15.0 has ``old`` ones."""
    results = [
        result("0.15.0", detail_sha256={"configuration": "0.15.0"}),
        result("0.16.0", detail_sha256={"configuration": "0.16.0"}, run=synthetic.noisy_record(1, held_mib=90)),
    ]
    of = {"0.15.0": old, "0.16.0": new}

    def detail_of(one: Result) -> Detail:
        return Detail(configuration=of[one.detail_sha256["configuration"]])

    sections = report_view(
        report_context(compare(results, results[0].cell.stack.id, Thresholds(), detail_of))
    ).screen.sections
    return " ".join(line.sentences for section in sections for line in section.problems)


def test_a_default_that_cannot_move_memory_is_no_reason_for_it() -> None:
    old = {"trainer.vllm_server_timeout": 120.0, "trainer.warmup_ratio": 0.0, "trainer.learning_rate": 1e-5}
    new = {"trainer.vllm_server_timeout": 240.0, "trainer.warmup_ratio": None, "trainer.learning_rate": 2e-5}
    assert "may be why" not in memory_sentences(old, new)


def test_a_default_of_what_is_not_in_use_is_no_reason() -> None:
    old, new = {"trainer.vllm_mode": "server"}, {"trainer.vllm_mode": "colocate"}
    assert "may be why" not in memory_sentences(old | {"trainer.use_vllm": False}, new | {"trainer.use_vllm": False})
    said = "Defaults that changed with it, and may be why: vllm_mode (server, now colocate)."
    assert said in memory_sentences(old | {"trainer.use_vllm": True}, new | {"trainer.use_vllm": True}).replace('"', "")


def test_the_newer_release_has_the_new_default_whichever_is_the_baseline() -> None:
    old, new = {"trainer.gradient_checkpointing": False}, {"trainer.gradient_checkpointing": True}
    said = "may be why: gradient_checkpointing (false, now true)."
    assert said in memory_sentences(old, new)
    more = {"trainer.gradient_checkpointing": True}, {"trainer.gradient_checkpointing": False}
    results = [
        result("0.15.0", detail_sha256={"configuration": "old"}, run=synthetic.noisy_record(1, held_mib=90)),
        result("0.16.0", detail_sha256={"configuration": "new"}),
    ]
    of = dict(zip(("old", "new"), more, strict=True))
    comparison = compare(
        results,
        results[1].cell.stack.id,
        Thresholds(),
        lambda one: Detail(configuration=of[one.detail_sha256["configuration"]]),
    )
    (line,) = report_view(report_context(comparison)).screen.sections[0].problems
    assert "may be why: gradient_checkpointing (true, now false)." in line.sentences


def test_defaults_that_changed_in_a_release_that_trains_wrong_are_named_where_nothing_tells_whether_they_are_why() -> (
    None
):
    of = {"old": {"deepspeed.gradient_clipping": 0.0}, "new": {"deepspeed.gradient_clipping": 1.0}}
    wrong = synthetic.noisy_record(1)
    numerics = wrong.ranks[0].numerics
    assert numerics is not None
    numerics.parameter_error = 4.0
    results = [
        result("0.15.0", detail_sha256={"configuration": "old"}),
        result("0.16.0", detail_sha256={"configuration": "new"}, run=wrong),
    ]
    comparison = compare(
        results,
        results[0].cell.stack.id,
        Thresholds(),
        lambda one: Detail(configuration=of[one.detail_sha256["configuration"]]),
    )
    (line,) = report_view(report_context(comparison)).screen.sections[0].problems
    assert "Defaults that changed with it, and may be why: gradient_clipping (0.0, now 1.0)." in line.sentences


@pytest.mark.parametrize(("own", "is_why"), [([5.0, 5.0, 5.0], False), ([3.0, 5.0, 5.0], True)])
def test_an_optimizers_default_is_no_reason_for_a_loss_before_its_first_update(own: list[float], is_why: bool) -> None:
    def training(version: str, losses: list[float], optim: str) -> Result:
        made = synthetic.record(ranks=1)
        made.ranks[0].numerics = Numerics(losses=list(losses), learning_rates=[[1e-3]] * 3)
        return result(version, run=made, detail_sha256={"configuration": optim})

    results = [training("0.15.0", [3.0] * 3, "adamw_torch"), training("0.16.0", own, "adamw_torch_fused")]
    comparison = compare(
        results,
        results[0].cell.stack.id,
        Thresholds(),
        lambda one: Detail(configuration={"trainer.optim": one.detail_sha256["configuration"]}),
    )
    (line,) = report_view(report_context(comparison)).screen.sections[0].problems
    assert ("may be why: optim" in line.sentences) is is_why


def test_a_failure_is_said_as_it_was_whatever_its_words() -> None:
    failed = Failed("step", "ValueError: 3 shards; the baseline has 4, as the baseline does")
    (text,) = texts(screen(result("0.15.0"), result("0.16.0", outcome=failed)))
    assert text == f"llama_zero3_backward: failed in step: {failed.signature}."


def test_a_crash_that_cpu_ranks_alone_may_have_says_so() -> None:
    said = "AttributeError: 'Stream' object has no attribute 'record_event' (torch/distributed/fsdp/_fully_shard.py:f)"
    failed = Failed("backward", said, detail=f"Traceback ...\n{OF_PROCESSORS}")
    problem = screen(result("0.15.0"), result("0.16.0", outcome=failed)).problems[0]
    assert problem.consequence.startswith("This may happen on CPU ranks only; --device sim runs the job as on a card.")
    problem = screen(result("0.15.0"), result("0.16.0", outcome=Failed("backward", said))).problems[0]
    assert "CPU ranks" not in problem.consequence


def test_a_program_that_fails_in_every_release_names_other_packages_only_with_their_releases() -> None:
    def consequence(error: str, scenario: str = "train-3f9a1c", **versions: str) -> str:
        failed = result("0.16.4", scenario=scenario, outcome=Failed("init", error))
        cell = msgspec.structs.replace(failed.cell, stack=stack("0.16.4", **versions))
        return screen(msgspec.structs.replace(failed, cell=cell)).problems[0].consequence

    said = "Other packages may pass: --stack transformers-4."
    no_argument = "TypeError: no such argument (train.py:3)"
    assert consequence(no_argument, transformers="5.24.0") == said
    own = "It fails in a line of the program's own: look there first."
    assert consequence(no_argument, transformers="4.57.6") == own
    assert consequence(no_argument) == own
    absent = (
        "ImportError: cannot import name 'HfFolder' from 'huggingface_hub' (huggingface_hub/__init__.py) (utils.py:16)"
    )
    alike = "It imports what huggingface_hub does not have: the compared releases are not at fault."
    assert consequence(absent, transformers="5.24.0") == f"{alike} {said}"
    assert "may pass" not in consequence(absent.replace("huggingface_hub", "numpy"), transformers="5.24.0")
    absent = "ImportError: cannot import name 'X' from 'fms.modules' (fms/modules/__init__.py) (param_init.py:3)"
    assert "may pass" not in consequence(absent, transformers="5.24.0", **{"ibm-fms": "1.13.1"})
    assert "may pass" not in consequence("KeyError: 'images' (train.py:3)", transformers="5.24.0")
    assert consequence("ValueError: got 0 (trl/trainer.py:__init__)", transformers="5.24.0", trl="1.16.0") == ""


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (
            "AssertionError: backward pass is invalid for module in evaluation mode (deepspeed/engine.py:backward)",
            "CANNOT BE TESTED HERE",
        ),
        ("ValueError: 3 rows are too few (train.py:12)", "CANNOT BE TESTED HERE"),
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--evaluation_strategy', "
            "(transformers/hf_argparser.py:parse_args_into_dataclasses)",
            "CANNOT BE TESTED HERE",
        ),
        ("ProgramError: train.py exits with 2: error: unrecognized arguments: --local-rank=0", "CANNOT BE TESTED HERE"),
        ("OSError: /x/adam.so: undefined symbol: _ZN3c10 (deepspeed/ops/op_builder/builder.py:load)", "CRASHES"),
        ("TypeError: got an unexpected keyword argument 'warmup_ratio' (train.py:6)", "CRASHES"),
        ("ValueError: got 0 (deepspeed/runtime/lr_schedules.py:__init__)", "CRASHES"),
    ],
)
def test_a_failure_of_the_program_itself_is_no_crash_of_the_releases(error: str, title: str) -> None:
    def failed(version: str, scenario: str = "train-3f9a1c") -> Result:
        return result(version, scenario=scenario, outcome=Failed("backward", error))

    (section,) = screen(failed("0.15.0"), failed("0.16.0")).sections
    assert section.title.startswith(title)
    said = "It fails alike in every release that was measured: look in the program first."
    assert section.problems[0].consequence.startswith(said) == (section.title == "CANNOT BE TESTED HERE")
    assert "It fails alike in every release that was measured" in section.problems[0].consequence
    (section,) = screen(result("0.15.0", scenario="train-3f9a1c"), failed("0.16.0")).sections
    assert section.title == "CRASHES"  # it passes in another release
    (section,) = screen(failed("0.15.0", "a_scenario"), failed("0.16.0", "a_scenario")).sections
    assert section.title == "CRASHES"  # which is ours


def test_a_simulated_rank_that_gathered_its_own_objects_may_fail_by_them() -> None:
    detail = f"assert base_len == len(v)\n{gathered_at('jsonl.py:730 in count_tokens')}"
    error = Failed("init", "AssertionError (jsonl.py:547)", detail)
    (section,) = screen(result("0.15.0", scenario="train-3f9a1c", outcome=error)).sections
    assert section.problems[0].consequence.startswith(
        "At jsonl.py:730 sim gives a rank its own objects in place of the others', maybe why: --device cpu runs them all."
    )


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (
            "ImportError: cannot import name 'hp' from 'transformers.integrations' (transformers/__init__.py) (train.py:4)",
            "CANNOT BE TESTED HERE",
        ),
        ("ModuleNotFoundError: No module named 'transformers.mpu' (train.py:4)", "CANNOT BE TESTED HERE"),
        ("ImportError: cannot import name 'zero' from 'deepspeed' (deepspeed/__init__.py) (train.py:4)", "CRASHES"),
        ("ImportError: cannot import name 'x' from 'transformers' (transformers/__init__.py) (peft/a.py:b)", "CRASHES"),
    ],
)
@pytest.mark.parametrize("releases", [("0.15.0",), ("0.15.0", "0.16.0")])
def test_a_name_that_a_package_beside_the_releases_lacks_is_no_crash_of_them(
    releases: tuple[str, ...], error: str, title: str
) -> None:
    failed = [result(one, scenario="train-3f9a1c", outcome=Failed("init", error)) for one in releases]
    (section,) = screen(*failed).sections
    assert section.title == title
    said = "It imports what transformers 4.51.3 does not have: the compared releases are not at fault."
    said = said.replace(" 4.51.3", f" {failed[0].cell.stack.versions.get('transformers', '')}".rstrip())
    assert (section.problems[0].consequence == said) == (title != "CRASHES")


@pytest.mark.parametrize(
    ("error", "package"),
    [
        ("OSError: Could not load this library: torchcodec/x.so (torchcodec/_replaced_utils.py:load)", "torchcodec"),
        ("ValueError: float | torch.Tensor is not callable (argbind/argbind.py:build_parser)", "argbind"),
        ("ValidationError: 1 validation error for DeepSpeedConfig (pydantic/main.py:__init__)", ""),
        ("RuntimeError: expected scalar type (torch/nn/functional.py:linear)", ""),
        ("ValueError: got 0 (trl/trainer.py:__init__)", ""),
    ],
)
@pytest.mark.parametrize("releases", [("0.15.0",), ("0.15.0", "0.16.0")])
def test_a_failure_in_a_package_besides_the_trainers_is_no_crash_of_the_releases(
    releases: tuple[str, ...], error: str, package: str
) -> None:
    failed = [result(one, scenario="train-3f9a1c", outcome=Failed("init", error)) for one in releases]
    (section,) = screen(*failed).sections
    assert section.title == ("CANNOT BE TESTED HERE" if package else "CRASHES")
    said = f"It arises in {package}: the compared releases are not at fault."
    assert section.problems[0].consequence.startswith(said) == bool(package)
    (section,) = screen(result("0.14.0", scenario="train-3f9a1c"), *failed).sections
    assert section.title == "CRASHES"  # it passes in another release


@pytest.mark.parametrize(
    ("detail", "package"),
    [
        (refused_by("transformers"), "transformers"),
        (f"{refused_by('peft')}\n{OF_PROCESSORS}", "peft"),
        (refused_by("deepspeed"), ""),
        ("the end of a traceback", None),
    ],
)
@pytest.mark.parametrize("releases", [("0.15.0",), ("0.15.0", "0.16.0")])
def test_a_call_in_a_programs_own_line_is_told_by_the_package_that_does_not_take_it(
    releases: tuple[str, ...], detail: str, package: str | None
) -> None:
    error = Failed("init", "TypeError: f() got an unexpected keyword argument 'x' (train.py:3)", detail)
    failed = [result(one, scenario="train-3f9a1c", outcome=error) for one in releases]
    (section,) = screen(*failed).sections
    alone = package is None and len(releases) == 1
    assert section.title == ("CANNOT BE TESTED HERE" if package or alone else "CRASHES")
    said = f"It calls what {package} {failed[0].cell.stack.versions.get(str(package), '')}".rstrip()
    assert section.problems[0].consequence.startswith(said) == bool(package)
    assert ("look there first" in section.problems[0].consequence) == alone
    (section,) = screen(result("0.14.0", scenario="train-3f9a1c"), *failed).sections
    assert section.title == "CRASHES"  # it passes in another release


@pytest.mark.parametrize(
    ("stage", "place", "title"),
    [
        ("init", "rank 0: train.py:12", "CANNOT BE TESTED HERE"),
        ("init", "rank 0: deepspeed/comm/torch.py:all_reduce, from train.py:12", "CRASHES"),
        ("backward", "rank 0: train.py:12", "CRASHES"),
    ],
)
def test_a_single_release_is_not_blamed_for_a_program_that_waits_before_its_first_step(
    stage: str, place: str, title: str
) -> None:
    waits = TimedOut(stage=stage, limit_s=180.0, whereabouts=(place,))
    (section,) = screen(result("0.16.0", scenario="train-3f9a1c", outcome=waits)).sections
    assert section.title == title
    said = f"It waited at {place}: find out for what, as no release is known to be at fault."
    assert (section.problems[0].consequence == said) == (title != "CRASHES")
    (section,) = screen(result("0.16.0", scenario="a_scenario", outcome=waits)).sections
    assert section.title == "CRASHES"  # which is ours
    (section,) = screen(
        result("0.15.0", scenario="train-3f9a1c"), result("0.16.0", scenario="train-3f9a1c", outcome=waits)
    ).sections
    assert section.title == "CRASHES"


def test_conditions_are_what_all_variants_name() -> None:
    assert str(shared_conditions(["zero_stage=1,lora_rank=8", "zero_stage=2,lora_rank=8"])) == "ZeRO-1 or ZeRO-2, LoRA"
    assert str(shared_conditions(["zero_stage=1", "base"])) == ""
    assert str(shared_conditions(["gradient_clipping=none"])) == "clipping not set"
    assert str(shared_conditions(["gradient_clipping=none", "gradient_clipping=1.0"])) == ""


def test_nothing_worse_is_the_headline_without_problems() -> None:
    seen = screen(result("0.15.0"), result("0.16.0"))
    assert (seen.headline, seen.sections) == ("Nothing is worse than the baseline", ())
    assert seen.upgrade == "dsregress audit -r requirements.txt --to 0.16.0"


def test_of_a_package_that_no_advisory_is_about_the_stored_results_are_compared() -> None:
    cells = [result("0.16.0").cell for _ in range(2)]
    stacks = [stack("0.16.0", datasets=version) for version in ("0.20.0", "0.21.2")]
    made = [msgspec.structs.replace(one, stack=own) for one, own in zip(cells, stacks, strict=True)]
    assert screen(*(result("0.16.0", cell=one) for one in made)).upgrade == "dsregress compare YOURS 0.21.2"


def test_a_release_that_crashes_is_no_goal_of_an_upgrade() -> None:
    crash = Failed("init", "KeyError: 'x'")
    assert screen(result("0.15.0"), result("0.16.0", outcome=crash)).upgrade.endswith("--to 0.15.0")
    assert screen(result("0.15.0", outcome=crash), result("0.16.0", outcome=crash)).upgrade == ""


def on(stage: int, version: str, scenario: str = "a", **changes: Any) -> Result:
    one = result(version, scenario=scenario, variant=f"zero_stage={stage}", **changes)
    one.cell.parameters.update(zero_stage=stage)
    return one


def program(version: str, device: str, *, tiny: bool = False, mib: int = 0) -> Result:
    one = result(version, scenario="train-3f9a1c", variant="base", device=device, run=held(mib))
    one.cell.parameters.update(program="python train.py", world_size=1, tiny=tiny)
    return one


def test_losses_that_are_not_compared_since_the_data_are_other_ones_are_said_where_nothing_is_worse() -> None:
    def fed(version: str, *rows: float) -> Result:
        made = synthetic.record(ranks=1)
        made.ranks[0].numerics = Numerics(losses=[rows[0]] * 3, learning_rates=[[1e-3]] * 3)
        made.ranks[0].fed = [
            FedBatch(step=step, rows=1, length=0, values={"0": [[one, one]]}) for step, one in enumerate(rows, 1)
        ]
        return result(version, run=made)

    seen = screen(fed("0.15.0", 1.0, 2.0, 3.0), fed("0.16.0", 3.0, 1.0, 2.0))
    assert (seen.headline, seen.sections) == ("Nothing is worse than the baseline", ())
    said = "0.16.0: the same rows in another order, from step 1 on, so that losses and norms are not compared."
    assert said in seen.basis


def test_what_a_simulation_does_not_compare_is_said_with_how_to() -> None:
    said = "Losses and gradients are not compared in sim: --device cpu --tiny does."
    assert screen(program("0.15.0", "sim"), program("0.16.0", "sim")).basis.endswith(said)
    both = [program(version, device) for version in ("0.15.0", "0.16.0") for device in ("sim", "cpu")]
    assert said not in screen(*both).basis
    assert said not in screen(result("0.15.0", device="sim"), result("0.16.0", device="sim")).basis


def test_slightly_more_memory_of_a_shrunk_model_is_a_cost_and_no_leak() -> None:
    def leaking(mib: int, *, tiny: bool) -> tuple[str, str]:
        before, after = (program(f"0.1{at}.0", "cpu", tiny=tiny, mib=40 + at * mib) for at in (0, 1))
        (section,) = screen(before, after).sections
        return section.title, section.problems[0].consequence

    title, consequence = leaking(2, tiny=True)
    assert title == "COSTS MORE"
    assert consequence.startswith("This is a shrunk model; --device sim measures the job as it is.")
    for mib, tiny in ((2, False), (60, True)):  # 2.4 times as much grows with the model
        title, consequence = leaking(mib, tiny=tiny)
        assert title == "HOLDS MORE MEMORY"
        assert "shrunk" not in consequence


def held(mib: int) -> RunRecord:
    return synthetic.noisy_record(1, held_mib=mib)


def texts(seen: FirstScreen) -> list[str]:
    return [line.text for section in seen.sections for line in section.problems]


def test_a_condition_is_named_only_where_no_free_workload_meets_it() -> None:
    two, three = (on(2, "0.15.0"), on(2, "0.16.0", run=held(9))), (on(3, "0.15.0"), on(3, "0.16.0"))
    assert texts(screen(*two, *three))[0].startswith("ZeRO-2: backward holds")
    other = (on(2, "0.15.0", "b"), on(2, "0.16.0", "b"))
    assert texts(screen(*two, *other))[0].startswith("a: backward holds")
    assert texts(screen(*two, *other, *three))[0].startswith("a, ZeRO-2: backward holds")


def test_parameters_of_several_scenarios_are_no_condition_where_they_differ_or_one_has_them_not() -> None:
    def staged(version: str, scenario: str, run: RunRecord | None = None, **parameters: str) -> Result:
        one = result(version, scenario=scenario, **({} if run is None else {"run": run}))
        one.cell.parameters.update(parameters)
        return one

    def affected(scenario: str, **parameters: str) -> tuple[Result, Result]:
        return staged("0.15.0", scenario, **parameters), staged("0.16.0", scenario, held(9), **parameters)

    free = staged("0.15.0", "free", data="text"), staged("0.16.0", "free", data="text")
    alike = screen(*affected("a", data="pairs"), *affected("b", data="pairs"), *free)
    assert texts(alike)[0].startswith("data=pairs (2 workloads): backward holds")
    listed = "a/gradient_checkpointing=non_reentrant, b/gradient_checkpointing=non_reentrant"
    several = screen(*affected("a", data="pairs"), *affected("b", data="answers"), *free)
    assert texts(several)[0].startswith(f"{listed}: backward holds")
    without = screen(*affected("a", data="pairs"), *affected("b"), *free)
    assert texts(without)[0].startswith(f"{listed}: backward holds")


def test_a_number_is_that_of_the_newest_release_beside_the_last_one_without_the_problem() -> None:
    def calls(version: str, times: float) -> Result:
        made = synthetic.record()
        for rank in made.ranks:
            rank.phases["backward"].host_calls = int(100_000 * times)
        return result(version, run=made)

    seen = screen(calls("0.15.0", 3), calls("0.16.0", 6), calls("0.17.0", 12))
    assert any(
        "backward makes 600,000 more Python and C calls than 0.16.0 (2x): 600,000 -> 1,200,000" in text
        for text in texts(seen)
    )


def test_what_the_baseline_alone_has_is_counted_as_fixed_and_a_run_that_passes_then_says_so() -> None:
    failed = Failed("step", "TypeError: no (engine.py:step)")
    seen = screen(on(2, "0.15.0", outcome=failed), on(2, "0.16.0"), on(3, "0.15.0"), on(3, "0.16.0", run=held(9)))
    assert seen.headline == "deepspeed 0.15.0 to 0.16.0: 1 memory leak; fixed since 0.15.0: 1 crash"
    assert "baseline itself" not in " ".join(texts(seen))
    assert {row.words for row in seen.overview.rows} == {("passes", "CRASH"), ("LEAK", "same")}


def test_a_baseline_beside_failures_alone_passes() -> None:
    failed = Failed("step", "TypeError: no (engine.py:step)")
    assert [row.words for row in screen(result("0.15.0"), result("0.16.0", outcome=failed)).overview.rows] == [
        ("CRASH", "passes")
    ]


def test_a_release_without_a_verdict_ends_a_range() -> None:
    crashed = result("0.17.0", outcome=Failed("step", "TypeError: no (engine.py:step)"))
    runs = [result(version, run=held(3)) for version in ("0.16.0", "0.16.1", "0.18.0", "0.18.1")]
    seen = screen(result("0.15.0", run=held(0)), *runs, crashed)
    assert "0.16.0, 0.16.1, 0.18.0, 0.18.1" in [line.releases for s in seen.sections for line in s.problems]


def test_a_run_that_costs_more_but_fits_keeps_its_word_and_one_that_never_fitted_is_not_out_of_memory() -> None:
    fitting = screen(simulated("0.15.0", 40), with_more_collectives(simulated("0.16.0", 40)))
    assert [row.words for row in fitting.overview.rows] == [("fits",)]
    too_large = screen(simulated("0.15.0", 164), simulated("0.16.0", 164))
    assert [row.words for row in too_large.overview.rows] == [("no fit",)]


def with_more_collectives(one: Result) -> Result:
    assert one.record is not None
    for rank in one.record.ranks:
        rank.phases["backward"].collectives = {"all_gather": [1000, 64 * MIB]}
    return one


def test_a_workload_whose_baseline_does_not_fit_rules_no_release_out() -> None:
    def small(version: str, gib: int) -> Result:
        one = simulated(version, gib)
        one.cell.parameters["gpu"] = "V100-32G"
        return one

    def elsewhere(one: Result) -> Result:
        return msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, scenario="other"))

    peaks = {"0.15.0": 40, "0.16.0": 164, "0.17.0": 40}
    seen = screen(
        *(simulated(version, gib) for version, gib in peaks.items()),
        *(elsewhere(small(version, gib)) for version, gib in peaks.items()),
    )
    assert any(line.consequence.endswith("Use 0.17.0.") for s in seen.sections for line in s.problems)


def test_rows_of_one_label_name_their_scenarios() -> None:
    seen = screen(
        on(3, "0.15.0", "a"),
        on(3, "0.16.0", "a", run=held(9)),
        on(3, "0.15.0", "b"),
        on(3, "0.16.0", "b"),
    )
    assert sorted(str(row.label) for row in seen.overview.rows) == [
        "a (1), llama-tiny, ZeRO-3",
        "b (1), llama-tiny, ZeRO-3",
    ]


def combined(deepspeed: str, trl: str, held_mib: int = 0, **changes: Any) -> Result:
    """Of a stack in which two packages vary."""
    one = result(deepspeed, run=None if changes else synthetic.noisy_record(1, held_mib=held_mib), **changes)
    stack = synthetic.stack(deepspeed, trl=trl)
    labelled = msgspec.structs.replace(stack, label=f"{deepspeed} + trl {trl}")
    return msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, stack=labelled))


def test_of_several_packages_each_has_a_line_of_the_overview_and_problems_name_the_one_that_matters() -> None:
    failed = Failed("init", "AttributeError: no (utils.py:_fused_forward)")
    seen = screen(
        combined("0.15.0", "1.14.2"),
        combined("0.16.0", "1.14.2", held_mib=9),
        combined("0.16.4", "1.14.2", held_mib=9),
        combined("0.16.7", "1.14.2", held_mib=9),
        combined("0.18.9", "1.13.0"),
        combined("0.18.9", "1.14.2"),
        combined("0.18.9", "1.15.0", outcome=failed),
    )
    assert [(one.label, one.texts) for one in seen.overview.headings] == [
        ("deepspeed", ("0.18.9", "0.18.9", "0.16.0-0.16.7", "0.15.0")),
        ("trl", ("1.15.0", "1.13.0-1.14.2", "1.14.2", "1.14.2")),
    ]
    crash, leak = (line for line in seen.problems if not line.kind.is_cost)
    assert (crash.releases, crash.consequence) == ("trl 1.15.0", "Use trl 1.14.2.")
    assert (leak.releases, leak.consequence) == ("deepspeed 0.16.0 to 0.16.7", "Use deepspeed 0.18.9 trl 1.13.0.")


def test_where_no_package_alone_tells_who_has_it_the_stacks_are_counted() -> None:
    seen = screen(
        combined("0.15.0", "1.0"),
        combined("0.16.0", "1.0", held_mib=9),
        combined("0.16.0", "1.1", held_mib=9),
        combined("0.17.0", "1.0", held_mib=9),
        combined("0.17.0", "1.1"),
        combined("0.18.0", "1.1"),
        combined("0.18.0", "1.2"),
    )
    assert [line.releases for line in seen.problems if line.kind.name == "LEAK"] == ["3 of 7 stacks"]
