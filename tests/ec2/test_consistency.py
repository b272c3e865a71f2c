"""Launches while AWS does not show everywhere yet what was just created."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.nodeclass import UnansweredError
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.consistency import AT_ONCE, Delays
from tenon.apis.conditions import get_condition, is_true
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.samples import node_claim, node_class
from tests.sandbox.ec2.conftest import Clock

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


@pytest.fixture
def clock(server: Server) -> Iterator[Clock]:
    """EC2's clock, which stands still until a test moves it."""
    book = server.world.book
    real, book.clock = book.clock, Clock()
    book.clock.now = real()
    yield book.clock
    book.clock = real
    server.world.consistency.restore()


def test_aws014_an_instance_that_is_shown_late_is_launched_once_and_found_later(
    provider: Ec2Provider, server: Server, clock: Clock, ready_class: EC2NodeClass
) -> None:
    """The fleet's answer is enough until EC2 shows the instance; a repeated request finds the same one."""
    server.world.consistency.delays = Delays(instance=5.0, tags=5.0, chance=1.0)
    request = provider.prepare_launch(node_claim(name="late-1"), ready_class, 1)
    instance = provider.launch(request).instance
    assert instance is not None
    assert instance.private_dns_name == ""
    assert provider.instance_state(instance.id) is None
    again = provider.launch(request).instance
    assert again is not None
    assert again.id == instance.id
    clock.pass_(10.0)
    shown = provider.find_instance("late-1")
    assert shown is not None
    assert (shown.id, bool(shown.private_dns_name)) == (instance.id, True)


def test_aws014_an_instance_is_listed_until_it_has_ended(
    provider: Ec2Provider, server: Server, clock: Clock, ready_class: EC2NodeClass
) -> None:
    """Also while it shuts down: until then its node is no garbage, and nothing else takes its place."""
    server.world.consistency.delays = AT_ONCE
    instance = provider.launch(provider.prepare_launch(node_claim(name="ends-1"), ready_class, 1)).instance
    assert instance is not None

    def listed() -> list[str]:
        return [
            observed_instance.state
            for observed_instance in provider.owned_instances()
            if observed_instance.id == instance.id
        ]

    assert listed() == ["pending"]
    clock.pass_(10.0)
    assert listed() == ["running"]
    provider.terminate(instance.id)
    assert listed() == ["shutting-down"]
    clock.pass_(10.0)
    assert listed() == []


def test_aws122_an_instance_that_is_shown_late_is_tagged_later(
    provider: Ec2Provider, server: Server, clock: Clock, ready_class: EC2NodeClass
) -> None:
    """Neither before EC2 shows it nor before EC2 shows its tags, because they may contain a Name of the user's."""
    server.world.consistency.delays = Delays(instance=5.0, tags=500.0, chance=1.0)
    instance = provider.launch(provider.prepare_launch(node_claim(name="late-2"), ready_class, 1)).instance
    assert instance is not None
    assert not provider.name_instance(instance.id, "late-2", "ip-10-0-0-1")
    clock.pass_(5.0)
    assert provider.instance_state(instance.id) is not None
    assert not provider.name_instance(instance.id, "late-2", "ip-10-0-0-1")
    clock.pass_(500.0)
    assert provider.name_instance(instance.id, "late-2", "ip-10-0-0-1")


@pytest.fixture
def new_class(ready_class: EC2NodeClass, server: Server) -> EC2NodeClass:
    """A class that Tenon has not seen yet. Launches do not know its instance profile for ten seconds."""
    server.world.consistency.delays = Delays(profile=10.0)
    written = node_class(
        {"instanceProfile": None, "subnets": [], "securityGroups": [], "amis": []}, role="KarpenterNodeRole-sandbox"
    )
    name = uuid4().hex
    metadata = written.metadata.model_copy(update={"name": name, "uid": f"{name}-uid"})
    return written.model_copy(update={"spec": ready_class.spec, "metadata": metadata})


def test_lif01_a_new_class_is_not_ready_until_launches_know_its_instance_profile(
    provider: Ec2Provider, clock: Clock, new_class: EC2NodeClass
) -> None:
    """So the first launches are not refused, and a group of them does not break up."""
    with pytest.raises(UnansweredError) as raised:
        provider.resolve_node_class(new_class)
    status = raised.value.status
    condition = get_condition(status.conditions, "ValidationSucceeded")
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", "InstanceProfileNotFound")
    assert f"EC2 does not know the new instance profile {status.instance_profile} yet" in condition.message
    clock.pass_(10.0)
    resolved = new_class.model_copy(update={"status": status})
    ready = new_class.model_copy(update={"status": provider.resolve_node_class(resolved)})
    assert is_true(ready.status.conditions, "Ready")
    assert provider.launch(provider.prepare_launch(node_claim(name="first"), ready, 1)).instance is not None


def test_aws049_a_launch_without_dry_runs_waits_for_a_new_instance_profile(
    clients: Ec2, clock: Clock, new_class: EC2NodeClass
) -> None:
    """The refusal has its reason, and the next attempt, with a token of its own, launches."""
    provider = Ec2Provider(clients, describe_cluster(clients, "sandbox"), dry_runs=False)
    fresh = new_class.model_copy(update={"status": provider.resolve_node_class(new_class)})
    refused = provider.launch(provider.prepare_launch(node_claim(name="fresh-1"), fresh, 1))
    assert refused.instance is None
    assert refused.waits is not None
    assert refused.waits.reason == "InstanceProfileNameInvalid"
    clock.pass_(10.0)
    assert provider.launch(provider.prepare_launch(node_claim(name="fresh-1"), fresh, 2)).instance is not None
