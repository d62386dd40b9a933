"""The declaration of a scenario. Standard library only: the host lists scenarios without importing torch.

A scenario file holds one module-level ``SCENARIO``::

    from dsregress.probe.scenario import Scenario, one_by_one

    SCENARIO = Scenario(
        version=1,
        summary="Llama under ZeRO-3: forward, backward, step.",
        framework="deepspeed",
        parameters={"model": "llama-3-8b", "zero_stage": 3},
        devices={"cpu": {"model": "llama-tiny"}},
        variants=one_by_one(gradient_checkpointing=("none", "reentrant", "non_reentrant")),
        remedies={"offload the optimizer": {"offload_optimizer": True}},
        pins={"pin DeepSpeed 0.15.0": {"deepspeed": "0.15.0"}},
    )

``parameters`` are plain JSON values that the framework's adapter understands; ``devices`` names the device modes that it
runs in, each with the parameters it changes there; a variant changes parameters once more. ``remedies`` are the advice that
people give for this workload, by name in words: variants that only ``dsregress remedies`` runs by itself. ``pins``
are remedies that are other releases. ``unused`` names packages of the stacks that the workload does not use: stacks that
differ from the baseline in nothing else tell nothing, and are not measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dsregress.probe import adapters, choices

DEVICES = ("sim", "cpu", "cuda")

#: The name of the variant that changes nothing.
BASE_VARIANT = "base"

#: The parameter of a cell that holds its model's shape: the entry of ``model`` in ``models.py``. No scenario declares it.
SHAPE = "shape"

#: The parameter that names packages of a cell's environment in addition to its stack: name -> version. A package that the
#: stack has already is the stack's; one with the version ``ABSENT`` is left out, whatever demands it.
PACKAGES = "packages"
ABSENT = ""

#: The parameter that overrides the number of layers in a model's shape.
LAYERS = "layers"

#: Deepest nesting of parameters.
_MOST_LEVELS = 20

Shapes = Mapping[str, Mapping[str, Any]]


class ScenarioError(ValueError):
    """A scenario file does not declare what it should; the message names the file and the field."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One fixed workload. Raise ``version`` whenever the work it does changes: results of different versions are never
    compared."""

    version: int
    summary: str
    framework: str  #: of its adapter, the id or the module's path; then the id (see `dsregress.probe.adapters`)
    parameters: Mapping[str, Any]
    devices: Mapping[str, Mapping[str, Any]]
    variants: tuple[Mapping[str, Any], ...] = ({},)
    remedies: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    pins: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    unused: tuple[str, ...] = ()
    shapes: Shapes | None = None  #: those of the folder it was loaded from; `load` fills them in
    #: Of a program: where its launch line would be typed. It is of one machine, so no parameter; unless it is in the
    #: scenarios folder, which is staged wherever a cell runs: then it is relative (``scenarios/programs/lora``).
    folder: str = ""
    line: str = ""  #: of a program: its launch line as it runs; the parameters have it as it is published

    def __post_init__(self) -> None:
        object.__setattr__(self, "framework", adapters.adapter_id(self.framework))
        declared = [("parameters", self.parameters), ("devices", self.devices), ("remedies", self.remedies)]
        for where, values in [*declared, *(("variants", variant) for variant in self.variants)]:
            _check_plain(where, values)
        if SHAPE in self.parameters:
            raise ScenarioError(f"parameters: {SHAPE} is taken from models.py; name a model instead")
        unknown = sorted(set(self.devices) - set(DEVICES))
        if unknown:
            raise ScenarioError(f"devices: no such device mode: {', '.join(unknown)} (known: {', '.join(DEVICES)})")
        named = [*self.devices.items(), *((variant_id(v), v) for v in self.variants), *self.remedies.items()]
        for where, changes in named:
            unknown = sorted(set(changes) - set(self.parameters))
            if unknown:
                raise ScenarioError(f"{where}: changes what is not a parameter: {', '.join(unknown)}")
        for name, changes in [*self.remedies.items(), *self.pins.items()]:
            if not changes:
                raise ScenarioError(f"{name}: changes nothing")
        ids = [variant_id(changes) for changes in self.remedies.values()]
        twice = [name for name, changes in self.remedies.items() if ids.count(variant_id(changes)) > 1]
        if twice:
            raise ScenarioError(f"remedies: the same change twice: {', '.join(twice)}")

    @property
    def variant_ids(self) -> list[str]:
        """The ids of the variants, in order (`variant_id`)."""
        return [variant_id(variant) for variant in self.variants]

    @property
    def remedy_ids(self) -> dict[str, str]:
        """The id of each remedy's variant, by the remedy's name in words."""
        return {name: variant_id(changes) for name, changes in self.remedies.items()}

    def resolve(self, variant: str, device: str, changes: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return the parameters of one cell: the scenario's, changed for the device, by the variant, then by ``changes``;
        and the shape of the resulting model.

        A variant that is not declared may be spelled out (``zero_stage=2,dtype=fp32``) as long as every name is one of the
        scenario's parameters. Raise ScenarioError for an unknown device, variant, value or model.
        """
        if device not in self.devices:
            raise ScenarioError(f"does not run on {device} (it runs on: {', '.join(self.devices)})")
        declared = {variant_id(v): v for v in (*self.remedies.values(), *self.variants)}
        named = declared[variant] if variant in declared else parse_variant(variant, self.parameters)
        parameters = {**self.parameters, **self.devices[device], **named, **(changes or {})}
        if unknown := choices.refused_choice(self.framework, parameters):
            raise ScenarioError(f"no such variant: {unknown}")
        return {**parameters, **self._shape(parameters)}

    def _shape(self, parameters: Mapping[str, Any]) -> dict[str, object]:
        """Return the model's shape as a parameter; nothing if no model is named, or none is known by its shape."""
        if self.shapes is None or "model" not in parameters:
            return {}
        model = parameters["model"]
        if model not in self.shapes:
            known = ", ".join(self.shapes)
            raise ScenarioError(
                f"models.py: no such model: {model} (known: {known}); docs/add-a-scenario.md says how to add one"
            )
        layers = parameters.get(LAYERS)
        deep = {} if layers is None else {"num_hidden_layers": int(layers)}
        return {SHAPE: {**self.shapes[model], **deep}}


