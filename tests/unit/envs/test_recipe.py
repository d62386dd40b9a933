"""What a lock means on a machine with and without a GPU."""

from __future__ import annotations

from dsregress.envs.recipe import CpuBuilds, built_for_cpu, recipe, torch_version
from dsregress.versions import locking

LOCK = (
    "cuda-bindings==13.4.4 ; sys_platform == 'linux'",
    "cuda-toolkit==13.0.3.0 ; sys_platform == 'linux'",
    "deepspeed==0.16.4",
    "nvidia-cublas==13.1.1.3 ; sys_platform == 'linux'",
    "nvidia-cusparselt-cu13==0.8.1 ; sys_platform == 'linux'",
    "nvidia-ml-py==13.615.71",
    "torch==2.13.0",
    "triton==3.7.1 ; python_full_version < '3.15' and sys_platform == 'linux'",
)


def test_without_a_gpu_the_cpu_build_replaces_torch_and_its_cuda_packages() -> None:
    result = recipe(LOCK, gpu=False, cpu_builds=CpuBuilds(requirements={"torch": "torch==2.13.0+cpu"}))
    assert result.requirements == ("deepspeed==0.16.4", "nvidia-ml-py==13.615.71", "torch==2.13.0+cpu")
    assert result.torch == "cpu"


def test_what_only_loads_beside_its_own_torch_is_built_for_the_cpu_as_well() -> None:
    lock = ("torch==2.13.0", "torchmetrics==1.0", "torchvision==0.28.0")
    builds = {"torch": "torch==2.13.0+cpu", "torchvision": "torchvision==0.28.0+cpu"}
    assert built_for_cpu(lock) == {"torch": "2.13.0", "torchvision": "0.28.0"}
    made = recipe(lock, gpu=False, cpu_builds=CpuBuilds(requirements=builds))
    assert made.requirements == ("torch==2.13.0+cpu", "torchmetrics==1.0", "torchvision==0.28.0+cpu")


def test_with_a_gpu_the_lock_is_installed_as_it_is() -> None:
    assert (
        recipe(LOCK, gpu=True, cpu_builds=CpuBuilds(requirements={"torch": "torch==2.13.0+cpu"})).requirements == LOCK
    )


def test_where_no_cpu_build_can_be_had_the_plain_wheel_keeps_what_it_needs_to_be_imported() -> None:
    result = recipe(LOCK, gpu=False, cpu_builds=CpuBuilds())
    assert (result.requirements, result.torch) == (LOCK, "cuda")
    assert result.notes == (
        "torch 2.13.0: its build for the CPU is in no index: installed with its CUDA packages, 4 GB more",
    )


def test_an_index_that_could_not_be_asked_for_the_cpu_build_is_named() -> None:
    result = recipe(LOCK, gpu=False, cpu_builds=CpuBuilds(unknown="no package index can be reached (dns error)"))
    assert result.notes == (
        "torch 2.13.0: its build for the CPU could not be looked up (no package index can be reached (dns error)): "
        "installed with its CUDA packages, 4 GB more",
    )


def test_a_stack_without_torch_is_left_alone() -> None:
    assert recipe(("mine==1.0",), gpu=False, cpu_builds=CpuBuilds()).requirements == ("mine==1.0",)


def test_the_committed_locks_lose_every_cuda_package_on_a_machine_without_a_gpu() -> None:
    files = sorted(locking.FOLDER.glob("torch*.txt"))
    assert len(files) > 10
    for file in files:
        lines = tuple(line for line in file.read_text().splitlines() if not line.startswith("#"))
        version = torch_version(lines)
        kept = recipe(
            lines, gpu=False, cpu_builds=CpuBuilds(requirements={"torch": f"torch=={version}+cpu"})
        ).requirements
        assert [line for line in kept if line.startswith(("nvidia-", "cuda-", "triton"))] == [
            line for line in lines if line.startswith("nvidia-ml-py")
        ]
        assert f"torch=={version}+cpu" in kept
