"""What ZeRO says that a rank must hold: every term, at sizes that can be done in the head."""

from __future__ import annotations

import dataclasses

import pytest

from dsregress.probe.oracles.ideal import TERMS, IdealJob, ModelSizes, PlainMemory, from_configuration, ideal_memory

#: 1,000 + 500 + 10 elements; one module holds 1,000 of them.
MODEL = ModelSizes(numels=[1000, 500, 10], largest_module=1000, trained=[1000, 500, 10])
JOB = IdealJob(
    world_size=4,
    element_bytes=2,
    reduce_bucket_size=100,
    persistence_threshold=10,
    max_live_parameters=200,
    max_reuse_distance=100,
    prefetch_bucket_size=50,
    sub_group_size=300,
)
PLAIN = PlainMemory(batch=64, forward_peak=7000, forward_retained=6000, backward_peak=8000)


def test_every_term_is_explained_with_its_source() -> None:
    used = {
        term
        for stage in (1, 2, 3)
        for offload in (False, True)
        for terms in ideal_memory(
            MODEL,
            dataclasses.replace(JOB, stage=stage, offload_optimizer=offload, hpz_partition_size=2, cublas_bytes=1),
            PLAIN,
        ).values()
        for term in terms
    }
    assert used == set(TERMS)


def test_stage_3_holds_its_shares_the_bucket_and_what_is_too_small_to_share() -> None:
    held = ideal_memory(MODEL, JOB, PLAIN)
    share = 250 + 125 + 3  # each parameter is cut by itself, the last one padded from 2.5
    states = {"parameters": 2 * share, "persistent": 20, "buckets": 200, "master": 4 * share, "gradients": 2 * share}
    assert held["init.device_retained_bytes"] == states
    assert held["step.device_retained_bytes"] == {**states, "optimizer": 8 * share, "batch": 64}


@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_gpu_holds_two_cublas_workspaces_from_the_first_step_on(stage: int, offload: bool) -> None:
    job = dataclasses.replace(JOB, stage=stage, offload_optimizer=offload)
    on_cpu, on_gpu = (ideal_memory(MODEL, dataclasses.replace(job, cublas_bytes=each), PLAIN) for each in (0, 32 << 20))
    more = {name: sum(terms.values()) - sum(on_cpu[name].values()) for name, terms in on_gpu.items()}
    assert more == {name: 64 << 20 if ".device_" in name and not name.startswith("init.") else 0 for name in on_cpu}


def test_the_window_is_what_is_kept_and_fetched_ahead_and_the_module_at_work_but_never_more_than_the_model() -> None:
    window = ideal_memory(MODEL, JOB, PLAIN)["backward.device_retained_bytes"]["window"]
    assert window == 2 * (200 + 50 + 1000)
    wide = dataclasses.replace(JOB, max_reuse_distance=10**9)
    assert ideal_memory(MODEL, wide, PLAIN)["backward.device_retained_bytes"]["window"] == 2 * 1500


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_what_is_not_trained_has_no_states_but_its_weights(stage: int) -> None:
    job = dataclasses.replace(JOB, stage=stage, persistence_threshold=0)
    frozen = dataclasses.replace(MODEL, trained=[10])
    held, all_held = ideal_memory(frozen, job, PLAIN), ideal_memory(MODEL, job, PLAIN)
    whole, some = all_held["step.device_retained_bytes"], held["step.device_retained_bytes"]
    assert some["parameters"] == whole["parameters"]
    share = 3 if stage == 3 else 4  # of ten elements: padded for each parameter, or to twice the four ranks
    assert (some["master"], some["optimizer"]) == (4 * share, 8 * share)
    assert held["backward.device_peak_bytes"]["in_flight"] == 20


def test_a_second_backward_of_a_micro_batch_finds_the_gradients_of_the_first() -> None:
    job = dataclasses.replace(JOB, stage=2)
    once, twice = ideal_memory(MODEL, job, PLAIN), ideal_memory(MODEL, dataclasses.replace(job, backwards=2), PLAIN)
    assert "gradients" not in once["forward.device_retained_bytes"]
    assert twice["forward.device_retained_bytes"]["gradients"] == once["backward.device_retained_bytes"]["gradients"]


def test_activations_are_those_of_plain_pytorch() -> None:
    held = ideal_memory(MODEL, JOB, PLAIN)
    assert held["forward.device_retained_bytes"]["activations"] == 6000
    assert held["forward.device_peak_bytes"]["activations"] == 7000
    assert held["backward.device_peak_bytes"]["activations"] == 8000
    assert "activations" not in held["backward.device_retained_bytes"]
    assert held["backward.device_peak_bytes"]["in_flight"] == 2000


def test_without_measured_activations_only_what_does_not_depend_on_them_is_reported() -> None:
    assert set(ideal_memory(MODEL, JOB, None)) == {
        "init.device_retained_bytes", "backward.device_retained_bytes", "step.device_retained_bytes",
        "step.device_peak_bytes",
    }  # fmt: skip


def test_the_optimizer_works_on_a_sub_group_at_a_time() -> None:
    peak = ideal_memory(MODEL, JOB, PLAIN)["step.device_peak_bytes"]
    assert peak["workspace"] == 378 * 12  # the share is smaller than 300 elements and the parameter that fills them
    small = dataclasses.replace(JOB, sub_group_size=50)
    assert ideal_memory(MODEL, small, PLAIN)["step.device_peak_bytes"]["workspace"] == (50 + 250) * 12


