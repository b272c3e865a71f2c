"""The sandbox's EC2 and a provider on it, as the tests of EC2 have them, and a cluster for sweeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from activities.ec2.provider import Ec2Provider
from sandbox.ec2.authorization.identities import worker_key
from sandbox.ec2.consistency import AT_ONCE, Delays
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.activities.garbage_collection.lost import Cluster, serving
from tests.ec2.conftest import (
    Administrator,
    _undo_injections,
    admin,
    clients,
    clients_of,
    describes_at_once,
    few_types,
    provider,
    ready_class,
    server,
)

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

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


@pytest_asyncio.fixture
async def lost(
    temporal: WorkflowEnvironment,
    cluster: str,
    provider: Ec2Provider,
    server: Server,
    admin: Administrator,
    ready_class: EC2NodeClass,
) -> AsyncIterator[Cluster]:
    worker = clients_of(worker_key(cluster), server)
    async with serving(cluster, temporal.client, provider, worker, admin, ready_class) as output:
        yield output
