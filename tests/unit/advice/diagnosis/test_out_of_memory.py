"""Messages of memory that ran out, as people posted them."""

from __future__ import annotations

import pytest

from dsregress.advice.diagnosis import out_of_memory
from dsregress.advice.diagnosis.out_of_memory import MemoryMessage

GIB = 1 << 30
MIB = 1 << 20


def read(text: str) -> MemoryMessage:
    found = out_of_memory.read_memory_message(text)
    assert found is not None
    return found


def test_the_text_since_torch_2_1() -> None:
    # meta-llama/llama#918; "capacty" is torch 2.1's spelling
    found = read(
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 3 has a total capacty of 15.77 "
        "GiB of which 289.38 MiB is free. Including non-PyTorch memory, this process has 15.49 GiB memory in use. Of the "
        "allocated memory 14.66 GiB is allocated by PyTorch, and 483.75 MiB is reserved by PyTorch but unallocated."
    )
    assert found.gpu == 3
    assert found.requested is not None
    assert (found.requested.text, found.requested.nbytes) == ("448.00 MiB", 448 * MIB)
    assert found.others_bytes == 0
    assert found.outside_bytes == pytest.approx(15.49 * GIB - 14.66 * GIB - 483.75 * MIB)


def test_the_text_before_it() -> None:
    # CarperAI/trlx#266
    found = read(
        "RuntimeError: CUDA out of memory. Tried to allocate 954.00 MiB (GPU 0; 31.75 GiB total capacity; 29.99 GiB already "
        "allocated; 445.94 MiB free; 30.27 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try"
    )
    assert found.capacity is not None
    assert found.free is not None
    assert found.unallocated is not None
    assert (found.gpu, found.capacity.text, found.free.text) == (0, "31.75 GiB", "445.94 MiB")
    assert found.unallocated.nbytes == pytest.approx(0.28 * GIB)
    assert found.others_bytes is None  # it does not say


def test_a_container_lists_its_own_process_among_the_others() -> None:
    # huggingface/trl#4237: 6.79 GiB is what holds the 4.50 and 2.14 of PyTorch
    found = read(
        "Tried to allocate 2.11 GiB. GPU 0 has a total capacity of 14.74 GiB of which 1.65 GiB is free. Process 19066 has "
        "6.79 GiB memory in use. Process 19069 has 514.00 MiB memory in use. Process 19060 has 4.93 GiB memory in use. "
        "Process 19063 has 894.00 MiB memory in use. Of the allocated memory 4.50 GiB is allocated by PyTorch, and 2.14 GiB "
        "is reserved by PyTorch but unallocated."
    )
    assert found.own is not None
    assert found.own.text == "6.79 GiB"
    assert found.others_bytes == pytest.approx(4.93 * GIB + (514 + 894) * MIB)


def test_the_oldest_text_and_the_one_of_the_asynchronous_allocator() -> None:
    # pytorch/pytorch#16417
    oldest = read("Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; 9.28 GiB free; "
                  "4.68 MiB cached)")  # fmt: skip
    assert oldest.unallocated is not None
    assert oldest.unallocated.nbytes == 0
    other = read(
        "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 70.00 GiB\n"
        "Requested               : 2.00 GiB\nDevice limit            : 79.15 GiB\nFree (according to CUDA): 1.20 GiB\n"
    )
    assert [one.text for one in (other.requested, other.capacity, other.free, other.allocated) if one] == [
        *("2.00 GiB", "79.15 GiB", "1.20 GiB", "70.00 GiB")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "torch.AcceleratorError: CUDA error: out of memory",  # hiyouga/LlamaFactory#9331
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":830',
        "Cuda failure 2 'out of memory'",
    ],
)
def test_libraries_and_the_driver_give_no_size(text: str) -> None:
    assert read(text) == MemoryMessage(where="device")


def test_the_host_s_memory() -> None:
    found = read("RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: "
                 "you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)")  # fmt: skip
    assert found.where == "host"
    assert found.requested is not None
    assert found.requested.nbytes == 8 * GIB


def test_other_text_is_none() -> None:
    assert out_of_memory.read_memory_message("KeyError: 'memory'") is None
