"""The values that travel between packages: frozen, typed, serialisable.

See ``docs/glossary.md`` for the words. Imports nothing of the harness but sentences, and the probe's wire format.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from dsregress.messages import COLON, Text, joined, message
from dsregress.probe.border.wire import RunRecord
from dsregress.probe.scenario import PACKAGES, SHAPE

#: The packages a stack pins, in the order its id spells them; any of them can be the varied axis.
AXES = ("torch", "transformers", "accelerate", "peft", "deepspeed")


#: Longest id of a stack, which names folders: `dsregress.store.folder` accepts as many.
_MOST_LETTERS = 180

#: Before each package of a label that was added to a stack's own.
ADDED = " + "

#: The variable before a program's line that says whose files it goes on from. Only readers of the report need it.
WRITTEN_BY = "CHECKPOINT_OF"


def stack_label(named: str, text: str, added: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return ``NAMED: 0.16.4 + trl 0.24.0``: what `Stack.named` reads, the description of the stack, and the added
    packages."""
    with_added = ADDED.join((text, *(f"{package} {version}" for package, version in added.items())))
    return f"{named}: {with_added}" if named else with_added


class Stack(msgspec.Struct, frozen=True, kw_only=True, dict=True):  # the dict is for what is made of it once
    """One set of pinned versions."""

    python: str  #: "3.11"; "3.11+1a2b3c4d" for an existing interpreter: a hash of its installed packages
    versions: dict[str, str]  #: of the axes, and of any other framework under test
    #: its short name, as `stack_label` makes it of a version, a commit or a remedy; not part of its identity
    label: str = ""

    @functools.cached_property
    def id(self) -> str:
        """``py3.11-torch2.13.0-transformers4.57.6-...-deepspeed0.16.4``: printable, and safe as a file name. If a stack has
        many more packages these are counted, with a hash of all: ``...-deepspeed0.16.4-9packages-3fa91c2b77de``."""
        others = sorted(set(self.versions) - set(AXES))
        stem = "-".join(
            [f"py{self.python}", *(f"{axis}{self.versions[axis]}" for axis in AXES if axis in self.versions)]
        )
        whole = "-".join([stem, *(f"{name}{self.versions[name]}" for name in others)])
        if len(whole) <= _MOST_LETTERS:
            return whole
        return f"{stem}-{len(others)}packages-{hashlib.sha256(whole.encode()).hexdigest()[:12]}"

    @property
    def existed(self) -> bool:
        """True if it is an existing interpreter, with its installed packages; it cannot be built."""
        return "+" in self.python

    @property
    def named(self) -> str:
        """The configured stack that its pins are from; empty for the default one, or if unknown."""
        return self.label.rpartition(": ")[0]

    def __hash__(self) -> int:
        return hash(self.id)


