"""The sandbox's EC2, served on loopback for the tests of one module. As AWS, it shows some new things late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from activities.ec2 import instances, rate_limits
from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.authorization.identities import ADMINISTRATOR_KEY, environment, worker_key
from sandbox.ec2.consistency import USUAL, Delays
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.few_types import offer_few_types
from tests.ec2.samples import node_class
from tests.sandbox.ec2.conftest import make_client
from tests.workflows.waiting import until

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

LATE = replace(USUAL, profile=0.0)
"""Half of the instances are shown late. Profiles are known at once: a module makes its class only once, and
`test_consistency.py` has launches with one that is not known yet."""


@pytest.fixture(scope="module")
def few_types() -> Iterator[None]:
    """The region offers few types. A module that needs every type overrides this fixture."""
    with pytest.MonkeyPatch.context() as patch:
        offer_few_types(patch.setattr)
        yield


@pytest.fixture(scope="module")
def describes_at_once() -> Iterator[None]:
    """Describe calls without the spacing of a worker, which would make each launch of these tests take a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instances, "SPACING_SECONDS", 0.0)
        patch.setattr(rate_limits, "INSTANCE_READS", rate_limits.READS)
        yield


@pytest.fixture(scope="module")
def delays() -> Delays:
    """How late EC2 shows what is new. Tests of what was made long ago override this fixture."""
    return LATE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, few_types: None, delays: Delays) -> Iterator[Server]:
    from sandbox.ec2.prices import read_prices
    from sandbox.ec2.server import start
    from sandbox.ec2.world import World

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(worker_key("sandbox")).items():
            patch.setenv(name, value)
        running = start(tmp_path_factory.mktemp("ec2"), world=World(read_prices(), delays=delays))
        yield running
        running.close()


def until_shown(server: Server, *instance_ids: str) -> None:
    """Return once EC2 shows these instances with their tags, for tests that look at what a launch made."""

    async def shown() -> bool:
        book = server.world.book
        book.advance()
        return all(item.shown and item.tags_shown for item in book.find(instance_ids))

    asyncio.run(until(shown))


def last_answers(server: Server) -> list[str]:
    """The last calls with EC2's answers, and how many images and parameters the account has, for a failed test."""
    from moto.ec2.models import ec2_backends
    from moto.ssm.models import ssm_backends

    from sandbox.ec2.authorization.identities import ACCOUNT
    from sandbox.ec2.region import REGION

    calls = [
        f"{call['action']} {call['parameters']}: {call['status']} {call['error']}"
        for call in server.world.calls.listing()
    ]
    images, parameters = ec2_backends[ACCOUNT][REGION].amis, ssm_backends[ACCOUNT][REGION]._parameters
    return [*calls[-20:], f"{len(images)} images, {len(parameters)} parameters"]


class Administrator(Ec2):
    """The administrator's clients. They have every operation; the worker's have only those that Tenon calls."""

    def __init__(self, endpoint: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment(ADMINISTRATOR_KEY).items():
                patch.setenv(name, value)
            super().__init__("us-west-2", endpoint)
        self.ec2 = make_client(endpoint, "ec2", "us-west-2")
        self.iam = make_client(endpoint, "iam", "us-west-2")
        self.ssm = make_client(endpoint, "ssm", "us-west-2")


def clients_of(access_key: str, server: Server) -> Ec2:
    """The clients of the identity with this access key."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(access_key).items():
            patch.setenv(name, value)
        return Ec2("us-west-2", server.endpoint)


@pytest.fixture(scope="module")
def clients(server: Server, describes_at_once: None) -> Ec2:
    """The worker's clients."""
    return clients_of(worker_key("sandbox"), server)


@pytest.fixture(scope="module")
def admin(server: Server) -> Administrator:
    """The administrator's clients."""
    return Administrator(server.endpoint)


@pytest.fixture(scope="module")
def provider(clients: Ec2) -> Ec2Provider:
    return Ec2Provider(clients, describe_cluster(clients, "sandbox"))


@pytest.fixture(scope="module")
def ready_class(provider: Ec2Provider, server: Server) -> EC2NodeClass:
    """A class as a user writes it, resolved."""
    empty: dict[str, object] = {"subnets": [], "securityGroups": [], "amis": [], "instanceProfile": None}
    written = node_class(empty, role="KarpenterNodeRole-sandbox")
    status = provider.resolve_node_class(written)
    unmet = [condition for condition in status.conditions if condition.status != "True"]
    assert not unmet, "\n".join([*map(str, unmet), *last_answers(server)])  # pytest shortens all but texts
    return written.model_copy(update={"status": status})


@pytest.fixture(autouse=True)
def _undo_injections(request: pytest.FixtureRequest) -> Iterator[None]:
    """Faults and empty pools end with the test that made them."""
    yield
    if "server" in request.fixturenames:
        world = request.getfixturevalue("server").world
        world.faults.clear()
        world.market.clear_capacity()
        world.calls.clear()
