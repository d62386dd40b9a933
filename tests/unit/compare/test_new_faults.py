"""A change is blamed for what it does, and what it is not blamed for is said."""

from __future__ import annotations

from dsregress.compare import Thresholds, compare, without_old_faults
from dsregress.model import Failed
from tests.builders.synthetic import noisy_record, result

MISSING = Failed("import", "ModuleNotFoundError: No module named 'requests'", "")


def test_a_job_that_runs_in_neither_commit_is_named_with_its_reason() -> None:
    results = [result("0.15.0", outcome=MISSING), result("0.16.0", outcome=MISSING)]
    compared = without_old_faults(compare(results, results[0].cell.stack.id, Thresholds(), lambda of: None))
    assert compared.problems == ()
    (reason,) = [note for note in compared.notes if note.startswith("runs in neither commit: ")]
    assert "No module named 'requests'" in reason
    assert compared.notes[-1] == "1 problem left out: the commit before has them too"


def test_a_job_that_runs_in_the_commit_before_is_a_problem_of_the_change() -> None:
    results = [result("0.15.0", run=noisy_record(1)), result("0.16.0", outcome=MISSING)]
    compared = without_old_faults(compare(results, results[0].cell.stack.id, Thresholds(), lambda of: None))
    assert [problem.findings[0].kind for problem in compared.problems] == ["failed"]
    assert not any("neither" in note for note in compared.notes)
