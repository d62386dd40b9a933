"""The command line by which people launch a training program, split into its parts. Standard library only: the host reads a
line too, to know its ranks and its files.

    python train.py ARGS                     torchrun --nproc_per_node 8 train.py ARGS
    deepspeed --num_gpus 8 train.py ARGS     accelerate launch --config_file zero3.yaml train.py ARGS
    trl sft ARGS                             llamafactory-cli train config.yaml
    litgpt finetune_lora ARGS                train.py ARGS
    mpirun -np 8 python train.py ARGS        ray job submit -- python train.py ARGS
    composer -n 8 train.py ARGS              colossalai run --nproc_per_node 8 train.py ARGS

A launcher's own code interprets its options: `dsregress.programs.launch.launchers` passes them on, in the measured
environment. Here they are only separated from the program and from the program's arguments.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import shlex
from collections.abc import Iterator, Sequence

from dsregress.probe.shell_syntax import first_of_a_shell, joined
from vgpu.json_tables import decoded_text_lists, decoded_texts, table_beside

_TABLE = table_beside(__file__)

#: Launchers' options that take no value; of all others the next word is the value, unless they are written with ``=``.
#: From the parsers of torch.distributed.run, deepspeed.launcher.runner and accelerate.commands.launch.
_FLAGS = {launcher: frozenset(flags) for launcher, flags in decoded_text_lists(_TABLE["flags"]).items()}
_FLAGS["torch.distributed.launch"] = _FLAGS["torchrun"] | {"--use-env", "--use_env"}

#: Options that make the next word a module instead of a file.
_MODULE = frozenset(("-m", "--module"))

#: Options for the number of ranks, and those that multiply it.
_RANKS = ("--nproc_per_node", "--nproc-per-node", "--num_gpus", "--num-gpus", "--num_processes", "--num-processes")
_NODES = ("--nnodes", "--num_nodes", "--num-nodes")
_INCLUDE = ("--include", "-i")

#: Processes and nodes of the largest job.
_MOST = 999_999
#: Values of `_RANKS` and `_NODES`: a number from 1 on, ``auto``, the name of a kind of device, a ``{placeholder}``; and of
#: nodes, torchrun's least and most.
_COUNT = r"0*[1-9][0-9]{0,5}"
_PROCESSES = re.compile(rf"{_COUNT}|[a-z]+|\{{\w+\}}")
_NODE_COUNT = re.compile(rf"{_COUNT}(:{_COUNT})?|\{{\w+\}}")
#: Launchers' options that name a file of settings.
_CONFIGURATIONS = decoded_text_lists(_TABLE["configurations"])

_PYTHON = re.compile(r"python(\d(\.\d+)?)?")


class LaunchLineError(ValueError):
    """A line that launches no program; the message gives the reason."""


#: Prefixes of variables that are read when Python starts or when a package is imported. A measured process has imported
#: torch, transformers and DeepSpeed before a program begins. Observed with torch 2.13.0, transformers 4.57.6, DeepSpeed
#: 0.16.4: the names that these imports look up, and that the first eight change nothing afterwards.
_READ_BEFORE = decoded_texts(_TABLE["read_before"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaunchLine:
    """A launch line in its parts."""

    launcher: (
        str  #: ``python``, ``torchrun``, ``deepspeed``, ``accelerate``, ``trl``, ``llamafactory-cli`` or `INSTALLED`
    )
    options: tuple[str, ...]  #: the launcher's own
    variables: tuple[tuple[str, str], ...]  #: NAME=VALUE words before the launcher
    program: str  #: a file, a module, the launcher's command (``sft`` of trl), or a command that a package installs
    is_module: bool
    arguments: tuple[str, ...]  #: the program's
    started_ranks: int | None = None  #: processes that a starter around the launcher starts: ``mpirun -np 8``

    @property
    def name(self) -> str:
        """The program's name, without its folder."""
        if self.launcher == INSTALLED:
            return "-".join((self.program, *(word for word in self.arguments[:1] if _COMMAND.fullmatch(word))))
        if self.is_command:
            return f"{self.launcher.partition('-')[0]}-{self.program}"
        return (
            self.program.rpartition(".")[2] if self.is_module else os.path.splitext(os.path.basename(self.program))[0]
        )

    @property
    def is_command(self) -> bool:
        """True if the program is a command of the launcher's own, or an installed one, not a file."""
        return self.launcher in (INSTALLED, *_COMMANDS)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The variables that are read before the program begins when it is measured."""
        return tuple(name for name, _ in self.variables if name.startswith(_READ_BEFORE))

    @property
    def ranks(self) -> int | None:
        """The number of ranks by the launcher's options; None if they do not give it, or not as a number (``auto``)."""
        if self.launcher == "deepspeed" and (included := self.option(_INCLUDE)):
            return _included(included)
        per_node = self._number(_RANKS, "NPROC_PER_NODE")
        if per_node is None:
            return self.started_ranks
        nodes = self._number(_NODES, "NNODES") or 1
        # accelerate counts the processes of all machines, the others those of one.
        return per_node if self.launcher == "accelerate" else per_node * nodes

    @property
    def configuration(self) -> str:
        """The file that ``accelerate launch`` reads its options from; empty if the line names none."""
        return self.option(_CONFIGURATIONS[self.launcher]) if self.launcher in _CONFIGURATIONS else ""

    @property
    def starts_any_file(self) -> bool:
        """True if the launcher starts the program as it is, and not by Python."""
        return not {"--no-python", "--no_python"}.isdisjoint(self.options)

    @property
    def asks_for_devices(self) -> bool:
        """True if the launcher starts a rank on each device that it finds, unless the line gives a number."""
        return self.launcher in ("deepspeed", "accelerate", INSTALLED, *_COMMANDS) or self.option(_RANKS) in (
            "gpu",
            "auto",
        )

    @property
    def visible_devices(self) -> int | None:
        """The number of ranks if nothing else gives it: one on each device of the line's ``CUDA_VISIBLE_DEVICES``. None
        without that variable, or if the launcher does not count devices."""
        devices = [each for each in dict(self.variables).get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
        return len(devices) or None if self.asks_for_devices else None

    def option(self, names: Sequence[str]) -> str:
        """Return the value of one of the launcher's options, by its spellings; empty if it is not given. A command takes
        them among its own: ``tune run --nproc_per_node 4 RECIPE``, ``trl sft --num_processes 4``."""
        words = iter(self.arguments if self.is_command else self.options)
        for word in words:
            name, equals, value = word.partition("=")
            if name in names:
                return value if equals else next(words, "")
        return ""

    def _number(self, names: Sequence[str], variable: str) -> int | None:
        """Return the number given by an option, or for a command by the variable from which LLaMA-Factory, ms-swift and
        XTuner read it; None without one."""
        value = self._text(names, variable)
        return int(value) if value.isdecimal() else None

    def _text(self, names: Sequence[str], variable: str) -> str:
        return self.option(names) or (dict(self.variables).get(variable, "") if self.is_command else "")

    def check_counts(self) -> None:
        """Raise LaunchLineError if the line starts an impossible number of processes or nodes."""
        for names, variable, pattern in ((_RANKS, "NPROC_PER_NODE", _PROCESSES), (_NODES, "NNODES", _NODE_COUNT)):
            value = self._text(names, variable)
            is_all = value == "-1" and self.launcher == "deepspeed"  # its own word for all that there are
            if value and not is_all and not pattern.fullmatch(value):
                words = (word.partition("=")[0] for word in (*self.options, *self.arguments))
                option = next((word for word in words if word in names), variable)
                raise LaunchLineError(f"{option} {value[:20]}: write a whole number from 1 to {_MOST:,}")


def _included(devices: str) -> int | None:
    """Return the number of devices in DeepSpeed's ``localhost:0,1`` or ``worker-0:0,1@worker-1:2``; None if a host is named
    without its devices."""
    numbers = [host.partition(":")[2].split(",") for host in devices.split("@")]
    return sum(map(len, numbers)) if all(number.isdecimal() for own in numbers for number in own) else None


#: Launchers whose first word is one of their own commands.
_COMMANDS = ("trl", "llamafactory-cli")

#: The launcher of a command that a package installs, such as ``litgpt``, and that launches itself.
INSTALLED = "command"

#: A word that a shell looks up in ``PATH``, rather than a file.
_COMMAND = re.compile(r"[A-Za-z][\w-]*")


def parse(line: str) -> LaunchLine:
    """Return the parts of a launch line. Raise LaunchLineError if it is not a single line, needs a shell, or launches no
    program."""
    line = joined(line)
    if "\n" in line:
        raise LaunchLineError("several lines; write one launch line")
    if text := first_of_a_shell(line):
        raise LaunchLineError(
            f"dsregress runs no shell: {text!r} would be an argument; write the line without it, or put it in single quotes"
        )
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise LaunchLineError(f"cannot be read as a shell would: {error}") from None
    return parse_words(words)


def parse_words(words: Sequence[str]) -> LaunchLine:
    """Return the parts of a line that is already split into words. Raise LaunchLineError if it launches no program."""
    parsed = _parsed(list(words))
    parsed.check_counts()
    return parsed


def _parsed(words: list[str]) -> LaunchLine:
    variables = []
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
        name, _, value = words.pop(0).partition("=")
        variables.append((name, value))
    if not words:
        raise LaunchLineError("no program; write e.g. 'train.py --model qwen'")
    if (started := _started(words)) is not None:
        inner = _parsed(started.words)
        ranks = inner.started_ranks if started.ranks is None else started.ranks
        outer = (*variables, *started.variables)
        return dataclasses.replace(inner, variables=(*outer, *inner.variables), started_ranks=ranks)
    launcher, rest = _launcher(words)
    if launcher in _COMMANDS:
        return _command(launcher, rest, tuple(variables))
    if launcher == INSTALLED:
        return LaunchLine(
            launcher=launcher,
            options=(),
            variables=tuple(variables),
            program=rest[0],
            is_module=False,
            arguments=tuple(rest[1:]),
        )
    options, target, is_module, arguments = _split(launcher, rest)
    if launcher == "python" and is_module and target in _MODULES_THAT_LAUNCH:
        launcher = _MODULES_THAT_LAUNCH[target]
        options, target, is_module, arguments = _split(launcher, arguments)
    if launcher in _DROP_SEPARATOR and arguments[:1] == ["--"]:
        arguments = arguments[1:]
    return LaunchLine(
        launcher=launcher,
        options=tuple(options),
        variables=tuple(variables),
        program=target,
        is_module=is_module,
        arguments=tuple(arguments),
    )


#: ``python -m NAME``, which is a launcher.
_MODULES_THAT_LAUNCH = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torch.distributed.launch",
    "deepspeed.launcher.runner": "deepspeed",
    "accelerate.commands.launch": "accelerate",
}


