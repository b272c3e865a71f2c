"""Launches instances: sends one EC2 Fleet request exactly as recorded, and reads what EC2 answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, log_encoded_text, retry_throttled
from activities.ec2.instances import Instances
from activities.ec2.launch_templates import LaunchTemplates
from activities.ec2.single_flight import SingleFlight
from tenon.apis import labels
from tenon.ec2.launch.tags import group_tags
from tenon.ec2.launch.template import tag_list
from tenon.ec2.refusals import errors as codes
from tenon.ec2.refusals.class_faults import class_fault
from tenon.ec2.refusals.scopes import SPOT_ROLE_MISSING, SUBNET_FULL
from tenon.evolve import evolve
from tenon.kube.claim_record import provider_id_of
from tenon.messages.launch import (
    FleetOverride,
    Instance,
    LaunchRequest,
    LaunchResult,
    LaunchWait,
)
from tenon.messages.offerings import OfferingRef
from tenon.provisioning.launch_groups import group_token

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import CreateFleetResultTypeDef

SHARED_SECONDS = 600.0
"""How long the answer to a launch group's request is kept for the members that ask later."""
REFUSED_SECONDS = 10.0
"""How long that answer is kept if EC2 launched nothing. To the same request, EC2 would answer the same."""
VISIBILITY_ATTEMPTS = 3
"""Attempts to describe an instance that EC2 has just launched and may not show yet. They take two seconds at least,
because describe calls have a minimum spacing."""
VISIBILITY_SECONDS = 0.4
"""The pause between two of these attempts."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What EC2 answered, and the request that was sent. A member of the launch group that was prepared after a refusal
    would have asked for other offerings, of which the answer says nothing.
    """

    request: LaunchRequest
    content: CreateFleetResultTypeDef | EC2Error