class LockedStack(msgspec.Struct, frozen=True, kw_only=True):
    """A stack with every package it installs pinned."""

    stack: Stack
    requirements: tuple[str, ...]  #: ``name==version`` with markers, sorted, for every package
    sha256: str  #: of the requirements


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A stack installed on this machine, or the failure to install it."""

    stack: Stack
    lock_sha256: str
    python: str = ""  #: path of its interpreter; empty when it could not be built
    image: str = ""  #: id of the image that holds it (``sha256:...``); empty where it is a folder
    beside: str = ""  #: folder of packages that the probe needs and an existing interpreter lacks; else empty
    installed: dict[str, str] = {}  #: distribution -> version, everything
    #: distribution -> what it requires of the stack's packages: ``deepspeed==0.16.3``
    demands: dict[str, list[str]] = {}
    code_sha256: str = ""  #: of the installed code of the framework under test, and of what its peers' wheels hold
    notes: tuple[str, ...] = ()  #: for the user: what was edited in it, or had to be restored
    failure: NotInstalled | None = None
    build_s: float = 0.0  #: seconds that building it just now took; 0 if it already existed


def differing_parameters(mine: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """Return the names of the parameters in which two cells differ, sorted.

    Results written before 2026-11-22 have their model's name and not its shape, which then counts on neither side.
    """
    if mine == theirs:
        return []
    both = SHAPE in mine and SHAPE in theirs
    names = sorted({**mine, **theirs})
    return [name for name in names if (both or name != SHAPE) and mine.get(name) != theirs.get(name)]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """Stack x scenario x variant x device mode."""

    stack: Stack
    scenario: str
    scenario_version: int
    variant: str
    device: str
    framework: str  #: id of the adapter (see `dsregress.probe.adapters`)
    parameters: dict[str, Any]

    @property
    def environment_stack(self) -> Stack:
        """The stack of the environment that it runs in: its own, and the further packages that its scenario needs. An
        existing interpreter has the packages that it has."""
        packages = self.parameters.get(PACKAGES)
        if not packages or self.stack.existed:
            return self.stack
        more = {name: version for name, version in packages.items() if name not in self.stack.versions}
        label = stack_label("", self.stack.label, {name: version for name, version in more.items() if version})
        return msgspec.structs.replace(self.stack, versions={**self.stack.versions, **more}, label=label)

    @property
    def workload(self) -> str:
        """The cell without its stack, as it is compared across stacks: ``scenario/variant/device``."""
        return f"{self.scenario}/{self.variant}/{self.device}"

    @property
    def loads_kept_files(self) -> bool:
        """True for a program that goes on from what a release has written (see `WRITTEN_BY`)."""
        return str(self.parameters.get("program", "")).startswith(f"{WRITTEN_BY}=")

    @property
    def id(self) -> str:
        """``stack/scenario/variant/device``: selection, file names, CI and reports share it."""
        return f"{self.stack.id}/{self.workload}"

    def __hash__(self) -> int:
        return hash(self.id)


class WorkloadParts(NamedTuple):
    """The parts of a workload."""

    scenario: str
    variant: str
    device: str


@functools.lru_cache(maxsize=4096)
def split_workload(workload: str) -> WorkloadParts:
    """Return the parts of ``scenario/variant/device`` (`Cell.workload`)."""
    scenario, _, rest = workload.partition("/")
    variant, _, device = rest.rpartition("/")
    return WorkloadParts(scenario, variant, device)


def variant_values(variant: str) -> dict[str, str]:
    """Return parameter -> its value, as in a variant's name; empty for ``base``, and for a name that lists none."""
    return dict(part.partition("=")[::2] for part in variant.split(",") if "=" in part)


class Passed(msgspec.Struct, frozen=True, tag="passed"):
    """Ran to its end."""


#: Signature of a failure of the harness: a run that passed and left nothing to compare.
NO_FIGURES = "it passed, but a rank reported no figures"


def has_figures(record: RunRecord | None) -> bool:
    """Return True if every rank of a run measured something."""
    return record is not None and bool(record.ranks) and all(rank.phases for rank in record.ranks)


#: The errors whose line says what to do (`dsregress.programs.launch.failure_causes`).
_SAY_WHAT_TO_DO = ("CannotRun", "NotHere")


class Signature(msgspec.Struct, frozen=True):
    """An error by its message and the place in which it arose. Results store its text, as
    `dsregress.probe.border.faults.signature_of` writes it."""

    message: str  #: with the error's class: ``ValueError: got 0``
    file: str = ""  #: ``deepspeed/runtime/lr_schedules.py``; empty if it is not known
    function: str = ""

    @property
    def error(self) -> str:
        """The error's class; the whole message if it has none."""
        return self.message.partition(": ")[0]

    @property
    def words(self) -> str:
        """The message without the error's class."""
        return self.message.partition(": ")[2]

    @property
    def says_what_to_do(self) -> bool:
        """True if the message is a line of ours that tells a program's user what it lacks."""
        return self.error in _SAY_WHAT_TO_DO

    @property
    def is_of_program(self) -> bool:
        """True if the error arose in the code of a program: its place is a line, a package's is a function."""
        return self.function.isdigit()

    @property
    def package(self) -> str:
        """The package in which the error arose; empty if that is not known."""
        return self.file.partition("/")[0] if "/" in self.file else ""