#: Launchers whose argument parser drops a ``--`` between the program and its arguments, as argparse does.
_DROP_SEPARATOR = ("torchrun", "torch.distributed.launch", "deepspeed")


#: Starters that begin the same line once for each rank, and their options for the number of ranks and for a variable.
_OF_MPI = ("mpirun", "mpiexec", "mpiexec.hydra", "horovodrun")
_MPI_RANKS = ("-np", "--np", "-n", "--n", "-c")
_MPI_VARIABLES = ("-x", "-genv", "--export")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _InnerLine:
    """The line that another command starts on each rank, or on a cluster's machine."""

    words: list[str]
    ranks: int | None = None
    variables: tuple[tuple[str, str], ...] = ()


def _started(words: list[str]) -> _InnerLine | None:
    """Return the line after ``ray job submit OPTIONS --``, or after the options of ``mpirun``, which are many: it begins
    with a launcher or a file of Python. None for a line without a starter."""
    first = os.path.basename(words[0])
    if words[1:3] == ["job", "submit"] and first == "ray" and "--" in words:
        return _InnerLine(words=words[words.index("--") + 1 :])
    if first == "composer" or [first, *words[1:2]] == ["colossalai", "run"]:
        return _InnerLine(words=_as_torchrun(words[1:] if first == "composer" else words[2:]))
    if first not in _OF_MPI:
        return None
    begin = next((at for at, word in enumerate(words) if at and _begins_line(word)), None)
    if begin is None:
        return None
    options = words[1:begin]
    counts = [value for name, value in itertools.pairwise(options) if name in _MPI_RANKS]
    given = [value for name, value in itertools.pairwise(options) if name in _MPI_VARIABLES]
    return _InnerLine(
        words=words[begin:],
        ranks=int(counts[0]) if counts and counts[0].isdecimal() else None,
        variables=tuple((name, value) for name, equals, value in (one.partition("=") for one in given) if equals),
    )


