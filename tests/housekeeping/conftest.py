"""The sandbox's EC2 and a provider on it, as the tests of EC2 have them."""

from __future__ import annotations

import pytest

from sandbox.ec2.consistency import AT_ONCE, Delays
from tests.ec2.conftest import (
    _undo_injections,
    admin,
    clients,
    describes_at_once,
    few_types,
    provider,
    ready_class,
    server,
)

__all__ = [
    "_undo_injections",
    "admin",
    "clients",
    "describes_at_once",
    "few_types",
    "provider",
    "ready_class",
    "server",
]


@pytest.fixture(scope="module")
def delays() -> Delays:
    """A sweep leaves alone what is newer than EC2 is late, so what a test plants counts as old and is shown at once."""
    return AT_ONCE
