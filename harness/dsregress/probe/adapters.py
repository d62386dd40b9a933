"""Adapters by their ids. Standard library only: the host compares and stores ids, a measured environment imports modules.

An adapter of this project has a short id, the same wherever its module is. Any other adapter is named by the dotted path
of its module (``scenarios._ddp``), which is its id.
"""

from __future__ import annotations

from collections.abc import Mapping

DEEPSPEED = "deepspeed"
DEEPSPEED_JOBS = "deepspeed_jobs"
TRAINER = "trainer"
PROGRAM = "program"

#: Id -> module.
ADAPTERS: Mapping[str, str] = {
    DEEPSPEED: "dsregress.probe.frameworks.deepspeed",
    DEEPSPEED_JOBS: "dsregress.probe.frameworks.deepspeed_jobs",
    TRAINER: "dsregress.probe.frameworks.hf_trainer",
    PROGRAM: "dsregress.programs.program_adapter",
}

#: Module path -> id: how results named adapters before 2026-11-26. These paths stay, whatever modules are called.
FORMER_PATHS: Mapping[str, str] = {
    "harness.probe.frameworks.deepspeed": DEEPSPEED,
    "harness.probe.frameworks.deepspeed_jobs": DEEPSPEED_JOBS,
    "harness.probe.frameworks.hf_trainer": TRAINER,
    "harness.probe.programs.adapter": PROGRAM,
}


def adapter_id(named: str) -> str:
    """Return the id of an adapter that is named by its id or by a module path."""
    now = {module: adapter for adapter, module in ADAPTERS.items()}
    return FORMER_PATHS.get(named) or now.get(named, named)


def unknown_adapter(named: str) -> str:
    """Return the reason why a name can be no adapter's; empty unless it is neither an id nor a dotted path."""
    parts = named.split(".")
    if adapter_id(named) in ADAPTERS or (len(parts) > 1 and all(map(str.isidentifier, parts))):
        return ""
    return f"no such adapter: {named} (known: {', '.join(ADAPTERS)}; any other by the dotted path of its module)"


def adapter_module(named: str) -> str:
    """Return the module path of an adapter, which `dsregress.probe.process.adapter_loading.load_adapter` imports."""
    adapter = adapter_id(named)
    return ADAPTERS.get(adapter, adapter)
