"""The probe's tests fork a process for each job."""

from tests.measured import pytest_collection_finish, pytest_configure

__all__ = ["pytest_collection_finish", "pytest_configure"]
