"""Several things that differ in one release are one problem: what comes first leads, and the rest is told with it."""

from __future__ import annotations

from typing import Any

from dsregress.compare import ProblemKind, Thresholds, compare
from dsregress.model import Result
from dsregress.probe.border.wire import Numerics, RunRecord, SavedTensors
from dsregress.report.context import report_context
from dsregress.report.problem_lines import ProblemLine
from dsregress.report.report_view import report_view
from tests.builders import synthetic
from tests.builders.synthetic import result

HEAD = SavedTensors(name="classifier.weight", dtype="float32", shape=[2, 64], count=1, mean=0.02)
PROMPT = SavedTensors(name="prompt.weight", dtype="float32", shape=[8, 64], count=1, mean=0.02)


def run(*saved: SavedTensors, held_mib: int = 0, **numbers: Any) -> RunRecord:
    made = synthetic.noisy_record(1, held_mib=held_mib)
    fields = {"losses": [2.3, 2.2], "gradient_norms": [1.2, 1.1], "learning_rates": [[1e-4], [1e-4]]}
    made.ranks[0].numerics = Numerics(**fields | numbers)
    made.ranks[0].saved = list(saved)
    return made


def lines(base: RunRecord, *own: RunRecord) -> list[ProblemLine]:
    results: list[Result] = [
        result(f"0.{number}.0", scenario="train-3f9a1c", variant="base", run=made)
        for number, made in enumerate((base, *own), 15)
    ]
    compared = compare(results, results[0].cell.stack.id, Thresholds(), lambda _: None)
    screen = report_view(report_context(compared)).screen
    return [line for section in screen.sections for line in section.problems]


def test_a_dtype_leads_the_loss_that_is_lost_by_it_and_the_remedy_is_the_argument() -> None:
    full = {"dtype": "float32", "weight_bits": [32.0, 32.0]}
    half = {"dtype": "float16", "weight_bits": [16.0, 16.0]}
    (line,) = lines(run(**full), run(losses=[2.3, None], **half))
    assert line.kind is ProblemKind.WRONG
    assert line.sentences == (
        "train-3f9a1c: the weights are float16, were float32; with it, the loss is wrong: not a number. "
        "dtype=torch.float32 where the model is loaded keeps the old precision."
    )


def test_memory_follows_from_a_dtype() -> None:
    (line,) = lines(run(dtype="float16"), run(held_mib=90, dtype="float32"))
    assert line.kind is ProblemKind.DIFFERENT
    assert line.text == (
        "train-3f9a1c: the weights are float32, were float16; with it, backward holds 90.0 MiB more after it ends "
        "(46x): 2.00 MiB -> 92.0 MiB."
    )


def test_a_head_that_is_frozen_leads_the_norm_and_what_is_not_saved() -> None:
    base = run(HEAD, PROMPT, trained={"classifier.weight": 128, "prompt.weight": 512})
    (line,) = lines(base, run(PROMPT, gradient_norms=[0.07, 0.07], trained={"prompt.weight": 512}))
    assert line.kind is ProblemKind.DIFFERENT
    assert line.text == (
        "train-3f9a1c: 128 weights are no longer trained (classifier.weight); with it, "
        "the gradient norm of step 1 is 0.07, was 1.2 (18.8 tolerances); 1 of 2 tensors not saved (classifier.weight)."
    )


def test_a_head_that_is_cut_from_the_loss_is_named_as_a_frozen_one_is() -> None:
    both = {"classifier.weight": 128, "prompt.weight": 512}
    cut = run(HEAD, PROMPT, gradient_norms=[0.07, 0.07], trained=both, still=["classifier.weight"])
    (line,) = lines(run(HEAD, PROMPT, trained=both), cut)
    assert line.text.startswith(
        "train-3f9a1c: 128 weights are no longer trained (classifier.weight); with it, the gradient norm"
    )


def test_weights_that_move_in_neither_release_say_nothing() -> None:
    both = {"trained": {"classifier.weight": 128, "unused.weight": 64}, "still": ["unused.weight"]}
    assert lines(run(**both), run(**both)) == []


def test_tensors_that_a_release_makes_one_of_train_the_same() -> None:
    assert lines(run(trained={"experts.*.weight": 64}), run(trained={"experts.weight": 64})) == []


def test_what_is_not_saved_is_told_with_the_norm_that_differs() -> None:
    (line,) = lines(run(HEAD, PROMPT), run(PROMPT, gradient_norms=[0.07, 0.07]))
    assert line.text.endswith("was 1.2 (18.8 tolerances); with it, 1 of 2 tensors not saved (classifier.weight).")


def test_a_release_that_is_far_off_has_its_own_line_above_one_that_is_near() -> None:
    """Norms as dropout makes them, and in between a release whose gradient is seventy times too small."""
    base, far, near = ([2.287, 1.792], [0.032, 0.030], [1.935, 2.126])
    found = lines(*(run(gradient_norms=norms) for norms in (base, far, near)))
    assert [(line.releases, line.text.partition("the gradient norm ")[2]) for line in found] == [
        ("0.16.0", "of step 1 is 0.032, was 2.287 (19.7 tolerances)."),
        ("0.17.0", "of step 2 is 2.126, was 1.792 (3.1 tolerances)."),
    ]


def test_a_tensor_that_is_not_saved_stands_above_memory() -> None:
    found = lines(run(HEAD, PROMPT), run(PROMPT, held_mib=90))
    assert [line.kind for line in found] == [ProblemKind.SAVES, ProblemKind.LEAK]


def test_memory_is_a_problem_of_its_own_where_only_a_norm_differs() -> None:
    found = lines(run(), run(held_mib=90, gradient_norms=[0.07, 0.07]))
    assert [line.kind for line in found] == [ProblemKind.DIFFERENT, ProblemKind.LEAK]


def test_a_norm_of_0_in_every_step_is_wrong_whatever_the_baseline_has() -> None:
    (line,) = lines(run(), run(gradient_norms=[0.0, 0.0]))
    assert line.kind is ProblemKind.WRONG
    assert line.text == (
        "train-3f9a1c: gradient norm is wrong: 0 in every step, so nothing is trained; with it, "
        "the gradient norm of step 1 is 0, was 1.2 (20.0 tolerances)."
    )
    assert [line.releases for line in lines(run(gradient_norms=[0.0, 0.0]), run())] == ["0.15.0"]


def test_a_norm_of_0_is_right_without_a_loss_and_where_fp16_skips_the_step() -> None:
    assert (
        lines(run(losses=[0.0, 0.0], gradient_norms=[0.0, 0.0]), run(losses=[0.0, 0.0], gradient_norms=[0.0, 0.0]))
        == []
    )
    skipped: dict[str, Any] = {"gradient_norms": [0.0, 0.0], "skipped_steps": 2, "loss_scales": [4.0, 2.0]}
    assert lines(run(**skipped), run(**skipped)) == []


def test_a_learning_rate_leads_the_loss_of_a_later_step() -> None:
    (line,) = lines(run(), run(learning_rates=[[2e-4], [2e-4]], losses=[2.3, 9.0]))
    said = "training differs from the baseline: the learning rate of step 1 is 0.0002, was 0.0001 (50.0 tolerances)."
    assert line.text == f"train-3f9a1c: {said}"
