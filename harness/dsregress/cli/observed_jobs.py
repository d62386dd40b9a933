"""``audit --observe``: the reader's job, run for some seconds in `sim`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dsregress.advisories.job_facts import Fact
from dsregress.advisories.stated.observed_run import RUN, facts_of_run, trained_tensors
from dsregress.cli.lines import print_note
from dsregress.cli.measured_changes import stack_of_list
from dsregress.cli.named_cells import one_cell
from dsregress.cli.options import JobOptions, WorkloadOptions, requested_versions
from dsregress.cli.progress import Progress
from dsregress.config.settings import Settings
from dsregress.errors import UsageError
from dsregress.model import AXES, Passed
from dsregress.probe.scenario import BASE_VARIANT
from dsregress.run import pipeline
from dsregress.run.session import open_session
from dsregress.wording.names import outcome_text

_SIM = "sim"


def observed_facts(settings: Settings, versions: Mapping[str, str], job: JobOptions) -> list[Fact]:
    """Run the job's program with the installed ``versions``, and return what was in force; none, with a note, if it does not
    train. Raise UsageError if there is no program, and as `Session.measure`."""
    if job.program is None:
        raise UsageError("needs a program to run", where=RUN, hint="add --program 'LINE'")
    program = job.program
    if job.card is not None:
        program = msgspec.structs.replace(program, gpu=job.card.name)
    if job.ranks is not None:
        program = msgspec.structs.replace(program, ranks=job.ranks)
    installer = pipeline.new_installer(settings)
    is_configured = program.line == settings.job.program
    added = requested_versions({}, settings.job.added) if is_configured else {}
    configured = pipeline.plan_stacks(settings, pipeline.Choice(versions=added), installer).stacks[-1]
    mine = {name: version for name, version in versions.items() if name in {*AXES, *configured.versions}}
    stack = stack_of_list(configured, mine, {})
    cell = one_cell(settings, stack, WorkloadOptions(scenario=None, variant=BASE_VARIANT, device=_SIM), program)
    with Progress() as progress, open_session(settings, (), progress, installer) as opened:
        (result,) = opened.measure([cell], baseline=stack, rounds=0, fresh=True)
    detail = opened.store.detail(result.detail_sha256)
    if not isinstance(result.outcome, Passed) or result.record is None or detail is None:
        print_note(f"{RUN} shows nothing, as the program does not train here: {outcome_text(result.outcome)}")
        return []
    return list(facts_of_run(trained_tensors(result.record), detail))
