"""Finds, describes, tags and terminates the EC2 instances of this cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, retry_throttled, translated
from activities.ec2.request_batching import RequestBatcher, Turns
from tenon.apis import labels
from tenon.ec2.refusals import errors as codes
from tenon.ec2.types.capacity_reservations import launched_into
from tenon.garbage_collection.facts import GONE_STATES, ObservedInstance
from tenon.garbage_collection.instances import NAME, tags_to_write
from tenon.kube.claim_record import provider_id_of
from tenon.messages.launch import Instance, LaunchGroup
from tenon.messages.teardown import ClusterInstance
from tenon.teardown.ownership import AUTO_MODE, owns

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import FilterTypeDef, InstanceTypeDef

    Described = RequestBatcher[str, InstanceTypeDef]
    Tagged = RequestBatcher[str, list[InstanceTypeDef]]

ALIVE = ("pending", "running", "stopping", "stopped")
"""The states of an instance that costs money or may do so again."""
VISIBLE = (*ALIVE, "shutting-down")
ALL_STATES = (*VISIBLE, "terminated")

MAX_VALUES = 200
"""The maximum number of values in one EC2 filter."""
MAX_TERMINATED = 500
"""The maximum number of instances in one TerminateInstances call."""
MAX_GROUPS = 10
"""The maximum number of launch groups in one describe call. Their instances fit on one page of the answer."""
COLLECT_SECONDS = 0.1
"""Seconds that a describe request waits for others, so that one call serves them all."""
SPACING_SECONDS = 1.0
"""Seconds between the end of a describe call and the next one of the same process, whatever it asks for."""
_ID = re.compile(r"i-[0-9a-f]+")

PriceOf = Callable[[str, str, str, str], float]
"""Returns the price of an hour for an instance type, zone, capacity type and tenancy."""


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """What a launch bought for a claim: its living instance, or None.

    With ``decided``, EC2 shows what became of the launch. Otherwise an instance of it may still appear.
    """

    instance: Instance | None
    decided: bool
    hidden_since: datetime | None = None
    """When the launch group got its instances, if its fleet has one for the claim that EC2 does not show."""


class Instances:
    """The instances of one cluster, identified by their tags."""

    def __init__(
        self,
        clients: Ec2,
        cluster: str,
        price_of: PriceOf,
        sleep: Callable[[float], None] = time.sleep,
        *,
        reserved: bool = True,
    ) -> None:
        """``sleep`` waits for other describe requests to join a batch, and between two calls.

        ``reserved`` is the gate ReservedCapacity: without it, an instance in a capacity reservation is on-demand.
        """
        self._reserved = reserved
        self._clients = clients
        self._cluster = cluster
        self._price_of = price_of
        self._turns = Turns(SPACING_SECONDS, sleep=sleep)
        batched = partial(RequestBatcher, turns=self._turns, window=COLLECT_SECONDS, sleep=sleep)
        self._described: Described = batched(self._by_ids, most=MAX_VALUES)
        self._of_claims: Tagged = batched(partial(self._by_tag, labels.TAG_NODECLAIM, ALIVE), most=MAX_VALUES)
        self._of_tokens: Tagged = batched(partial(self._by_tag, labels.TAG_TOKEN, ALL_STATES), most=MAX_VALUES)
        self._of_groups: Tagged = batched(partial(self._by_tag, labels.TAG_GROUP, ALL_STATES), most=MAX_GROUPS)

    def describe(self, instance_id: str) -> Instance | None:
        """The instance, or None if EC2 does not know it."""
        description = self._raw(instance_id)
        return None if description is None else self._message(description)

    def list_price(self, instance_type: str, zone: str, capacity_type: str) -> float:
        """The price per hour of an instance of shared tenancy that EC2 does not show yet; 0 if it is unknown."""
        return self._price_of(instance_type, zone, capacity_type, "")

    def state(self, instance_id: str) -> str | None:
        """The name of the instance's state, or None if EC2 does not know the instance."""
        description = self._raw(instance_id)
        return None if description is None else description["State"]["Name"]

    def why_ended(self, instance_id: str) -> tuple[str, str] | None:
        """Code and message of EC2's StateReason, if the instance ends or has ended; else None."""
        instance = self._raw(instance_id)
        if instance is None or instance["State"]["Name"] not in GONE_STATES:
            return None
        reason = instance.get("StateReason") or {}
        return reason.get("Code", ""), reason.get("Message", "")

    def by_claim(self, claim: str) -> Instance | None:
        """The claim's living instance; the oldest if there are several; None if there is none."""
        return self._oldest(self._of_claims.get(claim) or [])

    def by_token(self, token: str) -> LaunchOutcome:
        """What a launch with this client token bought."""
        launched = self._of_tokens.get(token) or []
        instance = self._oldest(candidate for candidate in launched if candidate["State"]["Name"] in ALIVE)
        return LaunchOutcome(instance, decided=bool(launched))

    def of_group(self, group: LaunchGroup, claim: str) -> LaunchOutcome:
        """What a launch group bought for one of its members.

        The members take the group's instances in the order of instance ids, terminated ones included. If EC2 does not
        show all of them, DescribeFleets returns every instance that the group's fleet has bought.
        """
        group_instances = self._of_groups.get(group.id) or []
        bought = sorted(member["InstanceId"] for member in group_instances)
        if len(group_instances) < group.size:
            fleets = {_tags(member).get(labels.TAG_FLEET, "") for member in group_instances} - {""}
            bought = self._of_fleets(fleets)
        if group.ordinal >= len(bought):
            return LaunchOutcome(None, decided=bool(bought))
        own_instance = next(
            (member for member in group_instances if member["InstanceId"] == bought[group.ordinal]), None
        )
        if own_instance is None:
            launched_at = max(member["LaunchTime"] for member in group_instances)
            return LaunchOutcome(None, decided=False, hidden_since=launched_at)
        own = own_instance["State"]["Name"] in ALIVE and _tags(own_instance).get(labels.TAG_NODECLAIM, claim) == claim
        return LaunchOutcome(self._message(own_instance) if own else None, decided=True)

    def owned(self) -> list[ObservedInstance]:
        """All instances that are not terminated and have the cluster's tag and a NodePool or NodeClaim tag."""
        with self._turns.turn():
            raw = self._tagged({"tag-key": [labels.TAG_NODECLAIM, labels.TAG_NODEPOOL]}, VISIBLE)
        owned_instances = []
        for description in raw:
            tags = _tags(description)
            owned_instances.append(
                ObservedInstance(
                    id=description["InstanceId"],
                    state=description["State"]["Name"],
                    launched_at=description["LaunchTime"],
                    claim=tags.get(labels.TAG_NODECLAIM, ""),
                    pool=tags.get(labels.TAG_NODEPOOL, ""),
                    group=tags.get(labels.TAG_GROUP, ""),
                    name=tags.get(NAME, ""),
                    subnet_id=description.get("SubnetId", ""),
                    security_group_ids=_groups(description),
                    template_id=tags.get(labels.TAG_TEMPLATE, ""),
                )
            )
        return owned_instances

    def of_cluster(self) -> tuple[list[ClusterInstance], dict[str, str]]:
        """All instances that belong to the cluster and are not terminated, for its teardown.

        Also, by ID, why an instance with the cluster's tags does not count: another AWS service manages it.
        """
        with self._turns.turn():
            raw = self._tagged({"tag-key": [labels.TAG_NODEPOOL]}, VISIBLE)
        own = [description for description in raw if owns(_tags(description), self._cluster)]
        managed = {item["InstanceId"] for item in own if (item.get("Operator") or {}).get("Managed")}
        return [self._of_cluster(item) for item in own if item["InstanceId"] not in managed], dict.fromkeys(
            sorted(managed), AUTO_MODE
        )

    def _of_cluster(self, raw: InstanceTypeDef) -> ClusterInstance:
        instance, tags = self._message(raw), _tags(raw)
        devices = [device["Ebs"] for device in raw.get("BlockDeviceMappings", []) if "Ebs" in device]
        return ClusterInstance(
            id=instance.id,
            state=raw["State"]["Name"],
            instance_type=instance.instance_type,
            zone=instance.zone,
            capacity_type=instance.capacity_type,
            pool=tags.get(labels.TAG_NODEPOOL, ""),
            claim=tags.get(labels.TAG_NODECLAIM, ""),
            price=instance.price,
            launched_at=instance.launched_at,
            lasting_volumes=sorted(ebs["VolumeId"] for ebs in devices if not ebs.get("DeleteOnTermination", True)),
        )

    def name_after(self, instance_id: str, claim: str, node_name: str) -> bool:
        """Write the tags of a claim and its Node that the instance lacks. Return whether it has them all now.

        It has not if it ends, or if EC2 does not show it or its tags yet. Every instance has tags from its launch, so
        an answer without any is too early to tell whether the user gave it a Name.
        """
        description = self._raw(instance_id)
        present = {} if description is None else _tags(description)
        if description is None or description["State"]["Name"] not in ALIVE or not present:
            return False
        missing = tags_to_write(claim, node_name, present)
        if not present.get(labels.TAG_CLUSTER):  # a Karpenter version before 1.0 bought it
            missing[labels.TAG_CLUSTER] = self._cluster
        return not missing or self.tag(instance_id, missing)

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> bool:
        """Write tags on an instance. Return False if EC2 does not know it."""
        try:
            with translated("CreateTags"):
                self._clients.ec2.create_tags(
                    Resources=[instance_id], Tags=[{"Key": key, "Value": tags[key]} for key in sorted(tags)]
                )
        except EC2Error as error:
            if error.not_found or self._unknown([instance_id], error):
                return False
            raise
        return True

    def terminate(self, instance_id: str) -> str | None:
        """Terminate the instance. Return its new state, or None if EC2 does not know it (any more)."""
        outcome = self.terminate_instances([instance_id])[instance_id]
        if isinstance(outcome, EC2Error):
            raise outcome
        return outcome

    def terminate_instances(self, instance_ids: Sequence[str]) -> dict[str, str | EC2Error | None]:
        """Terminate instances. Return for each its new state, None if EC2 does not know it, or the error."""
        outcomes: dict[str, str | EC2Error | None] = {}
        for chunk in _chunks(instance_ids, MAX_TERMINATED):
            outcomes |= self._terminate_with_one_call(chunk)
        return outcomes

    def states(self, instance_ids: Sequence[str]) -> dict[str, str]:
        """Instance id to state. Instances that EC2 does not know are left out."""
        described = self._described.get_all(instance_ids)
        return {instance_id: description["State"]["Name"] for instance_id, description in described.items()}

    def reservations(self, instance_ids: Sequence[str]) -> dict[str, str]:
        """Instance id to the capacity reservation that a living instance is in; empty if it is in none."""
        described = self._described.get_all(instance_ids)
        return {
            instance_id: description.get("CapacityReservationId", "")
            for instance_id, description in described.items()
            if description["State"]["Name"] in ALIVE
        }

    def _terminate_with_one_call(self, instance_ids: Sequence[str]) -> dict[str, str | EC2Error | None]:
        """Terminate instances with one call.

        EC2 terminates nothing if it refuses one of the instances, so the rest is then requested without it.
        """
        try:
            with translated("TerminateInstances"):
                answer = self._clients.ec2.terminate_instances(InstanceIds=list(instance_ids))
        except EC2Error as error:
            try:
                unknown = self._unknown(instance_ids, error)
            except EC2Error as failure:  # whether they exist is not known, so the next attempt asks again
                return dict.fromkeys(instance_ids, failure)
            if error.retryable or len(instance_ids) == 1:
                return {failed_id: None if failed_id in unknown else error for failed_id in instance_ids}
            if not unknown:
                return {
                    failed_id: outcome
                    for failed_id in instance_ids
                    for outcome in self._terminate_with_one_call([failed_id]).values()
                }
            rest = [failed_id for failed_id in instance_ids if failed_id not in unknown]
            return {**dict.fromkeys(unknown), **(self._terminate_with_one_call(rest) if rest else {})}
        ended = {change["InstanceId"]: change["CurrentState"]["Name"] for change in answer["TerminatingInstances"]}
        return {failed_id: ended.get(failed_id) for failed_id in instance_ids}

    def _unknown(self, instance_ids: Sequence[str], error: EC2Error) -> set[str]:
        """The instances among those of a refused call that EC2 does not know.

        EC2 judges rights before it looks for an instance. Under a policy that asks for tags, as Tenon's does, it
        answers UnauthorizedOperation for an instance that is gone, because that has no tags.
        """
        if error.not_found:
            return set(instance_ids) if len(instance_ids) == 1 else set(_ID.findall(error.message)) & set(instance_ids)
        if error.code not in codes.UNAUTHORIZED:
            return set()
        return set(instance_ids) - self.states(instance_ids).keys()

    def _oldest(self, raw: Iterable[InstanceTypeDef]) -> Instance | None:
        oldest_first = sorted(raw, key=lambda description: (description["LaunchTime"], description["InstanceId"]))
        return self._message(oldest_first[0]) if oldest_first else None

    def _raw(self, instance_id: str) -> InstanceTypeDef | None:
        return self._described.get(instance_id)

    def _of_fleets(self, fleet_ids: Collection[str]) -> list[str]:
        """The ids of all instances that the fleets have bought, sorted."""
        if not fleet_ids:
            return []
        with translated("DescribeFleets"):
            answer = self._clients.ec2.describe_fleets(FleetIds=sorted(fleet_ids))
        return sorted(
            instance_id
            for fleet in answer["Fleets"]
            for launched in fleet.get("Instances", [])
            for instance_id in launched.get("InstanceIds", [])
        )

    def _by_ids(self, instance_ids: Sequence[str]) -> dict[str, InstanceTypeDef]:
        """Describe instances with a filter, which skips unknown ids. With InstanceIds, one would fail the call."""
        return {
            description["InstanceId"]: description
            for description in self._filtered([{"Name": "instance-id", "Values": list(instance_ids)}])
        }

    def _by_tag(self, key: str, states: Sequence[str], values: Sequence[str]) -> dict[str, list[InstanceTypeDef]]:
        """The instances of the cluster whose tag has one of the values, by the value."""
        by_value: dict[str, list[InstanceTypeDef]] = {}
        for description in self._tagged({f"tag:{key}": values}, states):
            by_value.setdefault(_tags(description)[key], []).append(description)
        return by_value

    def _tagged(self, tags: Mapping[str, Sequence[str]], states: Sequence[str]) -> list[InstanceTypeDef]:
        """The instances of the cluster that match the filters."""
        filters = {f"tag:{labels.TAG_CLUSTER}": [self._cluster], **tags, "instance-state-name": states}
        return self._filtered([{"Name": name, "Values": list(values)} for name, values in filters.items()])

    def _filtered(self, filters: list[FilterTypeDef]) -> list[InstanceTypeDef]:
        pages = self._clients.ec2.get_paginator("describe_instances").paginate(
            Filters=filters, PaginationConfig={"PageSize": 1000}
        )
        return retry_throttled(
            "DescribeInstances",
            lambda: [
                description for page in pages for group in page["Reservations"] for description in group["Instances"]
            ],
        )

    def _message(self, raw: InstanceTypeDef) -> Instance:
        zone = raw["Placement"]["AvailabilityZone"]
        lifecycle = raw.get("InstanceLifecycle")
        reservation_id = launched_into(raw) if self._reserved else ""
        bought_as = labels.RESERVED if reservation_id else labels.ON_DEMAND
        capacity_type = labels.SPOT if lifecycle == "spot" else bought_as
        block = reservation_id and lifecycle == "capacity-block"
        return Instance(
            id=raw["InstanceId"],
            provider_id=provider_id_of(zone, raw["InstanceId"]),
            instance_type=raw["InstanceType"],
            zone=zone,
            capacity_type=capacity_type,
            image_id=raw["ImageId"],
            price=self._price_of(raw["InstanceType"], zone, capacity_type, raw["Placement"].get("Tenancy", "")),
            private_dns_name=raw.get("PrivateDnsName", ""),
            launched_at=raw["LaunchTime"],
            reservation_id=reservation_id,
            reservation_type=(labels.CAPACITY_BLOCK if block else labels.DEFAULT_RESERVATION) if reservation_id else "",
            reservation_interruptible=bool(reservation_id) and lifecycle == "interruptible-capacity-reservation",
            partition=raw["Placement"].get("PartitionNumber", 0),
            placement_group_id=raw["Placement"].get("GroupId", ""),
            subnet_id=raw.get("SubnetId", ""),
            security_group_ids=_groups(raw),
        )


def _tags(raw: InstanceTypeDef) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in raw.get("Tags", [])}


def _groups(raw: InstanceTypeDef) -> tuple[str, ...]:
    return tuple(sorted(group["GroupId"] for group in raw.get("SecurityGroups", [])))


def _chunks(ids: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    return (ids[start : start + most] for start in range(0, len(ids), most))
