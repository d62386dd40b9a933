"""Tables of the documentation are those of the code."""

from __future__ import annotations

import json
import re

import msgspec

from dsregress.compare.metrics import METRICS
from dsregress.config import settings
from dsregress.config.settings import Settings
from dsregress.model import Result
from dsregress.probe import scenario
from dsregress.probe.factors import FACTORS
from tests.paths import ROOT, SOURCE
from tests.unit.docs import markdown
from tests.unit.docs.factor_table import factor_table

DOCS = ROOT / "docs"


def test_the_glossary_has_every_metric_as_the_table_of_metrics_has_it() -> None:
    def yes(fact: bool) -> str:
        return "yes" if fact else "no"

    told = markdown.table(DOCS / "glossary.md", "metric")
    assert [{k: v for k, v in row.items() if k != "how it is measured"} for row in told] == [
        {
            "metric": metric.name,
            "unit": metric.unit or "-",
            "direction": metric.direction.value,
            "per phase": yes(metric.per_phase),
            "exact": yes(metric.exact),
            "fails": metric.fails or "-",
        }
        for metric in METRICS
    ]
    assert all(row["how it is measured"] for row in told)


def test_the_page_about_exploring_lists_every_factor() -> None:
    assert markdown.table(DOCS / "explore.md", "of") == factor_table(FACTORS)


def test_every_variant_of_the_generic_families_is_explained() -> None:
    of: dict[str, set[str]] = {}
    for name, family in (("llama", "Llama"), ("qwen", "Qwen2.5")):
        for variant in scenario.load(ROOT / "scenarios" / f"{name}_zero3_backward.py").variant_ids:
            of.setdefault(variant, set()).add(family)
    told = {row["variant"]: row for row in markdown.table(DOCS / "coverage.md", "variant")}
    assert {variant: row["of"] for variant, row in told.items()} == {
        variant: "both" if len(families) == 2 else families.pop() for variant, families in of.items()
    }
    assert all(row["exercises"] for row in told.values())


def test_the_keys_of_pyproject_are_the_settings_with_their_defaults() -> None:
    keys = markdown.table(DOCS / "configuration.md", "key")
    settings = Settings()
    fields = [name for name in Settings.__struct_fields__ if name != "root"]  # found, not configured
    thresholds = settings.thresholds.__struct_fields__
    assert [row["key"] for row in keys] == [*fields, *thresholds]
    for number, row in enumerate(keys):  # `rounds` is one of each
        owner = settings if number < len(fields) else settings.thresholds
        value = msgspec.to_builtins(getattr(owner, row["key"]))
        if row["key"] not in (
            "python",
            "stack",
            "stacks",
            "selections",
            "thresholds",
            "audit",
            "job",
            "docker",
            "ray",
        ):  # the machine's, and tables
            shown = json.loads(row["default"])
            assert shown == (list(value) if isinstance(value, tuple) else value), row["key"]


def test_the_settings_of_containers_are_those_of_the_code() -> None:
    rows = markdown.table(DOCS / "configuration.md", "setting")
    told = {row["setting"]: json.loads(row["default"]) for row in rows}
    assert told == msgspec.to_builtins(Settings().docker)


def test_the_settings_of_a_job_are_those_of_the_code() -> None:
    rows = markdown.table(DOCS / "configuration.md", "of job")
    assert {row["of job"]: json.loads(row["default"]) for row in rows} == json.loads(
        msgspec.json.encode(Settings().job)
    )


def test_the_settings_of_clusters_are_those_of_the_code() -> None:
    rows = markdown.table(DOCS / "configuration.md", "of ray")
    assert {row["of ray"]: json.loads(row["default"]) for row in rows} == msgspec.to_builtins(Settings().ray)


def test_environment_variables_are_those_that_the_code_reads() -> None:
    told = {row["variable"] for row in markdown.table(DOCS / "configuration.md", "variable")}
    docstring = set(re.findall(r"DSREGRESS_[A-Z]+", settings.__doc__ or ""))
    sources = [*(SOURCE / "dsregress" / "cli").rglob("*.py"), *(SOURCE / "dsregress" / "config").rglob("*.py")]
    used = {name for file in sources for name in re.findall(r"DSREGRESS_[A-Z]+", file.read_text(encoding="utf-8"))}
    assert told == used
    assert docstring <= told


def test_the_fields_of_a_result_are_explained() -> None:
    told = [name for row in markdown.table(DOCS / "results.md", "field") for name in re.findall(r"\w+", row["field"])]
    assert told == list(Result.__struct_fields__)


def test_the_keys_of_the_json_report_are_explained() -> None:
    written = json.loads((ROOT / "tests" / "golden" / "report.json").read_text(encoding="utf-8"))
    assert [row["key"] for row in markdown.table(DOCS / "results.md", "key")] == list(written)


def test_the_errors_that_are_explained_are_ones_that_the_code_gives() -> None:
    files = (file for suffix in ("py", "json", "toml") for file in (SOURCE / "dsregress").rglob(f"*.{suffix}"))
    sources = "".join(file.read_text(encoding="utf-8") for file in files)
    sources += "".join(f"no such {what}" for what in re.findall(r'no_such\("(\w+)"', sources))
    rows = markdown.table(DOCS / "troubleshooting.md", "it says")
    assert len(rows) > 10
    for row in rows:
        for said in re.split(r"`, `", row["it says"]):
            parts = re.split(r"'[^']*'|\d[\w.]*|python\d", said)  # names and numbers are of the case
            fixed = next(part.strip(" ;") for part in parts if len(part.strip(" ;")) >= 6)
            assert fixed in sources, said