def test_an_offloaded_optimizer_is_on_the_host_with_its_gradients() -> None:
    held = ideal_memory(MODEL, dataclasses.replace(JOB, offload_optimizer=True), PLAIN)
    assert held["init.host_retained_bytes"] == {"master": 4 * 378, "gradients": 6 * 378}
    assert held["step.host_retained_bytes"]["optimizer"] == 8 * 378
    assert held["step.host_peak_bytes"]["workspace"] == 8 * 378
    assert set(held["step.device_retained_bytes"]) == {"parameters", "persistent", "buckets", "batch"}
    assert "workspace" not in held["step.device_peak_bytes"]


@pytest.mark.parametrize("stage", [1, 2])
def test_below_stage_3_an_offloaded_gradient_has_a_buffer_of_the_largest_parameter_on_each_side(stage: int) -> None:
    job = dataclasses.replace(JOB, stage=stage, offload_optimizer=True)
    held = ideal_memory(MODEL, job, PLAIN)
    for phase in ("init", "backward", "step"):
        assert held[f"{phase}.device_retained_bytes"]["staging"] == 2 * 1000
        assert held[f"{phase}.host_retained_bytes"]["staging"] == 2 * 1000
    assert ideal_memory(MODEL, job, PLAIN, one_memory=True)["step.device_retained_bytes"]["staging"] == 2 * 2 * 1000


def test_offloaded_parameters_are_on_the_host_as_well() -> None:
    held = ideal_memory(MODEL, dataclasses.replace(JOB, offload_optimizer=True, offload_param=True), PLAIN)
    assert held["init.host_retained_bytes"]["parameters"] == 2 * 378
    assert "parameters" not in held["init.device_retained_bytes"]


def test_where_the_cpu_is_the_accelerator_there_is_one_memory() -> None:
    held = ideal_memory(MODEL, dataclasses.replace(JOB, offload_optimizer=True), PLAIN, one_memory=True)
    assert not [name for name in held if "host" in name]
    assert held["init.device_retained_bytes"]["master"] == 4 * 378
    assert held["step.device_retained_bytes"]["optimizer"] == 8 * 378


@pytest.mark.parametrize(("stage", "gradients"), [(1, 2 * 1510), (2, 2 * 378)])
def test_below_stage_3_parameters_are_whole_and_stage_2_shares_gradients(stage: int, gradients: int) -> None:
    held = ideal_memory(MODEL, dataclasses.replace(JOB, stage=stage), PLAIN)
    assert held["init.device_retained_bytes"] == {"parameters": 3020, "master": 4 * 378}  # 1,510 padded to 1,512
    after = held["backward.device_retained_bytes"]
    assert (after["gradients"], after["buckets"], after["in_flight"]) == (gradients, 400, 2000)
    assert "window" not in after
    assert "gradients" not in held["step.device_retained_bytes"]


def test_gradients_that_are_kept_in_fp32_take_four_bytes() -> None:
    wide = dataclasses.replace(JOB, gradient_bytes=4)
    assert ideal_memory(MODEL, wide, PLAIN)["init.device_retained_bytes"]["gradients"] == 4 * 378
    whole = ideal_memory(MODEL, dataclasses.replace(wide, stage=1), PLAIN)
    assert whole["init.device_retained_bytes"]["gradients"] == 4 * 1510
    assert whole["backward.device_retained_bytes"]["gradients"] == (4 + 2) * 1510  # those that arrive, and their sum


def test_gradients_wait_for_the_next_micro_batch() -> None:
    several = dataclasses.replace(JOB, stage=2, micro_batches=3)
    held = ideal_memory(MODEL, several, PLAIN)
    assert held["forward.device_retained_bytes"]["gradients"] == 2 * 378
    assert held["step.device_retained_bytes"]["batch"] == 3 * 64


def test_hpz_keeps_a_second_share_within_the_node() -> None:
    held = ideal_memory(MODEL, dataclasses.replace(JOB, hpz_partition_size=2), PLAIN)
    assert held["init.device_retained_bytes"]["secondary"] == 2 * (500 + 250 + 5)


def test_more_ranks_hold_less_and_one_holds_everything() -> None:
    def states(ranks: int) -> int:
        return sum(
            ideal_memory(MODEL, dataclasses.replace(JOB, world_size=ranks), None)["init.device_retained_bytes"].values()
        )

    assert states(1) - 220 == 8 * 1510
    assert [states(n) for n in (1, 2, 4, 8)] == sorted((states(n) for n in (1, 2, 4, 8)), reverse=True)


def test_without_zero_there_is_nothing_to_say() -> None:
    assert ideal_memory(MODEL, dataclasses.replace(JOB, stage=0), PLAIN) == {}


def test_a_job_is_read_off_deepspeeds_configuration_and_its_documented_defaults() -> None:
    job = from_configuration(
        {"stage": 3, "reduce_bucket_size": 16, "stage3_max_live_parameters": 7, "offload_param": {"device": "cpu"}},
        world_size=8, element_bytes=2, gradient_bytes=0, micro_batches=2,
    )  # fmt: skip
    assert (job.stage, job.reduce_bucket_size, job.max_live_parameters, job.offload_param) == (3, 16, 7, True)
    assert (job.max_reuse_distance, job.prefetch_bucket_size, job.persistence_threshold) == (10**9, 5 * 10**7, 10**5)
    assert (job.sub_group_size, job.micro_batches, job.offload_optimizer) == (10**9, 2, False)
