"""The room of a job on its card, in words."""

from __future__ import annotations

from dsregress.advice.card_rooms import CardRoom
from dsregress.messages import Message, Text, message, plural_message
from dsregress.model import split_workload
from dsregress.report.context import ReportContext
from dsregress.wording.quantities import quantity
from vgpu.card_room import Certainty


def room_text(context: ReportContext, stack: str, room: CardRoom) -> Message:
    """Return a run's room as a sentence: ``llama-3-70b on 32 ranks fits A800-80G, 28.4 GiB to spare.``"""
    job = _scale(context, stack, room.workload)
    needed = quantity(room.own.peak_bytes, "bytes")
    if room.own.certainty is Certainty.TOO_CLOSE:
        return message("{job} needs {needed} on {card}: too close to call.", job=job, card=room.card, needed=needed)
    if room.own.fits:
        spare = quantity(room.own.headroom_bytes, "bytes")
        if not room.needs_larger_card:
            return message("{job} fits {card}, {spare} to spare.", job=job, card=room.card, spare=spare)
        return message(
            "{job} fits {card}, {spare} to spare; the smallest card for it is {smallest}, was {before}.",
            job=job,
            card=room.card,
            spare=spare,
            smallest=room.smallest,
            before=room.baseline_smallest,
        )
    if room.baseline is None:
        return message("{job} does not fit {card}: needs {needed}.", job=job, card=room.card, needed=needed)
    before = quantity(room.baseline.peak_bytes, "bytes")
    return message(
        "{job} does not fit {card}: needs {needed}, was {before}.",
        job=job,
        card=room.card,
        needed=needed,
        before=before,
    )


def _scale(context: ReportContext, stack: str, workload: str) -> Text:
    """Return a job's scale: ``llama-3-70b on 32 ranks``."""
    cell = context.comparison.cells.of(stack, workload)
    parameters = cell.result.cell.parameters if cell is not None else {}
    job = str(parameters.get("model", split_workload(workload).scenario))
    if "world_size" not in parameters:
        return job
    return plural_message("{job} on {count:,} rank", "{job} on {count:,} ranks", parameters["world_size"], job=job)
