"""Capacity reservations in the simulated EC2, and what a node class that selects them offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.scheduling.model import InstanceType, Offering
from tests.ec2.samples import node_class

if TYPE_CHECKING:
    from sandbox.ec2.capacity_reservations import Reservation
    from sandbox.ec2.server import Server

ZONE = "us-west-2a"


def reserve(server: Server, type: str = "m5.large", count: int = 2, zone: str = ZONE, **more: Any) -> Reservation:
    return server.world.reservations.create(instance_type=type, zone=zone, total=count, **more)


def selecting(provider: Ec2Provider, *terms: dict[str, Any]) -> EC2NodeClass:
    """A class that selects reservations, resolved."""
    empty: dict[str, object] = {"subnets": [], "securityGroups": [], "amis": [], "instanceProfile": None}
    written = node_class(empty, role="KarpenterNodeRole-sandbox", capacityReservationSelectorTerms=list(terms))
    status = provider.resolve_node_class(written)
    assert status.amis, status.conditions
    return written.model_copy(update={"status": status})


def offered(types: list[InstanceType]) -> dict[str, Offering]:
    """The offerings of reservations, by reservation."""
    return {o.reservation_id: o for item in types for o in item.offerings if o.reservation_id}
