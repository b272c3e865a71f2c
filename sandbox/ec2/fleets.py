"""CreateFleet of type instant, as in EC2: by price and capacity, with errors per offer, idempotent by token.

A call requests N instances and lists acceptable offers. The fleet tries them in the order of its strategy. An offer
that fails adds an entry to ``Errors``, and the next one is tried. The call itself succeeds even if nothing could be
launched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.utils import random_fleet_id, random_spot_request_id

from sandbox.ec2 import catalogue
from sandbox.ec2.authorization.judge import Refusal
from sandbox.ec2.authorization.needs import Launch, launching, launching_type
from sandbox.ec2.authorization.policy import Request
from sandbox.ec2.capacity_reservations import CapacityReservations, full
from sandbox.ec2.consistency import Consistency
from sandbox.ec2.instances import OPEN, InstanceBook, Machine
from sandbox.ec2.launch import LaunchRefusedError, launch, unknown_profile
from sandbox.ec2.market import Market, Offer
from sandbox.ec2.placement_groups import PlacementGroups, limit_reached
from sandbox.ec2.quotas import Quotas
from sandbox.ec2.templates import FleetRequest, LaunchSpec

RUNNING = ("pending", "running")
"""The states of instances that count against a vCPU quota."""
Judge = Callable[[Iterable[Request]], Refusal | None]
"""Returns the first of the requests that the caller may not make, or None."""


@dataclass(frozen=True)
class FleetRecord:
    """A created fleet, for DescribeFleets and for repeated calls."""

    fleet_id: str
    fingerprint: str
    request: dict[str, Any]
    answer: dict[str, Any]
    tags: dict[str, str]


@dataclass
class Fleets:
    """All fleets, and the client tokens of the calls that created them."""

    market: Market
    book: InstanceBook
    consistency: Consistency
    reservations: CapacityReservations
    groups: PlacementGroups
    records: dict[str, FleetRecord] = field(default_factory=dict)
    by_token: dict[str, FleetRecord] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    spot_role: bool = True
    """Whether the account has the service-linked role AWSServiceRoleForEC2Spot."""

    def create(self, backend: Any, params: dict[str, Any], judge: Judge | None = None) -> dict[str, Any]:
        """Handle CreateFleet. ``judge`` refuses the launches that the caller may not make.

        Raises:
            EC2ClientError: the whole call is invalid: a template is missing, or a token was used again with other
            parameters
                (IdempotentParameterMismatch).
        """
        request = FleetRequest(params)
        print_of_call = fingerprint(params)
        entries = self.by_token.get(request.token) if request.token else None
        if entries is not None:
            if entries.fingerprint != print_of_call:
                raise EC2ClientError(
                    "IdempotentParameterMismatch",
                    f"The client token {request.token} was used before with other parameters: use a new token",
                )
            return entries.answer
        fleet_id = str(random_fleet_id())
        answer = self._allocate(backend, request, fleet_id, judge)
        tags = request.tags.get("fleet", {})
        if tags:
            backend.create_tags([fleet_id], tags)
        record = FleetRecord(fleet_id, print_of_call, params, answer, tags)
        self.records[fleet_id] = record
        if request.token:
            self.by_token[request.token] = record
        return answer

    def clear(self) -> None:
        """Clear everything, for a reset."""
        self.records.clear()
        self.by_token.clear()
        self.quotas.clear()
        self.spot_role = True

    def _allocate(self, backend: Any, request: FleetRequest, fleet_id: str, judge: Judge | None) -> dict[str, Any]:
        specs = request.specs(backend)
        errors: list[dict[str, Any]] = []
        groups: list[dict[str, Any]] = []
        offers = []
        allowed: dict[str, Launch] = {}
        for index, spec in enumerate(specs):
            zone = zone_of(backend, spec)
            offer = self._unauthorized(backend, request, spec, judge, allowed) or self._offer(
                backend, request, index, spec, zone
            )
            if isinstance(offer, LaunchRefusedError):
                errors.append(_error(offer, spec, zone, request.capacity_type))
            else:
                offers.append(offer)
        missing = request.total
        for offer in self.market.order(offers, request.strategy, request.total):
            if missing <= 0:
                break
            spec, zone = specs[offer.index], offer.pool[1]
            reservation = offer.reservation
            running = [(machine.pool[0], machine.pool[2]) for machine in self.book.all() if machine.state in RUNNING]
            refused = self.quotas.refusal(spec.instance_type, request.capacity_type, running, missing)
            if refused is not None:
                errors.append(_error(refused, spec, zone, request.capacity_type))
                continue
            take = self._take(offer, missing)
            machines: list[Machine] = []
            if take:
                try:
                    machines = self._launch(backend, request, spec, offer, take, fleet_id)
                except LaunchRefusedError as error:
                    if reservation is None:
                        self.market.give_back(offer.pool, take)
                    refused = error
            if refused is None and take < missing:
                full_group = offer.group is not None and not self.groups.room(offer.group, zone, 1)
                refused = out_of_capacity(offer) if reservation is None else full(reservation)
                refused = limit_reached(offer.group, zone) if full_group else refused
            if machines:
                missing -= len(machines)
                groups.append(
                    {
                        "LaunchTemplateAndOverrides": spec.answer(zone),
                        "Lifecycle": request.capacity_type,
                        "InstanceIds": [machine.id for machine in machines],
                        "InstanceType": spec.instance_type,
                    }
                )
            if refused is not None:
                errors.append(_error(refused, spec, zone, request.capacity_type))
        return {"FleetId": fleet_id, "Errors": errors, "Instances": groups}

    def _unauthorized(
        self,
        backend: Any,
        request: FleetRequest,
        spec: LaunchSpec,
        judge: Judge | None,
        allowed: dict[str, Launch],
    ) -> LaunchRefusedError | None:
        """The error of an override that the caller may not launch. A fleet reports it like a lack of capacity.

        ``allowed`` keeps launches of this fleet that the caller may make. Most overrides differ from one of them only
        in the instance type, and judging all that they share again would take most of this server's time.
        """
        if judge is None:
            return None
        sibling = allowed.get(spec.all_but_type)
        if sibling is not None:
            refusal = judge([launching_type(replace(sibling, instance_type=spec.instance_type))])
        else:
            launch = _launch_of(backend, request, spec)
            refusal = judge(launching(launch))
            if refusal is None:
                allowed[spec.all_but_type] = launch
        return None if refusal is None else LaunchRefusedError("UnauthorizedOperation", refusal.ec2_message)

    def _offer(
        self, backend: Any, request: FleetRequest, index: int, spec: LaunchSpec, zone: str
    ) -> Offer | LaunchRefusedError:
        """An override as an offer of the market, or the reason why EC2 refuses it."""
        if not zone:
            return LaunchRefusedError("InvalidSubnetID.NotFound", f"The subnet ID '{spec.subnet_id}' does not exist")
        if request.capacity_type == "spot" and not self.spot_role:
            return LaunchRefusedError(
                "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
                "The provided credentials do not have permission to create the service-linked role for EC2 Spot "
                "Instances.",
            )
        profile = spec.profile.get("Name") or spec.profile.get("Arn", "").rpartition("/")[2]
        if not self.consistency.knows_profile(profile):
            return unknown_profile(profile)
        kind = spec.instance_type
        if catalogue.describe_type(kind) is None:
            return LaunchRefusedError("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
        price = self.market.prices.price(request.capacity_type, kind, spec.tenancy)
        if price is None or (kind, zone) not in catalogue.zonal_offerings(backend.region_name):
            return LaunchRefusedError(
                "InvalidFleetConfiguration",
                f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone}).",
            )
        limit = spec.override.get("MaxPrice")
        if limit and request.capacity_type == "spot" and float(limit) < price:
            return LaunchRefusedError(
                "SpotMaxPriceTooLow",
                f"Your Spot request price of {limit} is lower than the minimum required Spot request fulfillment "
                f"price of {price}.",
            )
        reservation = self.reservations.chosen(spec, zone, request.target)
        if isinstance(reservation, LaunchRefusedError):
            return reservation
        group = self.groups.of(spec, zone)
        if isinstance(group, LaunchRefusedError):
            return group
        priority = spec.override.get("Priority")
        pool = (kind, zone, request.capacity_type)
        return Offer(index, pool, price, None if priority is None else float(priority), reservation, group)

    def _take(self, offer: Offer, room: int) -> int:
        """Take instances out of the offer's reservation or pool. Returns how many there were."""
        if offer.group is not None:
            room = self.groups.room(offer.group, offer.pool[1], room)
        if offer.reservation is None:
            return self.market.take(offer.pool, room)
        return min(room, self.reservations.left(offer.reservation))

    def _launch(
        self, backend: Any, request: FleetRequest, spec: LaunchSpec, offer: Offer, count: int, fleet_id: str
    ) -> list[Machine]:
        tags = _all_tags(spec, request)
        reservation = launch(backend, spec, count, tags, spot=request.capacity_type == "spot", token=request.token)
        machines = []
        for instance in reservation.instances:
            backend.create_tags(
                [instance.id],
                {
                    "aws:ec2:fleet-id": fleet_id,
                    "aws:ec2launchtemplate:id": spec.template_id,
                    "aws:ec2launchtemplate:version": spec.version,
                },
            )
            spot_request = str(random_spot_request_id()) if request.capacity_type == "spot" else ""
            delays = self.consistency.delays
            machine = self.book.add(instance, offer.pool, reservation.id, fleet_id, spot_request, delays=delays)
            machine.tenancy = spec.tenancy
            machine.reservation_specification = spec.data.get("CapacityReservationSpecification") or OPEN
            if offer.reservation is not None:
                machine.capacity_reservation_id = offer.reservation.id
                machine.lifecycle = offer.reservation.lifecycle
            if offer.group is not None:
                self.groups.place(machine, offer.group, spec)
            machines.append(machine)
        return machines


