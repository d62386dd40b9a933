"""``diagnose``: the explanation of a pasted crash, and the stored failures that match it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from dsregress.advice.diagnosis import crash as crashes
from dsregress.advice.diagnosis import failures, known_errors, tensor_sizes
from dsregress.advice.diagnosis.crash import Crash
from dsregress.advice.diagnosis.diagnosis import Diagnosis, card_of, likeliest
from dsregress.advice.diagnosis.failures import MatchedProblem
from dsregress.advice.diagnosis.tensor_sizes import ModelShape, SizeMatch
from dsregress.advisories.matching import KnownJob
from dsregress.advisories.shipped import read_advisories
from dsregress.cli import options
from dsregress.cli.named_advisories import refuse_advisory
from dsregress.cli.named_cells import declared_scenario, workload_if_here
from dsregress.cli.named_files import STDIN, read_end
from dsregress.cli.options import JobOptions
from dsregress.cli.output import note_problems, write_answer
from dsregress.cli.package_files import packages_of_file
from dsregress.cli.stated_jobs import FoundPackages, stated_job
from dsregress.config.settings import Settings
from dsregress.errors import EXIT_NOTHING_MEASURED, EXIT_OK, UsageError
from dsregress.model import Result
from dsregress.probe.scenario import BASE_VARIANT, SHAPE, Scenario
from dsregress.report.answers import diagnose_answer as diagnose_report
from dsregress.run import targets
from dsregress.store import Store
from dsregress.store.bundle_file import SUFFIX

#: Bytes that are read of a text: a log of many ranks is long, and its last error is at the end.
_MOST_READ = 4 << 20


@click.command("diagnose")
@click.argument("file", metavar="FILE|-")
@click.option(
    "-r",
    "--requirement",
    "sources",
    multiple=True,
    metavar="FILE",
    help="The packages of the job that crashed, as `audit` reads them. Releases that the text names come before them.",
)
@click.option(
    "--scenario",
    metavar="NAME",
    help="A workload like yours. Its model and sequence length explain sizes in the message.",
)
@options.job_options
@options.results_option
@options.json_option
def diagnose_command(
    file: str,
    sources: tuple[str, ...],
    scenario: str | None,
    job: JobOptions,
    results: str | None,
    json_file: str | None,
) -> int:
    """Look up a crash: a CUDA out-of-memory message or a traceback, in FILE or on stdin (-).

    Explains the message and the traceback: which tensor has the requested size, and which advisory knows the crash, in which
    releases, and what ends it. If none does, looks it up in stored results and the bundles in their folder. Runs nothing.
    Versions in the text (pip freeze, "deepspeed 0.16.4") narrow the answer, and so does the job, stated as for `audit`.

    \b
    Exit codes: 0 an advisory, a stored failure or a size explains it, 2 the text contains no crash, 4 nothing explains it.

    \b
    Examples:
      dsregress diagnose crash.txt
      dsregress diagnose crash.txt --scenario llamafactory_dpo_v100
      dsregress diagnose crash.txt --program 'torchrun train.py --model Qwen/Qwen2.5-7B'
      dsregress diagnose crash.txt -r uv.lock --config ds_zero3.json --gpu A800-80G
      srun ... 2>&1 | tee log; dsregress diagnose log --gpu A800-80G
    """
    text = _read_pasted_text(file)
    crash = crashes.read_crash(text) or known_errors.message_alone(text, read_advisories())
    if crash is None:
        hint = "include the lines from `Traceback` or `CUDA out of memory` on; what is wrong without a crash is for `audit`"
        raise UsageError("contains no crash that is known here", where=_file_label(file), hint=hint)
    settings = options.load_settings(results=results)
    scenario = workload_if_here(scenario, job.program, settings, "it gives no sizes") if job.program else scenario
    declared = declared_scenario(settings, scenario) if scenario else None
    varied = targets.varied_package(settings)
    package = crash.package or varied
    configured = settings.stack.get(package, "")
    stated = _stated_job(sources, job)
    known, ruled_out = known_errors.matching_advisories(crash, read_advisories(), stated)
    versions = {**stated.versions, **crash.versions}
    problems, stored = ([], 0) if known else _looked_up(crash, versions, settings, varied)
    model, sequence = _model_shape(text, declared)
    answer = Diagnosis(
        crash=crash,
        package=package,
        beside=configured if isinstance(configured, str) else "",
        card=job.card or card_of(crash),
        model=model,
        sizes=_matching_sizes(crash, model, sequence),
        problems=likeliest(problems),
        known=known,
        ruled_out=ruled_out,
        failures=stored,
        scenario=scenario or "",
        versions=versions,
    )
    write_answer(
        lambda: diagnose_report.diagnosis_text(answer),
        (json_file, lambda: diagnose_report.diagnosis_json(answer)),
    )
    return EXIT_OK if answer.is_known else EXIT_NOTHING_MEASURED


def _stated_job(sources: Sequence[str], job: JobOptions) -> KnownJob:
    """Return what options and files state of the job. Raise UsageError."""
    packages = [packages_of_file(one) for one in sources]
    return stated_job(job, FoundPackages(packages, read_advisories(), " ".join(map(_file_label, sources)))).job


def _read_pasted_text(file: str) -> str:
    """Return the end of a text. Raise UsageError if it cannot be read, or is empty."""
    if not Path(file).exists():
        refuse_advisory(file, "FILE")
    data = read_end(file, _MOST_READ, hint="name a file with the crash, or - for stdin")
    text = data.decode("utf-8", "replace")
    if not text.strip():
        raise UsageError("is empty", where=_file_label(file), hint="paste the crash into it")
    return text


def _file_label(file: str) -> str:
    return STDIN if file == "-" else file


def _matching_sizes(crash: Crash, model: ModelShape | None, sequence: int | None) -> tuple[SizeMatch, ...]:
    """Return the tensors that have the requested size; none without one."""
    requested = crash.memory.requested if crash.memory is not None else None
    return tensor_sizes.matches(requested, model, sequence) if requested is not None else ()


def _looked_up(
    crash: Crash, versions: Mapping[str, str], settings: Settings, package: str
) -> tuple[list[MatchedProblem], int]:
    """Return the problems of all sources that the crash may be, in a job with these releases, and the number of stored
    failures."""
    crash = msgspec.structs.replace(crash, versions=versions)
    look = failures.of_memory if crash.memory is not None else failures.of_crash
    found: list[MatchedProblem] = []
    distinct: set[tuple[str, str]] = set()
    for source, results in _stored_sources(settings.results):
        distinct |= failures.failures(results)
        found += look(crash, source, results, package, settings.baseline, settings.thresholds)
    return found, len(distinct)


def _stored_sources(folder: str) -> Iterator[tuple[str, tuple[Result, ...]]]:
    """Yield each source's name and results: a folder, or a bundle, and each bundle in the folder. Raise ResultsError."""
    bundles = sorted(Path(folder).glob(f"*{SUFFIX}")) if Path(folder).is_dir() else []
    name = Path(folder).name
    for source, file in ((name, folder), *((f"{name}/{bundle.name}", str(bundle)) for bundle in bundles)):
        loaded = Store(file).load()
        note_problems(loaded.problems)
        if loaded.results:
            yield source, loaded.results


def _model_shape(text: str, scenario: Scenario | None) -> tuple[ModelShape | None, int | None]:
    """Return the model and the sequence length: those of the text, else of the scenario."""
    model, sequence = tensor_sizes.model_in(text), tensor_sizes.sequence_in(text)
    if scenario is not None:
        device = "sim" if "sim" in scenario.devices else next(iter(scenario.devices))
        parameters = scenario.resolve(BASE_VARIANT, device)
        model = model or ModelShape.of(str(parameters.get("model", "")), parameters.get(SHAPE, {}))
        model = model or tensor_sizes.model_in(str(parameters.get("program", "")))  # the launch line of one
        sequence = sequence or parameters.get("sequence_length")
    return model, sequence
