"""Finds, describes, tags and terminates the EC2 instances of this cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, retry_throttled, translated
from activities.ec2.request_batching import RequestBatcher, Turns
from tenon.apis import labels
from tenon.ec2 import errors as codes
from tenon.ec2.capacity_reservations import launched_into
from tenon.housekeeping.facts import GONE_STATES, ObservedInstance
from tenon.housekeeping.instances import NAME, tags_to_write
from tenon.kube.claim_record import provider_id_of
from tenon.lifecycle.messages.launch import Instance, LaunchGroup

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
class Purchase:
    """What a launch bought for a claim: its living instance, or None.

    With ``decided``, EC2 shows what became of the launch. Otherwise an instance of it may still appear.
    """

    instance: Instance | None
    decided: bool


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
        found = self._raw(instance_id)
        return None if found is None else self._message(found)

    def state(self, instance_id: str) -> str | None:
        """The name of the instance's state, or None if EC2 does not know the instance."""
        found = self._raw(instance_id)
        return None if found is None else found["State"]["Name"]

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

    def by_token(self, token: str) -> Purchase:
        """What a launch with this client token bought."""
        launched = self._of_tokens.get(token) or []
        instance = self._oldest(each for each in launched if each["State"]["Name"] in ALIVE)
        return Purchase(instance, decided=bool(launched))

    def of_group(self, group: LaunchGroup, claim: str) -> Purchase:
        """What a launch group bought for one of its members.

        The members take the group's instances in the order of instance ids, terminated ones included. If EC2 does not
        show all of them, DescribeFleets returns every instance that the group's fleet has bought.
        """
        seen = self._of_groups.get(group.id) or []
        bought = sorted(each["InstanceId"] for each in seen)
        if len(seen) < group.size:
            fleets = {_tags(each).get(labels.TAG_FLEET, "") for each in seen} - {""}
            bought = self._of_fleets(fleets)
        if group.ordinal >= len(bought):
            return Purchase(None, decided=bool(bought))
        found = next((each for each in seen if each["InstanceId"] == bought[group.ordinal]), None)
        if found is None:
            return Purchase(None, decided=False)
        own = found["State"]["Name"] in ALIVE and _tags(found).get(labels.TAG_NODECLAIM, claim) == claim
        return Purchase(self._message(found) if own else None, decided=True)

    def owned(self) -> list[ObservedInstance]:
        """All instances that are not terminated and have the cluster's tag and a NodePool or NodeClaim tag."""
        with self._turns.turn():
            raw = self._tagged({"tag-key": [labels.TAG_NODECLAIM, labels.TAG_NODEPOOL]}, VISIBLE)
        found = []
        for each in raw:
            tags = _tags(each)
            found.append(
                ObservedInstance(
                    id=each["InstanceId"],
                    state=each["State"]["Name"],
                    launched_at=each["LaunchTime"],
                    claim=tags.get(labels.TAG_NODECLAIM, ""),
                    pool=tags.get(labels.TAG_NODEPOOL, ""),
                    group=tags.get(labels.TAG_GROUP, ""),
                    name=tags.get(NAME, ""),
                    subnet_id=each.get("SubnetId", ""),
                    security_group_ids=_groups(each),
                )
            )
        return found

    def name_after(self, instance_id: str, claim: str, node_name: str) -> bool:
        """Write the tags of a claim and its Node that the instance lacks. Return whether it has them all now.

        It has not if it ends, or if EC2 does not show it or its tags yet. Every instance has tags from its launch, so
        an answer without any is too early to tell whether the user gave it a Name.
        """
        found = self._raw(instance_id)
        present = {} if found is None else _tags(found)
        if found is None or found["State"]["Name"] not in ALIVE or not present:
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
        for some in _chunks(instance_ids, MAX_TERMINATED):
            outcomes |= self._terminate_with_one_call(some)
        return outcomes

    def states(self, instance_ids: Sequence[str]) -> dict[str, str]:
        """Instance id to state. Instances that EC2 does not know are left out."""
        described = self._described.get_all(instance_ids)
        return {instance_id: found["State"]["Name"] for instance_id, found in described.items()}

    def reservations(self, instance_ids: Sequence[str]) -> dict[str, str]:
        """Instance id to the capacity reservation that a living instance is in; empty if it is in none."""
        described = self._described.get_all(instance_ids)
        return {
            instance_id: found.get("CapacityReservationId", "")
            for instance_id, found in described.items()
            if found["State"]["Name"] in ALIVE
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
                return {each: None if each in unknown else error for each in instance_ids}
            if not unknown:
                return {
                    each: outcome for each in instance_ids for outcome in self._terminate_with_one_call([each]).values()
                }
            rest = [each for each in instance_ids if each not in unknown]
            return {**dict.fromkeys(unknown), **(self._terminate_with_one_call(rest) if rest else {})}
        ended = {change["InstanceId"]: change["CurrentState"]["Name"] for change in answer["TerminatingInstances"]}
        return {each: ended.get(each) for each in instance_ids}

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
        found = sorted(raw, key=lambda each: (each["LaunchTime"], each["InstanceId"]))
        return self._message(found[0]) if found else None

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
            each["InstanceId"]: each for each in self._filtered([{"Name": "instance-id", "Values": list(instance_ids)}])
        }

    def _by_tag(self, key: str, states: Sequence[str], values: Sequence[str]) -> dict[str, list[InstanceTypeDef]]:
        """The instances of the cluster whose tag has one of the values, by the value."""
        found: dict[str, list[InstanceTypeDef]] = {}
        for each in self._tagged({f"tag:{key}": values}, states):
            found.setdefault(_tags(each)[key], []).append(each)
        return found

    def _tagged(self, wanted: Mapping[str, Sequence[str]], states: Sequence[str]) -> list[InstanceTypeDef]:
        """The instances of the cluster that match the filters."""
        filters = {f"tag:{labels.TAG_CLUSTER}": [self._cluster], **wanted, "instance-state-name": states}
        return self._filtered([{"Name": name, "Values": list(values)} for name, values in filters.items()])

    def _filtered(self, filters: list[FilterTypeDef]) -> list[InstanceTypeDef]:
        pages = self._clients.ec2.get_paginator("describe_instances").paginate(
            Filters=filters, PaginationConfig={"PageSize": 1000}
        )
        return retry_throttled(
            "DescribeInstances",
            lambda: [each for page in pages for group in page["Reservations"] for each in group["Instances"]],
        )

    def _message(self, raw: InstanceTypeDef) -> Instance:
        zone = raw["Placement"]["AvailabilityZone"]
        lifecycle = raw.get("InstanceLifecycle")
        reservation_id = launched_into(raw) if self._reserved else ""
        sold = labels.RESERVED if reservation_id else labels.ON_DEMAND
        capacity_type = labels.SPOT if lifecycle == "spot" else sold
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
