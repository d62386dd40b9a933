"""Errors of a program that cannot be measured."""

from __future__ import annotations


class ProgramError(RuntimeError):
    """The program did not do what is to be measured; one line says what it did instead."""


class CannotRun(ProgramError):
    """The program needs something that is not available, which says nothing about a release; the first line says what to
    add."""

    says_what_to_do = True
    says_where = False  #: True if its line names the place
    refuses = ""  #: the fault that the machine does not have, as it is we who refuse (see `machine.of_error`)
