"""What is not on a machine, and what only cannot be read there."""

from __future__ import annotations

import errno
import os
import socket
import urllib.error

import pytest

from dsregress.probe.border import machine
from dsregress.programs.world.local_sockets import NoNetworkError, local_sockets_only
from dsregress.programs.world.resource_errors import is_absence


def refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number), "/data/train.bin")


def reported(outer: Exception, cause: Exception) -> Exception:
    """An error that a library raises from another one."""
    try:
        raise outer from cause
    except Exception as error:
        return error


def without_a_network() -> Exception:
    with local_sockets_only(), pytest.raises(NoNetworkError) as caught:
        socket.getaddrinfo("huggingface.co", 443)
    return caught.value


@pytest.mark.parametrize(
    "number", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EIO, errno.ENOMEM]
)
def test_what_is_refused_is_not_absent_whatever_a_library_makes_of_it(number: int) -> None:
    assert not is_absence(refusal(number))
    assert not is_absence(reported(FileNotFoundError("Couldn't find any data file at /data"), refusal(number)))
    assert not is_absence(reported(ConnectionError("Couldn't reach /data"), refusal(number)))
    assert not is_absence(reported(refusal(number), FileNotFoundError("no cache")))


def test_a_missing_file_and_a_refused_network_are_absences() -> None:
    assert is_absence(refusal(errno.ENOENT))
    assert is_absence(FileNotFoundError("Couldn't find any data file at /data"))
    assert is_absence(without_a_network())
    assert is_absence(reported(urllib.error.URLError("no host"), without_a_network()))
    assert is_absence(reported(OSError("We couldn't connect to the hub"), without_a_network()))
    assert is_absence(ConnectionError("Couldn't reach 'imdb' on the Hub (offline mode)"))


def test_an_error_in_a_librarys_own_words_is_no_absence() -> None:
    assert not is_absence(OSError("image file is truncated"))
    assert not is_absence(ValueError("no such split"))


def test_what_passes_through_counts_where_the_machines_rules_say() -> None:
    assert machine.of_error(refusal(errno.EMFILE)) == machine.OPEN_FILES
    assert machine.of_error(refusal(errno.ENOSPC)) == machine.DISK_FULL
    assert machine.of_error(refusal(errno.EACCES)) == ""