def _as_torchrun(words: Sequence[str]) -> list[str]:
    """Return the line of torchrun that starts the ranks which a launcher like it does, from its options on: MosaicML's
    ``composer``, which counts the processes of all machines, and ``colossalai run``."""
    given: dict[str, str] = {}
    left = iter(words)
    program: list[str] = []
    for word in left:
        if not word.startswith("-"):
            program = [word, *left]
            break
        name, equals, value = word.partition("=")
        given[name] = value if equals or name in _FLAGS_LIKE_TORCHRUN else next(left, "")
    processes = next((given[name] for name in _PROCESSES_LIKE_TORCHRUN if name in given), "auto")
    nodes = given.get("--num_nodes", "1")
    if (world := given.get("--world_size", "")).isdecimal() and processes.isdecimal():
        nodes = str(max(1, int(world) // max(1, int(processes))))
    module = [] if _MODULE_LIKE_TORCHRUN.isdisjoint(given) else ["-m"]
    return ["torchrun", "--nnodes", nodes, "--nproc_per_node", processes, *module, *program]


_MODULE_LIKE_TORCHRUN = frozenset(("-m", "--module_mode"))
_FLAGS_LIKE_TORCHRUN = _MODULE_LIKE_TORCHRUN | {"-v", "--verbose"}
_PROCESSES_LIKE_TORCHRUN = ("-n", "--nproc", "--nproc_per_node")


def _begins_line(word: str) -> bool:
    first = os.path.basename(word)
    known = (*_FLAGS, *_COMMANDS, "accelerate-launch")
    return word.endswith(".py") or first in known or _PYTHON.fullmatch(first) is not None


#: Commands that start another, or are for a shell: none of them trains.
_STARTERS = frozenset(decoded_texts(_TABLE["starters"]))


def _launcher(words: list[str]) -> tuple[str, list[str]]:
    first = os.path.basename(words[0])
    if _PYTHON.fullmatch(first):
        return "python", words[1:]
    if first == "accelerate":
        if words[1:2] != ["launch"]:
            raise LaunchLineError("accelerate without launch launches nothing; write 'accelerate launch train.py'")
        return "accelerate", words[2:]
    if first == "accelerate-launch":
        return "accelerate", words[1:]
    if first in ("torchrun", "deepspeed", *_COMMANDS):
        return first, words[1:]
    if first == "llamafactory":
        return "llamafactory-cli", words[1:]
    if first in _STARTERS:
        raise LaunchLineError(f"{first} is not understood; write the line that it starts, e.g. 'torchrun train.py'")
    return (INSTALLED if _COMMAND.fullmatch(words[0]) else "python"), words


def _command(launcher: str, words: list[str], variables: tuple[tuple[str, str], ...]) -> LaunchLine:
    if not words or words[0].startswith("-"):
        raise LaunchLineError(f"{launcher} without a command; write e.g. '{launcher} {_EXAMPLES[launcher]}'")
    return LaunchLine(
        launcher=launcher,
        options=(),
        variables=variables,
        program=words[0],
        is_module=False,
        arguments=tuple(words[1:]),
    )


_EXAMPLES = {"trl": "sft --model_name_or_path Qwen/Qwen2.5-7B", "llamafactory-cli": "train config.yaml"}


def _split(launcher: str, words: Sequence[str]) -> tuple[list[str], str, bool, list[str]]:
    """Return the launcher's options, the program, True if that is a module, and its arguments."""
    options: list[str] = []
    is_module = False
    left: Iterator[str] = iter(words)
    for word in left:
        if word in _MODULE:
            is_module = True
        elif word == "--":
            continue
        elif not word.startswith("-"):
            return options, word, is_module, list(left)
        elif word == "-c" and launcher == "python":
            raise LaunchLineError("python -c: write the program into a file")
        else:
            options.append(word)
            if "=" not in word and word not in _FLAGS[launcher]:
                value = next(left, None)
                if value is None:
                    break
                if value.endswith(".py"):  # an option without a value that is not among those known
                    return options, value, is_module, list(left)
                options.append(value)
    raise LaunchLineError(f"{launcher} without a program; write e.g. '{_example(launcher)}'")


def _example(launcher: str) -> str:
    return "accelerate launch train.py" if launcher == "accelerate" else f"{launcher} train.py"