def _all_tags(spec: LaunchSpec, request: FleetRequest) -> dict[str, dict[str, str]]:
    """The tags of the resources that a launch creates, by kind: the template's, and the fleet's over them."""
    tags: dict[str, dict[str, str]] = {}
    for source in (spec.tags, request.tags):
        for kind, values in source.items():
            tags.setdefault(kind, {}).update(values)
    return tags


def _launch_of(backend: Any, request: FleetRequest, spec: LaunchSpec) -> Launch:
    """An override as IAM sees it."""
    ebs = [device["Ebs"] for device in spec.block_devices]
    return Launch(
        region=str(backend.region_name),
        image=spec.image_id,
        subnet=spec.subnet_id,
        security_groups=tuple(spec.security_groups),
        instance_type=spec.instance_type,
        template=spec.template_id,
        profile=spec.profile,
        tags=_all_tags(spec, request),
        spot=request.capacity_type == "spot",
        reservation=str(spec.reservation_target),
        placement_group=str((spec.data.get("Placement") or {}).get("GroupId") or ""),
        snapshots=tuple(str(eb["SnapshotId"]) for eb in ebs if eb.get("SnapshotId")),
    )


def fingerprint(params: dict[str, Any]) -> str:
    """A hash that is equal for identical calls: of all parameters except the token and DryRun."""
    content = {name: value for name, value in params.items() if name not in ("ClientToken", "DryRun")}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def zone_of(backend: Any, spec: LaunchSpec) -> str:
    """The zone of an override's subnet. Empty if the subnet does not exist."""
    for subnets in backend.subnets.values():
        if spec.subnet_id in subnets:
            return str(subnets[spec.subnet_id].availability_zone)
    return ""


def out_of_capacity(offer: Offer) -> LaunchRefusedError:
    """EC2's error for a pool that has fewer instances than requested."""
    kind, zone, capacity_type = offer.pool
    if capacity_type == "spot":
        return LaunchRefusedError(
            "InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request."
        )
    return LaunchRefusedError(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested ({zone}). "
        "Our system will be working on provisioning additional capacity.",
    )


def _error(refused: LaunchRefusedError, spec: LaunchSpec, zone: str, capacity_type: str) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": spec.answer(zone),
        "Lifecycle": capacity_type,
        "ErrorCode": refused.code,
        "ErrorMessage": refused.message,
    }
