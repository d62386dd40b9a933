"""What commands share that measure releases without comparing them."""

from __future__ import annotations

from typing import Any

from harness.cli import options
from harness.config.settings import Settings
from harness.run import pipeline, targets
from harness.versions import stacks as stack_plans


def one_axis(settings: Settings, given: dict[str, Any], published: stack_plans.Published) -> pipeline.Choice:
    """Nothing is compared, so the releases asked for are all there are: the first of them stands as the baseline."""
    versions = options.versions_of(given)
    primary = targets.varied_package(settings)
    first = given["baseline"]
    if first is None and primary in versions:
        first = stack_plans.resolve(primary, versions[primary], published)[0]
    return pipeline.Choice(versions=versions, stack=given["stack"], baseline=first)
