"""One CreateFleet for a group of equal NodeClaims, on the sandbox's EC2: who gets which instance, whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.kube.offerings import OfferingKey
from tenon.messages.launch import LaunchGroup, LaunchRequest, LaunchResult
from tests.ec2.conftest import until_shown
from tests.ec2.samples import node_claim

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

SIZE = 5
ON_DEMAND = ("karpenter.sh/capacity-type", "In", ["on-demand"])
ONE_TYPE = ("node.kubernetes.io/instance-type", "In", ["m5.large"])


def group(provider: Ec2Provider, node_class: EC2NodeClass, batch: str, size: int = SIZE) -> list[LaunchRequest]:
    """The recorded requests of a group's members."""
    return [
        provider.prepare_launch(node_claim(ON_DEMAND, ONE_TYPE, name=f"{batch}-{place}"), node_class, 1).model_copy(
            update={"group": LaunchGroup(id=batch, ordinal=place, size=size)}
        )
        for place in range(size)
    ]


def launched(provider: Ec2Provider, requests: Sequence[LaunchRequest]) -> list[LaunchResult]:
    with ThreadPoolExecutor(len(requests)) as threads:
        return list(threads.map(provider.launch, requests))


def ids(results: Sequence[LaunchResult]) -> list[str]:
    return [result.instance.id if result.instance else "" for result in results]


def bought(server: Server, batch: str) -> set[str]:
    """Every instance that a group's requests bought."""
    return {
        machine.id
        for machine in server.world.book.all()
        if (machine.instance.ec2_backend.tags.get(machine.id) or {}).get(labels.TAG_GROUP) == batch
    }


def fleets(server: Server) -> int:
    return len([call for call in server.world.calls.listing("CreateFleet") if "DryRun" not in call["parameters"]])


def test_aws030_a_group_is_bought_by_one_call(provider: Ec2Provider, server: Server, ready_class: EC2NodeClass) -> None:
    names = ids(launched(provider, group(provider, ready_class, "one-call")))
    assert names == sorted(bought(server, "one-call"))
    assert len(set(names)) == SIZE
    assert fleets(server) == 1