def read_signature(text: str) -> Signature:
    """Return the parts of a stored signature, ``ValueError: got 0 (deepspeed/runtime/lr_schedules.py:__init__)``. A text
    that ends with no place is the message."""
    message, _, place = text.removesuffix(")").rpartition(" (")
    file, colon, function = place.rpartition(":")
    if text.endswith(")") and message and colon and not set("()").intersection(place):
        return Signature(message, file, function)
    return Signature(text)


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Ended early: ``stage`` is install, import, init, forward, backward, step or harness."""

    stage: str
    signature: str
    detail: str = ""


class OutOfMemory(msgspec.Struct, frozen=True, tag="out_of_memory"):
    """Memory ended it, in ``phase``; empty where that went with the machine."""

    phase: str
    detail: str = ""


class TimedOut(msgspec.Struct, frozen=True, tag="timed_out"):
    """No sign of life for ``limit_s``, last seen in ``stage``; or ``working``: it ran operators in it for so long."""

    stage: str
    limit_s: float
    working: bool = False
    whereabouts: tuple[str, ...] = ()  #: which ranks were where then: ``rank 0: deepspeed/comm/torch.py:all_reduce``


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """Not run on purpose."""

    reason: str


class MachineFault(msgspec.Struct, frozen=True, tag="machine_fault"):
    """The machine ended it in ``stage`` (as of `Failed`), not the stack: a full disk, a lost network. No verdict on the
    stack, and measured again by the next run."""

    stage: str
    fault: str  #: what is wrong with the machine: a key of `dsregress.probe.border.machine.REMEDIES`
    signature: str
    detail: str = ""


Outcome = Passed | Failed | OutOfMemory | TimedOut | Skipped | MachineFault

#: Why a stack could not be installed.
NotInstalled = Failed | MachineFault


def is_measurement(outcome: Outcome) -> bool:
    """Return True if a run is a measurement of its stack: not if the harness or the machine ended it."""
    match outcome:
        case Skipped() | MachineFault() | Failed(stage="harness"):
            return False
    return True


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware of a run, as far as a comparison needs it."""

    cpu: str
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...] = ()
    gpu_driver: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as it is stored."""

    schema: int
    cell: Cell
    lock_sha256: str
    code_sha256: str
    probe_sha256: str  #: of the probe's code: decides only whether a program that failed is run again
    #: of what measures in the cell's device mode (see `dsregress.store.measuring_versions`)
    measuring_version: str = ""
    installed: dict[str, str]
    #: distribution -> what it requires of the stack's packages: ``deepspeed==0.16.3``
    demands: dict[str, list[str]] = {}
    hardware: Hardware
    session: str  #: results of one session were measured in interleaved rounds; only their times are comparable
    started_at: str  #: UTC, ISO 8601
    duration_s: float
    outcome: Outcome
    record: RunRecord | None = None  #: without its ``detail``, which the store keeps apart
    detail_sha256: dict[str, str] = {}  #: part of the detail -> hash, so that equal parts need not be read
    image: str = ""  #: id of the container image that it ran in; empty where it ran in none
    left: dict[str, int] = {}  #: processes it left running, which were ended: name -> count

    @property
    def precedence(self) -> tuple[bool, str, str]:
        """Sort key of several results of one cell: the highest counts, which is the newest measurement of its stack."""
        return (is_measurement(self.outcome), *self.when)

    @property
    def when(self) -> tuple[str, str]:
        """Sort key of the results of a cell: the newest, which counts, is last."""
        return self.started_at, self.session


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One judged difference, or one oracle that does not hold."""

    stack: str
    scenario: str
    variant: str
    device: str
    metric: str
    phase: str
    kind: str  #: regression, improvement, changed, wrong, failed
    value: Any
    baseline_value: Any
    ratio: float | None
    unit: str
    significant: bool
    relevant: bool
    sentence: Text  #: what differs, or is wrong
    claim: Text = ""  #: before the sentence, for findings of which all say the same: "the loss is wrong"
    model: str = ""  #: the model that it is about, if several train
    rank: int | None = None  #: the worst rank
    outcome: Outcome | None = None  #: how the cell ended, of a finding on that
    interval: tuple[float, float] | None = None  #: 95 % of the ratio, where it was estimated
    evidence: tuple[str, ...] = ()
    #: it was right when it was repeated, so no release that ran once is known to be free of it
    intermittent: bool = False
    #: it differs before the optimizer's first update, and so by nothing that acts through updates alone
    before_update: bool = False

    @property
    def text(self) -> Text:
        """The finding in words, with the model and the rank that it is about."""
        text = joined(COLON, (self.model, self.claim, self.sentence))
        return text if self.rank is None else message("{finding}, rank {rank}", finding=text, rank=self.rank)

    @property
    def message(self) -> str:
        """The text in English."""
        return str(self.text)

    @property
    def workload(self) -> str:
        """The same as `Cell.workload`."""
        return f"{self.scenario}/{self.variant}/{self.device}"

    @property
    def cell(self) -> str:
        """The same as `Cell.id`."""
        return f"{self.stack}/{self.workload}"

    @property
    def key(self) -> tuple[str, ...]:
        """The subject of the finding. No two findings of a comparison share a key, and evidence does not change it."""
        return (self.stack, self.workload, self.metric, self.phase, self.kind, repr(self.value))


class Verdict(Enum):
    """The answer of one version of a framework in a bisection."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"  #: it does not install, does not import, or ends before it can be judged
