"""Options that several commands have, and what they make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from harness.advice import fit
from harness.config.settings import Settings, load
from harness.errors import UsageError
from harness.model import AXES
from harness.report.comparison.exports import FORMATS
from harness.run.matrix import Selection

Function = TypeVar("Function", bound=Callable[..., Any])


def stack_options(function: Function) -> Function:
    """``--deepspeed SPEC`` and its like, ``--stack``, ``--baseline``."""
    for package in AXES:
        function = click.option(
            f"--{package}",
            metavar="SPEC",
            help=f"Releases of {package} to compare: 0.16.4, '0.16.*', '>=1,<2', latest.",
        )(function)
    function = click.option(
        "--with",
        "others",
        multiple=True,
        metavar="PACKAGE=SPEC",
        help="As these, for any other package of the configured stack. May be repeated.",
    )(function)
    function = click.option("--stack", metavar="NAME", help="A named stack of the configuration.")(function)
    return click.option("--baseline", metavar="VERSION", help="What the others are compared with.")(function)


def selection_options(function: Function) -> Function:
    """``--scenario``, ``--variant``, ``--device``."""
    function = click.option(
        "--device", "devices", multiple=True, metavar="sim|cpu|cuda|auto", help="Where to run it; may be repeated."
    )(function)
    function = click.option(
        "--variant",
        "variants",
        multiple=True,
        metavar="GLOB",
        help="Variants, by glob or spelled out: 'zero_stage=2,dtype=fp32'. May be repeated.",
    )(function)
    return click.option(
        "--scenario", "scenarios", multiple=True, metavar="GLOB", help="Scenarios, by glob. May be repeated."
    )(function)


def workload_options(function: Function) -> Function:
    """``--scenario``, ``--variant``, ``--device`` of exactly one workload."""
    function = click.option(
        "--device",
        metavar="sim|cpu|cuda",
        help="Where to run it. Default: cpu where the scenario runs there, else sim.",
    )(function)
    function = click.option(
        "--variant",
        default="base",
        show_default=True,
        metavar="VARIANT",
        help="Declared or spelled out: 'gradient_checkpointing=non_reentrant,model=llama-tiny'.",
    )(function)
    return click.option("--scenario", required=True, metavar="NAME", help="The scenario, as `scenarios` lists it.")(
        function
    )


def axis_options(function: Function) -> Function:
    """``--package``, and one version of each other package."""
    for package in AXES:
        function = click.option(
            f"--{package}",
            metavar="VERSION",
            help=f"The one version of {package} in all stacks, where it is not sought.",
        )(function)
    function = click.option("--stack", metavar="NAME", help="A named stack of the configuration.")(function)
    return click.option("--package", metavar="NAME", help="Whose versions are searched. Default: deepspeed.")(function)


def fixed_of(given: dict[str, Any]) -> dict[str, str]:
    """The versions that hold in all stacks."""
    return {package: given[package] for package in AXES if given.get(package)}


def overhead_option(function: Function) -> Function:
    """``--overhead GIB``."""
    return click.option(
        "--overhead",
        "overhead_gib",
        type=click.FloatRange(min=0),
        default=fit.OVERHEAD_BYTES / (1 << 30),
        show_default=True,
        metavar="GIB",
        help="Set aside on each card for the CUDA context and NCCL's buffers.",
    )(function)


def executor_options(function: Function) -> Function:
    """``--executor``, ``--ray-address``."""
    function = click.option(
        "--ray-address",
        metavar="HOST:PORT",
        help="With ray: the cluster's head, or ray://HOST:10001 from outside. Default: RAY_ADDRESS, else the one here.",
    )(function)
    return click.option(
        "--executor",
        metavar="local|docker|ray",
        help="Where cells run: in environments here, in containers, or on the nodes of a Ray cluster.",
    )(function)


def results_option(function: Function) -> Function:
    """``--results``."""
    return click.option("--results", metavar="DIR", help="Folder of the results.")(function)


def report_options(function: Function) -> Function:
    """``--json``, ``--markdown``, ``--html``, ``--export``, ``--fail-on``."""
    function = click.option(
        "--export",
        "exports",
        multiple=True,
        metavar="FORMAT=FILE",
        help=f"Write another format, as --export junit=junit.xml: {', '.join(FORMATS)}. May be repeated.",
    )(function)
    function = click.option("--html", "html_folder", metavar="DIR", help="Write a static site, as --html public.")(
        function
    )
    function = click.option(
        "--fail-on",
        metavar="WORDS",
        help="What makes the exit code 1, of memory,time,numerics,crash; or none.",
    )(function)
    function = click.option("--markdown", "markdown_file", metavar="FILE", help="Write Markdown (- for stdout).")(
        function
    )
    return click.option("--json", "json_file", metavar="FILE", help="Write JSON (- for stdout).")(function)


def reports_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options of `report_options`, for `write_reports`. Raises UsageError."""
    exports = []
    for text in given["exports"]:
        name, _, file = text.partition("=")
        if name not in FORMATS or not file:
            raise UsageError(
                f"not a format with its file: {text!r}", where="--export", hint=f"formats: {', '.join(FORMATS)}"
            )
        exports.append((name, file))
    chosen = {name: given[name] for name in ("json_file", "markdown_file", "html_folder")}
    return {**chosen, "exports": exports}


def load_settings(**overrides: Any) -> Settings:
    """The settings with flags applied; None means not given. Raises UsageError."""
    fail_on = overrides.pop("fail_on", None)
    if fail_on is not None:
        overrides["fail_on"] = [] if fail_on == "none" else [word.strip() for word in fail_on.split(",")]
    base, address = overrides.pop("image_base", None), overrides.pop("ray_address", None)
    settings = load(overrides)
    if address is not None:
        settings = msgspec.structs.replace(settings, ray=msgspec.structs.replace(settings.ray, address=address))
    if base is not None:
        settings = msgspec.structs.replace(settings, docker=msgspec.structs.replace(settings.docker, base=base))
    return settings


def versions_of(given: dict[str, Any]) -> dict[str, str]:
    """The specs among a command's options. Raises UsageError."""
    versions = {package: given[package] for package in AXES if given.get(package)}
    for text in given["others"]:
        package, equals, spec = text.partition("=")
        if not (package and equals and spec):
            raise UsageError(f"not a package with its releases: {text!r}", where="--with", hint="write PACKAGE=SPEC")
        versions[package] = spec
    return versions


def selection_of(given: dict[str, Any]) -> Selection:
    """The globs among a command's options."""
    return Selection(
        scenarios=tuple(given["scenarios"]), variants=tuple(given["variants"]), devices=tuple(given["devices"])
    )
