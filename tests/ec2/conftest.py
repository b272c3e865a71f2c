"""The sandbox's EC2, served on loopback for the tests of one module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.samples import node_class

if TYPE_CHECKING:
    from sandbox.ec2.server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from sandbox.ec2.server import start

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "sandbox")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "sandbox")
        running = start(tmp_path_factory.mktemp("ec2"))
        yield running
        running.close()


@pytest.fixture(scope="module")
def clients(server: Server) -> Ec2:
    return Ec2("us-west-2", server.endpoint)


@pytest.fixture(scope="module")
def provider(clients: Ec2) -> Ec2Provider:
    return Ec2Provider(clients, describe_cluster(clients, "sandbox"))


@pytest.fixture(scope="module")
def ready_class(provider: Ec2Provider) -> EC2NodeClass:
    """A class as a user writes it, resolved."""
    empty: dict[str, object] = {"subnets": [], "securityGroups": [], "amis": [], "instanceProfile": None}
    written = node_class(empty, role="KarpenterNodeRole-sandbox")
    return written.model_copy(update={"status": provider.resolve_node_class(written)})


@pytest.fixture(autouse=True)
def _undo_injections(request: pytest.FixtureRequest) -> Iterator[None]:
    """Faults and empty pools end with the test that made them."""
    yield
    if "server" in request.fixturenames:
        world = request.getfixturevalue("server").world
        world.faults.clear()
        world.market.clear_capacity()
        world.calls.clear()
