"""Facts that accelerate's configuration states: its file, and the options of ``accelerate launch`` in its place.

Without a file of DeepSpeed's own, accelerate writes that configuration: ZeRO, accumulation and clipping alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsregress.advisories.job_facts import Fact, OneOf
from dsregress.advisories.stated.deepspeed_json import automatic_clipping, offloads
from dsregress.advisories.stated.documents import Document, as_number, as_switch, without_sharding
from dsregress.probe.factors import FACTORS

_DTYPES = {"bf16": "bf16", "fp16": "fp16", "no": "fp32", "False": "fp32"}

#: Its names for training without ZeRO and FSDP.
_PLAIN = ("MULTI_GPU", "MULTI_CPU", "NO")

#: The section of DeepSpeed in a file; on a command line its keys stand alone.
_SECTION = "deepspeed_config"


def is_of_accelerate(document: Document) -> bool:
    """Return True for a file that ``accelerate config`` writes."""
    return not {"distributed_type", "compute_environment"}.isdisjoint(document)


def deepspeed_file(document: Document) -> str:
    """Return the file of DeepSpeed's configuration that it names; empty if it names none."""
    return str(document.get(f"{_SECTION}.deepspeed_config_file") or document.get("deepspeed_config_file") or "")


def facts_of_accelerate(document: Document) -> Iterator[Fact]:
    """Yield the facts that the file states, but for those of the file that it names."""
    kind = str(document.get("distributed_type") or "").upper()
    uses_deepspeed = kind == "DEEPSPEED" or as_switch(document.get("use_deepspeed")) is True
    is_sharded = kind == "FSDP" or as_switch(document.get("use_fsdp")) is True
    if (count := as_number(document.get("num_processes"))) is not None:
        yield document.fact("world_size", count, "num_processes")
    if as_switch(document.get("use_cpu")) is True:
        yield document.fact("device", "cpu", "use_cpu")
    key = next(
        (one for one in ("use_fsdp", "use_deepspeed", "multi_gpu") if as_switch(document.get(one))), "distributed_type"
    )
    if kind == "MEGATRON_LM" or as_switch(document.get("use_megatron_lm")) is True:
        for name in ("deepspeed", "fsdp"):
            yield document.fact(name, False, "distributed_type" if kind else "use_megatron_lm")
    elif is_sharded or uses_deepspeed:
        yield document.fact("fsdp", is_sharded, key)
    elif kind in _PLAIN or key == "multi_gpu":
        yield from without_sharding(document, key)
    if kind == "MULTI_GPU" or key == "multi_gpu":
        yield document.fact("device", "cuda", key)
    if is_sharded:
        yield from _sharded(document)
    if not uses_deepspeed:
        return
    yield document.fact("integration", OneOf(("transformers", "accelerate")), key)
    yield document.fact("accelerate_launch", True, key)
    key = _document_key(document, "zero3_init_flag")
    if (whole := as_switch(document.get(key))) is not None:
        yield document.fact("zero_init", whole, key)
    if not deepspeed_file(document):
        yield from _written_by_accelerate(document)


def _sharded(document: Document) -> Iterator[Fact]:
    """Yield what is stated of FSDP. In a file that names no version it is the first."""
    key = "fsdp_config.fsdp_version" if document.get("fsdp_config") is not None else "fsdp_version"
    version = as_number(document.get(key))
    if version is not None or document.get("fsdp_config") is not None:
        yield document.fact("fsdp_version", version or 1, key)
    if (dtype := _DTYPES.get(str(document.get("mixed_precision")))) is not None:
        yield document.fact("dtype", dtype, "mixed_precision")


def _document_key(document: Document, name: str) -> str:
    key = f"{_SECTION}.{name}"
    return key if document.get(key) is not None or document.get(_SECTION) is not None else name


def _written_by_accelerate(document: Document) -> Iterator[Fact]:
    stage = _document_key(document, "zero_stage")
    number = as_number(document.get(stage))
    yield document.fact("zero_stage", 2 if number is None else number, stage)  # accelerate's default
    if (dtype := _DTYPES.get(str(document.get("mixed_precision")))) is not None:
        yield document.fact("dtype", dtype, "mixed_precision")
    for name in ("offload_optimizer", "offload_param"):
        key = _document_key(document, f"{name}_device")
        yield document.fact(name, offloads(document.get(key)), key)
    steps = _document_key(document, "gradient_accumulation_steps")
    if (number := as_number(document.get(steps))) is not None:
        yield document.fact("gradient_accumulation_steps", number, steps)
    clipping = _document_key(document, "gradient_clipping")
    if (number := as_number(document.get(clipping))) is not None:
        yield document.fact("gradient_clipping", number, clipping)
    else:  # "auto" since accelerate 0.31
        yield from automatic_clipping(document, clipping)
    for name in ("quantized_weights", "mics", "load_universal"):
        yield document.fact(name, False, _document_key(document, name))
    yield document.fact("scheduler", "none", _document_key(document, "scheduler"))
    yield document.fact("optimizer", "passed", _document_key(document, "optimizer"))
    yield document.fact("torch_autocast", False, _document_key(document, "torch_autocast"))
    written = (
        "zero_stage",
        "gradient_clipping",
        "gradient_accumulation_steps",
        "allgather_bucket_size",
        "sub_group_size",
    )
    for factor in FACTORS:
        if factor.key and not factor.is_size and factor.name not in written:
            yield document.fact(factor.name, None, _document_key(document, factor.key.rpartition(".")[2]))