def test_another_process_gives_each_member_the_same_instance(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """The answer of the first request was lost with its process; what each member asked for is recorded."""
    from sandbox.ec2.faults import Fault

    requests = group(provider, ready_class, "two-processes")
    server.world.faults.add(Fault(action="CreateFleet", code="InternalError", status=500, after_effect=True, count=3))
    first = Ec2Provider(clients, provider.cluster)
    with pytest.raises(Exception, match="InternalError"):
        first.launch(requests[3])
    second = Ec2Provider(clients, provider.cluster)
    names = ids(launched(second, requests))
    assert names == sorted(bought(server, "two-processes"))
    assert len(set(names)) == SIZE


def test_members_that_were_prepared_differently_find_what_the_first_one_bought(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """EC2 refuses a token that comes back with other parameters."""
    requests = group(provider, ready_class, "differ")
    changed = [request.model_copy(update={"tags": {**request.tags, "later": "tag"}}) for request in requests]
    assert provider.launch(requests[0]).instance is not None
    until_shown(server, *bought(server, "differ"))
    names = ids(launched(Ec2Provider(clients, provider.cluster), changed))
    assert names == sorted(bought(server, "differ"))
    assert len(set(names)) == SIZE


def test_a_place_stays_the_same_when_other_members_have_ended(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    requests = group(provider, ready_class, "ended")
    names = ids(launched(provider, requests))
    until_shown(server, *names)
    provider.terminate(names[1])
    server.world.book.vanish(names[0])  # as EC2 forgets what ended long ago
    other = Ec2Provider(clients, provider.cluster)
    assert [
        instance.id if (instance := other.group_outcome(request.group, f"ended-{place}").instance) else ""
        for place, request in enumerate(requests)
        if request.group is not None
    ] == ["", "", *names[2:]]


def test_an_instance_that_names_another_claim_is_not_taken(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    requests = group(provider, ready_class, "named")
    names = ids(launched(provider, requests))
    until_shown(server, *names)
    provider.name_instance(names[0], "named-0", "ip-10-0-0-1")
    place = requests[0].group
    assert place is not None
    assert provider.group_outcome(place, "another").instance is None
    mine = provider.group_outcome(place, "named-0").instance
    assert mine is not None
    assert mine.id == names[0]


def test_group_members_without_an_instance_get_what_ec2_refused(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """Fewer than were asked for: the first members have an instance each, the others are out of capacity."""
    from sandbox.ec2.market import CapacityRule

    requests = group(provider, ready_class, "scarce")
    for letter, remainder in zip("abcd", (2, 1, 0, 0), strict=True):
        server.world.market.set_capacity(CapacityRule("m5.large", f"us-west-2{letter}", None, remainder))
    results = launched(provider, requests)
    assert [bool(name) for name in ids(results)] == [True, True, True, False, False]
    assert all(result.unavailable and result.waits is None for result in results[3:])
    assert fleets(server) == 1


def test_members_that_ask_one_after_the_other_cost_one_call_if_ec2_has_nothing(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    from sandbox.ec2.market import CapacityRule

    server.world.market.set_capacity(CapacityRule("m5.large", None, None, 0))
    before = fleets(server)
    results = [provider.launch(request) for request in group(provider, ready_class, "nothing")]
    assert ids(results) == [""] * SIZE
    assert all(result.unavailable for result in results)
    assert fleets(server) == before + 1


def test_a_member_prepared_after_a_refusal_does_not_blame_what_it_would_have_asked_for(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """The group asked for spot. A late member would ask on demand, and shares the answer about spot."""
    from sandbox.ec2.market import CapacityRule

    server.world.market.set_capacity(CapacityRule("m5.large", None, "spot", 1))
    either = ("karpenter.sh/capacity-type", "In", ["on-demand", "spot"])
    zone = ("topology.kubernetes.io/zone", "In", ["us-west-2a"])
    claims = [node_claim(either, zone, ONE_TYPE, name=f"late-{place}") for place in range(2)]
    first, late = (
        provider.prepare_launch(claim, ready_class, 1, unavailable).model_copy(
            update={"group": LaunchGroup(id="late", ordinal=place, size=2)}
        )
        for place, (claim, unavailable) in enumerate(
            zip(claims, [(), [OfferingKey("spot", "m5.large", "us-west-2a")]], strict=True)
        )
    )
    assert (first.capacity_type, late.capacity_type) == ("spot", "on-demand")
    assert provider.launch(first).instance is not None
    result = provider.launch(late)
    assert result.instance is None
    assert {offering.capacity_type for offering in result.unavailable} == {"spot"}


def test_a_member_prepared_differently_learns_that_its_group_got_nothing_for_it(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """Two replicas prepare the members with other subnets or prices. Only a request with a new token helps it."""
    from sandbox.ec2.market import CapacityRule

    requests = group(provider, ready_class, "mismatch")
    for letter, remainder in zip("abcd", (2, 1, 0, 0), strict=True):
        server.world.market.set_capacity(CapacityRule("m5.large", f"us-west-2{letter}", None, remainder))
    assert all(ids(launched(provider, requests[:3])))
    until_shown(server, *bought(server, "mismatch"))
    (template,) = requests[4].templates
    differs = template.model_copy(update={"overrides": template.overrides[::-1]})
    other = Ec2Provider(clients, provider.cluster)
    late = [other.launch(request.model_copy(update={"templates": [differs]})) for request in requests]
    assert [bool(name) for name in ids(late)] == [True, True, True, False, False]
    (hidden,) = server.world.book.find([ids(late)[2]])
    hidden.shown = False
    waits = other.launch(requests[2].model_copy(update={"templates": [differs]})).waits
    assert waits is not None
    assert (waits.new_token, waits.unsettled) == (False, True), "the fleet has it, and EC2 shows it later"
    outcomes = [
        other.group_outcome(request.group, f"mismatch-{place}")
        for place, request in enumerate(requests)
        if request.group is not None
    ]
    assert [outcome.hidden_since is not None for outcome in outcomes] == [False, False, True, False, False]
    for result in late[3:]:
        assert result.waits is not None
        assert (result.waits.new_token, result.waits.unsettled) == (True, False)
        assert result.reason == "IdempotentParameterMismatch"


def test_a_token_that_ec2_knows_with_other_parameters_is_waited_for_until_ec2_shows_its_instance(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """An earlier workflow sent it. It needs a new token only if EC2 shows that the instance is gone."""
    request = provider.prepare_launch(node_claim(ON_DEMAND, ONE_TYPE, name="used-1"), ready_class, 1)
    other = request.model_copy(update={"tags": {**request.tags, "later": "tag"}})
    instance = provider.launch(request).instance
    assert instance is not None
    until_shown(server, instance.id)
    (machine,) = server.world.book.find([instance.id])
    machine.shown = False
    waits = provider.launch(other).waits
    assert waits is not None
    assert (waits.unsettled, waits.accepted, waits.has_answer, waits.new_token) == (True, True, False, False)
    machine.shown = True
    again = provider.launch(other).instance
    assert again is not None
    assert again.id == instance.id
    provider.terminate(instance.id)
    removal = provider.launch(other).waits
    assert removal is not None
    assert (removal.unsettled, removal.new_token) == (False, True)


def test_an_older_worker_launches_the_member_alone(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """It does not know groups, and reads the request without it: its own token, its own tags."""
    request = group(provider, ready_class, "older")[2].model_copy(update={"group": None})
    instance = provider.launch(request).instance
    assert instance is not None
    assert not bought(server, "older")
    until_shown(server, instance.id)
    result = provider.find_instance("older-2")
    assert result is not None
    assert result.id == instance.id


def test_instances_of_a_group_carry_what_all_members_share(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    names = ids(launched(provider, group(provider, ready_class, "tagged", 2)))
    until_shown(server, *names)
    pages = clients.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": names}])
    for reservation in pages["Reservations"]:
        for raw in reservation["Instances"]:
            tags = {tag["Key"]: tag["Value"] for tag in raw["Tags"]}
            assert tags[labels.TAG_GROUP] == "tagged"
            assert labels.TAG_NODECLAIM not in tags
            assert "Name" not in tags
    assert {
        observed_instance.group for observed_instance in provider.owned_instances() if observed_instance.id in names
    } == {"tagged"}
