"""How an oracle says that it has no verdict: because it does not cover a job, or because it broke.

Standard library only.
"""

from __future__ import annotations


class NotCoveredError(Exception):
    """The oracle does not cover this job; the message says why. The job is measured without its verdict."""


class OracleError(BaseException):
    """An oracle broke: a failure of the harness, which says nothing of what was measured.

    Not an Exception, so that a program in whose call it is raised does not catch it.
    """

    says_where = True  # in its message