class Launcher:
    """Launches instances for one cluster. Thread-safe. ``sleep`` waits until EC2 shows a new instance."""

    def __init__(
        self,
        clients: Ec2,
        instances: Instances,
        templates: LaunchTemplates,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        mark_full: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``mark_full`` gets each subnet in which EC2 has no address left."""
        self._clients = clients
        self._instances = instances
        self._templates = templates
        self._clock = clock
        self._sleep = sleep
        self._mark_full = mark_full
        self._answers: SingleFlight[_Answer] = SingleFlight(SHARED_SECONDS, clock)

    def create_fleet(self, request: LaunchRequest) -> LaunchResult:
        """Send the request. A repeated request has the same client token and finds what the first one bought.

        Raises:
            EC2Error: only retryable errors (throttling, a fault of EC2, no connection). Send the same request again.
        """
        answer = self._answer(request)
        # The offerings are those of the member that sent the group's request; the place and the claim are the caller's.
        offered = evolve(answer.request, group=request.group, tags=request.tags, client_token=request.client_token)
        if isinstance(answer.content, EC2Error):
            return self._refused(offered, answer.content)
        return self._result(offered, answer.content)

    def _answer(self, request: LaunchRequest) -> _Answer:
        """EC2's answer. The members of a launch group share one answer, so a process sends their request only once."""
        parameters = fleet_parameters(request)

        def send() -> _Answer:
            create = partial(self._clients.ec2.create_fleet, **parameters)
            try:
                return _Answer(request, retry_throttled("CreateFleet", create, self._clock))
            except EC2Error as error:
                if error.retryable:
                    raise
                return _Answer(request, error)

        if request.group is None:
            return send()
        token = parameters["ClientToken"]
        answer = self._answers.get(token, send)
        if isinstance(answer.content, EC2Error):
            self._answers.forget(token)  # the same request may succeed if it is sent again
        elif not answer.content.get("Instances"):
            self._answers.keep_for(token, REFUSED_SECONDS)  # for members that ask a moment later
        return answer

    def _refused(self, request: LaunchRequest, error: EC2Error) -> LaunchResult:
        if error.code in codes.TOKEN_USED:
            return self._accepted_before(request, error.code, "EC2 knows the token from an earlier request")
        if error.code in codes.TEMPLATE_NOT_FOUND:
            self._templates.forget(template.name for template in request.templates)
        unavailable = self._unavailable(request, [{"ErrorCode": error.code, "ErrorMessage": error.message}])
        reason = codes.reason_for(error.code, error.message)
        message = str(error)
        # EC2 may have accepted the same request before and its answer may be lost. The caller decides.
        fault = class_fault(error.code, error.message)
        waits = None if unavailable else LaunchWait(reason=reason, message=message, unsettled=True, class_fault=fault)
        return LaunchResult(unavailable=unavailable, reason=reason, message=message, waits=waits)

    def _result(self, request: LaunchRequest, answer: CreateFleetResultTypeDef) -> LaunchResult:
        all_failures = cast("Sequence[dict[str, Any]]", answer.get("Errors") or [])
        failures = codes.of_tried(all_failures, request.capacity_type)
        unavailable = self._unavailable(request, all_failures)
        bought = {
            instance_id: launched.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
            for launched in answer.get("Instances") or []
            for instance_id in launched.get("InstanceIds", [])
        }
        place = request.group.ordinal if request.group else 0
        if place < len(bought):
            instance_id = sorted(bought)[place]
            instance = self._launched(request, instance_id, cast("dict[str, Any]", bought[instance_id]))
            return LaunchResult(instance=instance, unavailable=unavailable)
        if not failures:
            # EC2 may leave the instances out when a request is repeated.
            return self._accepted_before(request, "LaunchFailed", "EC2 launched nothing and gave no reason")
        if any(failure.get("ErrorCode") in codes.TEMPLATE_NOT_FOUND for failure in failures):
            self._templates.forget(template.name for template in request.templates)
        busy = next((f for f in failures if f.get("ErrorCode") in codes.BUSY), None)
        capacity = codes.INSUFFICIENT_CAPACITY | {SPOT_ROLE_MISSING, SUBNET_FULL}
        decisive = busy or next((f for f in failures if f.get("ErrorCode") not in capacity), failures[0])
        code, text = decisive.get("ErrorCode", ""), codes.without_encoded_text(decisive.get("ErrorMessage", ""))
        log_encoded_text("CreateFleet", decisive.get("ErrorMessage", ""))
        reason = codes.reason_for(code, text)
        message = f"{code}: {text} ({len(failures)} of {len(_tried(request))} offerings refused)"
        is_kept = busy is not None or not unavailable
        if not unavailable:
            unavailable = codes.refused_before_others(all_failures, _tried(request), request.capacity_type)
        fault = class_fault(code, text)
        waits = (
            LaunchWait(reason=reason, message=message, has_answer=busy is None, class_fault=fault) if is_kept else None
        )
        return LaunchResult(unavailable=unavailable, reason=reason, message=message, waits=waits)

    def _unavailable(self, request: LaunchRequest, failures: Sequence[dict[str, Any]]) -> list[OfferingRef]:
        """The offerings that the failures rule out. Records the subnets that they call full."""
        rows = [row for template in request.templates for row in template.overrides]
        subnets = {(row.instance_type, row.zone): row.subnet_id for row in rows}
        for subnet_id in codes.full_subnets(failures, subnets):
            self._mark_full(subnet_id)
        reservations = {(row.instance_type, row.zone): row.reservation_id for row in rows if row.reservation_id}
        return codes.unavailable_offerings(
            failures,
            request.capacity_type,
            subnets,
            reservations,
            request.placement_group,
            request.placement_strategy,
        )

    def _accepted_before(self, request: LaunchRequest, reason: str, message: str) -> LaunchResult:
        """Handle an answer which shows that EC2 accepted an earlier request with this token, of the claim or its group.

        The token or the group's tag finds the instance that it bought. If it bought none for the claim, or that is
        gone, only a request with a new token can buy one.
        """
        if request.group is None:
            bought = self._instances.by_token(request.client_token)
        else:
            bought = self._instances.of_group(request.group, request.tags.get(labels.TAG_NODECLAIM, ""))
        if bought.instance is not None:
            return LaunchResult(instance=_as_requested(request, bought.instance))
        if bought.decided:
            message = f"{message}, and no instance of that request is left for the NodeClaim"
            waits = LaunchWait(reason=reason, message=message, new_token=True)
        else:
            message = f"{message}, and does not show an instance of it yet"
            waits = LaunchWait(reason=reason, message=message, has_answer=False, unsettled=True, accepted=True)
        return LaunchResult(reason=reason, message=message, waits=waits)

    def _launched(self, request: LaunchRequest, instance_id: str, override: dict[str, Any]) -> Instance:
        """The instance as EC2 describes it or, while EC2 does not show it yet, as the fleet's answer describes it."""
        row = _row(request, override.get("InstanceType", ""), override.get("AvailabilityZone", ""))
        for attempt in range(VISIBILITY_ATTEMPTS):
            if attempt:
                self._sleep(VISIBILITY_SECONDS)
            instance = self._instances.describe(instance_id)
            if instance is not None and instance.private_dns_name:
                instance = _as_requested(request, instance)
                return evolve(instance, price=_price(row, instance.price))
        instance_type, zone = override.get("InstanceType", ""), override.get("AvailabilityZone", "")
        return Instance(
            id=instance_id,
            provider_id=provider_id_of(zone, instance_id),
            instance_type=instance_type,
            zone=zone,
            capacity_type=request.capacity_type,
            image_id=override.get("ImageId", ""),
            price=_price(row, self._instances.list_price(instance_type, zone, request.capacity_type)),
            subnet_id=override.get("SubnetId", ""),
            reservation_id=row.reservation_id if row is not None else "",
            reservation_type=request.reservation_type,
            reservation_interruptible=request.reservation_interruptible,
            placement_group_id=request.placement_group,
            partition=request.partition,
        )


def _row(request: LaunchRequest, instance_type: str, zone: str) -> FleetOverride | None:
    rows = (row for template in request.templates for row in template.overrides)
    return next((row for row in rows if (row.instance_type, row.zone) == (instance_type, zone)), None)


def _price(row: FleetOverride | None, list_price: float) -> float:
    """What EC2 charges for an hour of the offering of a row; 0 if it is not known.

    Plans count a place in a capacity reservation as almost free, and NodeOverlays change what they prefer.
    """
    if row is None or row.reservation_id:
        return list_price
    is_preference = row.priority is not None
    return (list_price or row.price) if is_preference else row.price


def _as_requested(request: LaunchRequest, instance: Instance) -> Instance:
    """The instance with what its request fixed and EC2's description of it lacks yet.

    A template that names a capacity reservation launches nowhere else, and neither does one that names a placement
    group. EC2 is eventually consistent, so a new instance may be described without them.
    """
    row = _row(request, instance.instance_type, instance.zone)
    if row is not None and row.reservation_id and not instance.reservation_id:
        instance = evolve(
            instance,
            capacity_type=request.capacity_type,
            reservation_id=row.reservation_id,
            reservation_type=request.reservation_type,
            reservation_interruptible=request.reservation_interruptible,
        )
    if request.placement_group and not instance.placement_group_id:
        instance = evolve(instance, placement_group_id=request.placement_group)
    return instance if instance.partition else evolve(instance, partition=request.partition)


def _tried(request: LaunchRequest) -> list[tuple[str, str]]:
    return [(row.instance_type, row.zone) for template in request.templates for row in template.overrides]


def _target(request: LaunchRequest) -> str:
    """What the fleet buys. For EC2, an instance in an on-demand capacity reservation is an on-demand instance."""
    if request.capacity_type == labels.SPOT:
        return "spot"
    if request.reservation_interruptible:
        return "reserved-capacity"
    return "capacity-block" if request.reservation_type == labels.CAPACITY_BLOCK else "on-demand"


def fleet_parameters(request: LaunchRequest) -> dict[str, Any]:
    """The CreateFleet parameters: an instant fleet of one instance, or of one per member of the launch group."""
    spot = request.capacity_type == labels.SPOT
    prioritized = any(row.priority is not None for template in request.templates for row in template.overrides)
    own = request.tags
    token, capacity = request.client_token, 1
    if request.group is not None:
        token, capacity = group_token(own[labels.TAG_CLUSTER], request.group), request.group.size
        own = group_tags(own, request.group, token)
    tags = tag_list(own)
    parameters: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": template.name, "Version": "$Latest"},
                "Overrides": [
                    {
                        "InstanceType": row.instance_type,
                        "SubnetId": row.subnet_id,
                        "AvailabilityZone": row.zone,
                        "ImageId": template.image_id,
                        **({} if row.priority is None else {"Priority": row.priority}),
                    }
                    for row in template.overrides
                ],
            }
            for template in request.templates
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": capacity,
            "DefaultTargetCapacityType": _target(request),
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume", "fleet")],
    }
    if spot:
        strategy = "capacity-optimized-prioritized" if prioritized else "price-capacity-optimized"
        parameters["SpotOptions"] = {"AllocationStrategy": strategy}
    elif request.reservation_interruptible:
        parameters["ReservedCapacityOptions"] = {"ReservationTypes": ["interruptible-capacity-reservation"]}
    elif request.reservation_type != labels.CAPACITY_BLOCK:
        parameters["OnDemandOptions"] = {"AllocationStrategy": "prioritized" if prioritized else "lowest-price"}
    if request.context:
        parameters["Context"] = request.context
    return parameters