def _check_plain(where: str, value: object, depth: int = 0) -> None:
    """Raise ScenarioError unless a value is one of JSON, which every result holds and every key is made from."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if not isinstance(name, str):
                raise ScenarioError(f"{where}: not a name: {name!r}")
            _check_deeper(f"{where}.{name}" if depth else f"{where}: {name}", member, depth)
    elif isinstance(value, (list, tuple)):
        for member in value:
            _check_deeper(where, member, depth)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ScenarioError(f"{where}: not a finite number: {value}")
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise ScenarioError(f"{where}: a whole number of more than 64 bits")
    elif isinstance(value, str):
        if not value.isprintable():
            raise ScenarioError(f"{where}: a character that cannot be printed: {value!r}")
    elif value is not None:
        raise ScenarioError(f"{where}: not a plain JSON value but of type {type(value).__name__}")


def _check_deeper(where: str, value: object, depth: int) -> None:
    if depth > _MOST_LEVELS:
        raise ScenarioError(f"{where[:80]}: nested too deep, or a part of itself")
    _check_plain(where, value, depth + 1)


def variant_id(changes: Mapping[str, object]) -> str:
    """Return the id of a variant, ``gradient_checkpointing=none,zero_stage=2``: names in the order given; ``base`` without
    changes."""
    return ",".join(f"{name}={_spell(value)}" for name, value in changes.items()) or BASE_VARIANT


def parse_variant(text: str, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the changes of a variant by its id: the reverse of `variant_id`, each value read as the type of the parameter's
    present value. Raise ScenarioError for a name that is not a parameter."""
    if text == BASE_VARIANT:
        return {}
    changes: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in parameters:
            raise ScenarioError(f"no such variant: {text} ({name!r} is not a parameter of this scenario)")
        changes[name] = _parsed_value(value, parameters[name], text)
    return changes


def one_by_one(**values: tuple[object, ...]) -> tuple[Mapping[str, object], ...]:
    """Return variants that change one parameter each: the values of the first parameter, then of the second, ..."""
    return tuple({name: value} for name, choices in values.items() for value in choices)


def grid(**values: tuple[object, ...]) -> tuple[Mapping[str, object], ...]:
    """Return a variant for every combination of the values."""
    return tuple(dict(zip(values, combination)) for combination in itertools.product(*values.values()))


