"""``tenon simulate --live`` uses capacity reservations as the worker does, on the sandbox's EC2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from activities.ec2.capacity_reservations import CapacityReservations
from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.faults import Fault
from tenon.apis import labels
from tenon.ec2.types.capacity_reservations import region_of, with_reservations, without_reservations
from tests.ec2.reserving import ZONE, offered, reserve, selecting
from tests.simulate.api_server import ApiServer, api_server
from tests.simulate.running import POOL, catalogue, command

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


class World:
    """A cluster with a class that selects a reservation of two places, and pods that fill a node each."""

    def __init__(self, api: type[ApiServer], ec2: Server, provider: Ec2Provider, folder: Path) -> None:
        self.reservation_id = reserve(ec2, count=2, tags={"team": "ml"})
        self.api = api
        self.options = ["--live", "-o", "json", "--catalog", str(catalogue(folder))]
        selection = selecting(provider, {"tags": {"team": "ml"}})
        pool = yaml.safe_load(POOL)
        template = pool["spec"]["template"]["spec"]
        template["requirements"] = [
            {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["reserved", "on-demand"]},
            {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]},
        ]
        result = selection.to_dict()
        result["metadata"]["name"] = "default"
        self.pool = pool
        api.objects = {"nodepools": [pool], "ec2nodeclasses": [result], "pods": [self.pod(n) for n in range(3)]}

    @staticmethod
    def pod(number: int) -> dict[str, Any]:
        container = {"name": "main", "resources": {"requests": {"cpu": "1500m"}}}
        meta = {"name": f"waits-{number}", "namespace": "team", "uid": f"u{number}"}
        return {"metadata": meta, "spec": {"containers": [container]}}

    def bought(self, *options: str) -> list[str]:
        """The capacity types of the new nodes."""
        return sorted(
            claim["offering"]["capacityType"] for claim in command(*self.options, *options).plan["nodeClaims"]
        )


@pytest.fixture
def world(server: Server, provider: Ec2Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")  # the shell's region is not the cluster's
    with api_server(tmp_path, monkeypatch) as api:
        yield World(api, server, provider, tmp_path)
    server.world.faults.clear()
    server.world.reservations.clear()


def test_sch094_free_places_are_used_first_and_then_paid_capacity(world: World) -> None:
    assert world.bought() == ["on-demand", "reserved", "reserved"]
    world.reservation_id.total = 1
    assert world.bought() == ["on-demand", "on-demand", "reserved"]
    assert world.bought("--set", "FEATURE_GATES=ReservedCapacity=false") == ["on-demand"] * 3


def test_sch094_a_nodeclaim_takes_the_place_that_ec2_has_not_counted(world: World) -> None:
    template = world.pool["spec"]["template"]["spec"]
    meta = {
        "name": "c",
        "uid": "c",
        "labels": {labels.NODEPOOL: "default", labels.RESERVATION_ID: world.reservation_id.id},
    }
    world.api.objects["nodeclaims"] = [{"metadata": meta, "spec": template}]
    assert world.bought() == ["on-demand", "on-demand", "reserved"]


def test_without_an_answer_of_ec2_no_place_is_free_and_a_note_says_why(world: World, server: Server) -> None:
    refusal = Fault(action="DescribeCapacityReservations", code="UnauthorizedOperation", status=403, count=None)
    server.world.faults.add(refusal)
    answer = command(*world.options)
    assert {claim["offering"]["capacityType"] for claim in json.loads(answer.out)["nodeClaims"]} == {"on-demand"}
    assert "note: the free places of capacity reservations are not known" in answer.err
    assert "ec2:DescribeCapacityReservations" in answer.err


def test_aws079_the_simulated_offering_is_the_workers(provider: Ec2Provider, server: Server, clients: Ec2) -> None:
    output = reserve(server, count=3)
    selection = selecting(provider, {"id": output.id})
    worker = provider.instance_types(selection)
    places = CapacityReservations(clients).count([output.id])
    simulated = list(with_reservations(without_reservations(worker), selection, places, ()))
    theirs, ours = offered(worker)[output.id], offered(simulated)[output.id]
    assert replace(ours, counted_at=theirs.counted_at) == theirs
    assert with_reservations(worker, selection, {}, ()) is worker, "what a catalogue says of a reservation stays"
    server.world.reservations.clear()


@pytest.mark.parametrize(
    ("zone", "region"),
    [(ZONE, "us-west-2"), ("us-gov-east-1a", "us-gov-east-1"), ("us-west-2-lax-1a", "us-west-2"), ("odd", "")],
)
def test_the_region_of_a_zone(zone: str, region: str) -> None:
    assert region_of(zone) == region