def load(file: Path) -> Scenario:
    """Return the scenario that a file declares, with the shapes in its folder. Raise ScenarioError, naming the file."""
    found = getattr(_execute(file), "SCENARIO", None)
    if not isinstance(found, Scenario):
        raise ScenarioError(f"{file}: has no SCENARIO = Scenario(...)")
    if reason := adapters.unknown_adapter(found.framework):
        raise ScenarioError(f"{file}: framework: {reason}")
    changes: dict[str, Any] = {}
    if (file.parent / _SHAPES).exists():
        changes["shapes"] = load_shapes(file.parent)
    if found.folder and Path(found.folder).is_relative_to(file.parent.resolve()):
        changes["folder"] = f"scenarios/{Path(found.folder).relative_to(file.parent.resolve()).as_posix()}"
    return dataclasses.replace(found, **changes)


def _execute(file: Path) -> ModuleType:
    """Return the module in a file of a scenarios folder, whatever is imported by its name. Raise ScenarioError if it does
    not load."""
    spec = importlib.util.spec_from_file_location(f"scenarios.{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ScenarioError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        with _importable(file.parent):
            spec.loader.exec_module(module)
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}") from error
    except KeyboardInterrupt:  # the user's
        raise
    except BaseException as error:  # SystemExit too: the command would end with its code, as if all were well
        raise ScenarioError(f"{file}: cannot be loaded: {type(error).__name__}: {error}".rstrip(": ")) from error
    return module


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let the files of a scenarios folder import each other as ``scenarios.NAME``, wherever the folder is."""
    package = ModuleType("scenarios")
    package.__path__ = [str(folder)]
    before = _forget_scenarios()
    sys.modules["scenarios"] = package
    try:
        yield
    finally:
        _forget_scenarios()
        sys.modules.update(before)


def _forget_scenarios() -> dict[str, ModuleType]:
    """Return the modules that were imported from a scenarios folder, which are imported no more."""
    names = [name for name in sys.modules if name.partition(".")[0] == "scenarios"]
    return {name: sys.modules.pop(name) for name in names}


#: The file of a scenarios folder that holds the models' shapes.
_SHAPES = "models.py"

#: Modules of a scenarios folder that declare no scenario: others import them, or pytest does.
_NO_SCENARIOS = ("__init__", "conftest", "families", "models", "test_scenarios")


def find(folder: Path) -> dict[str, Path]:
    """Return the scenario files of a folder by name: every module in it that can declare a SCENARIO."""
    return {
        file.stem: file
        for file in sorted(folder.glob("*.py"))
        if file.stem not in _NO_SCENARIOS and not file.stem.startswith("_") and file.is_file()
    }


def load_shapes(folder: Path) -> Shapes:
    """Return ``SHAPES`` of the folder's ``models.py``: model name -> the fields of its transformers configuration. Raise
    ScenarioError if it has none, or not of JSON."""
    file = folder / _SHAPES
    shapes: Shapes | None = getattr(_execute(file), "SHAPES", None)
    if shapes is None:
        raise ScenarioError(f"{file}: has no SHAPES")
    try:
        _check_plain("SHAPES", shapes)
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}") from None
    return shapes


def _spell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _parsed_value(text: str, like: object, variant: str) -> object:
    try:
        if text == "none" and not isinstance(like, str):
            return None
        if like == "auto" and text != "auto":  # a number that a library would fill in
            return int(text)
        if isinstance(like, bool):
            return {"true": True, "false": False}[text]
        if isinstance(like, (int, float)):
            return _finite_number(text, like)
        if like is None:
            return _untyped_value(text)
    except (KeyError, ValueError):
        raise ScenarioError(f"no such variant: {variant} ({text!r} is not of type {type(like).__name__})") from None
    return text


def _untyped_value(text: str) -> object:
    """Return a parameter's value from its text, if the parameter has no value yet to give a type."""
    if text in ("true", "false"):
        return text == "true"
    for like in (0, 0.0):
        try:
            return _finite_number(text, like)
        except ValueError:
            continue
    return text


def _finite_number(text: str, like: float) -> float:
    """Return a finite number, whole if ``like`` is; ``1e6`` is one too. Raise ValueError for any other text."""
    number = float(text)
    if not math.isfinite(number) or (isinstance(like, int) and (not number.is_integer() or abs(number) >= 1 << 63)):
        raise ValueError
    return int(text) if isinstance(like, int) and text.lstrip("-").isdigit() else type(like)(number)
