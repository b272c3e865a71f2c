"""Builds the exact EC2 Fleet request that launches a NodeClaim, and the launch templates that the request names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass, Subnet
from tenon.apis.nodeclaim import NodeClaim
from tenon.ec2.families import family_of
from tenon.ec2.families.bootstrap import Bootstrap, node_labels, node_taints
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.launch import template as launch_template
from tenon.ec2.launch.filters import NoImageError, NoOfferingError, TypeOfferings, cheapest, choose, compatible
from tenon.ec2.launch.launched_labels import tenancy
from tenon.ec2.launch.tags import instance_tags, shared_tags
from tenon.ec2.launch.template import LaunchTemplate, MachineNeeds, Reservation
from tenon.ec2.types.bootable_types import architectures_of, images_by_type, requirements_of, sentence
from tenon.ec2.types.placement_groups import partition
from tenon.ec2.types.settings import kubelet_map
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.kube.taints import of_model
from tenon.messages.launch import FleetOverride, FleetTemplate, LaunchRequest
from tenon.messages.offerings import OfferingRef
from tenon.resources import PODS, Resources, parse_resources
from tenon.scheduling.model import InstanceType, Offering
from tenon.sentences import first_few

EFA = "vpc.amazonaws.com/efa"
FIRST_EFA_CARD = {"p6-b300.48xlarge": 1}
"""Types whose first network card supports no EFA, as InterfaceTypes of EC2's description says for each card."""
NITRO_SANDBOX = "eks.amazonaws.com/nitro-sandbox"
"""A slot for a Nitro enclave. A device plugin publishes the resource; a NodeOverlay says how many a type has."""
MAX_TEMPLATES = 50
"""The most launch templates that EC2 takes in one fleet request."""
NAMED_IMAGES = 5
"""How many images a sentence names."""
_NITRO_SANDBOX_LABEL = f"{labels.AWS_GROUP}/nitro-sandbox"


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A request, and the templates that must exist before it is sent."""

    request: LaunchRequest
    templates: tuple[LaunchTemplate, ...]
    addresses: Mapping[str, int] = field(default_factory=dict)
    """By subnet: how many addresses the pods of the node will use at least, if it is launched there (AWS-120)."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Everything that determines the launch template of an instance type."""

    image_id: str
    max_pods: int | None
    needs: MachineNeeds
    kubelet: str
    """The kubelet settings as JSON."""


def client_token(cluster: str, uid: str, attempt: int) -> str:
    """Return EC2's idempotency token for a launch attempt: the same for every retry of it, at most 64 characters."""
    return hashlib.sha256(f"{cluster}/{uid}/{attempt}".encode()).hexdigest()[:40]


def plan_launch(
    claim: NodeClaim,
    node_class: EC2NodeClass,
    cluster: Cluster,
    instance_types: Sequence[InstanceType],
    free_addresses: Mapping[str, int],
    attempt: int,
    kubelets: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    open_reservations: bool = False,
) -> LaunchPlan:
    """Return the request of a launch attempt. ``free_addresses`` is the number of free IP addresses by subnet ID.

    ``kubelets`` are the kubelet settings by instance type, for types whose settings differ from those of the class.
    ``open_reservations`` leaves open capacity reservations to EC2, as without the gate ReservedCapacity.

    Raises:
        NoOfferingError: no instance type that the claim allows can be bought.
        NoImageError: no image of the class boots an instance type that the claim allows.
        ValueError: the class's user data cannot be rendered.
    """
    requirements = Requirements.from_terms(term.to_dict() for term in claim.spec.requirements)
    requests = parse_resources(claim.spec.resources.requests)
    subnets = best_subnets(node_class.status.subnets, free_addresses)
    placed = node_class.status.placement_group
    needs = MachineNeeds(
        enclaves=bool(requests.get(NITRO_SANDBOX)),
        tenancy=tenancy(requirements),
        partition=partition(placed, requirements),
    )
    if needs.enclaves:
        instance_types = [
            instance_type
            for instance_type in instance_types
            if instance_type.requirements.get(_NITRO_SANDBOX_LABEL).has("true")
        ]
    bootable = images_by_type(instance_types, node_class.status.amis)
    relaxed = claim.metadata.annotations.get(labels.MIN_VALUES_RELAXED) == "true"
    try:
        capacity_type, choices = choose(
            requirements,
            requests,
            (instance_type for instance_type in instance_types if instance_type.name in bootable),
            subnets,
            min_values_relaxed=relaxed,
        )
    except NoOfferingError:
        _check_images(requirements, requests, node_class, instance_types, bootable)
        raise

    def grouped(choices: Iterable[TypeOfferings]) -> dict[_Group, list[TypeOfferings]]:
        return _grouped(choices, node_class, bootable, needs, kubelets or {}, with_efa=bool(requests.get(EFA)))

    groups = grouped(choices)
    if len(groups) > MAX_TEMPLATES:
        # With a template for each type, these are few enough. With one for each reservation, there may be more.
        groups = dict(islice(grouped(cheapest(requirements, choices, MAX_TEMPLATES)).items(), MAX_TEMPLATES))
    kind = next((group.needs.reservation for group in groups if group.needs.reservation is not None), None)
    prioritized = claim.metadata.annotations.get(labels.PRICE_OVERLAY_APPLIED) == "true"
    token = client_token(cluster.name, claim.metadata.uid, attempt)
    pool = claim.metadata.labels.get(labels.NODEPOOL, "")
    templates = {
        group: _template(claim, node_class, cluster, capacity_type, group, open_reservations=open_reservations)
        for group in groups
    }
    request = LaunchRequest(
        client_token=token,
        capacity_type=capacity_type,
        templates=[
            FleetTemplate(
                name=templates[group].name,
                image_id=group.image_id,
                overrides=_overrides(members, subnets, prioritized=prioritized),
            )
            for group, members in groups.items()
        ],
        tags=instance_tags(cluster.name, node_class, pool, claim.metadata.name, token),
        context="" if relaxed else node_class.spec.context or "",
        reservation_type=kind.type if kind is not None else "",
        reservation_interruptible=kind is not None and kind.interruptible,
        placement_group=placed.id if placed is not None else "",
        placement_strategy=placed.strategy if placed is not None else "",
        partition=needs.partition or 0,
    )
    return LaunchPlan(request, tuple(templates.values()), _addresses(chain.from_iterable(groups.values()), subnets))


def _check_images(
    requirements: Requirements,
    requests: Resources,
    node_class: EC2NodeClass,
    instance_types: Iterable[InstanceType],
    bootable: Container[str],
) -> None:
    """Check that the images of the class boot an instance type that the claim allows, whatever EC2 refuses now.

    Raises:
        NoImageError: they boot none.
    """
    zones, amis = frozenset(subnet.zone for subnet in node_class.status.subnets), node_class.status.amis
    choices = compatible(requirements, requests, instance_types, zones, also_unavailable=True)
    if choices and amis and not any(choice.type.name in bootable for choice in choices):
        name = f"{node_class.metadata.name} ({first_few([ami.id for ami in amis], NAMED_IMAGES)})"
        architectures = architectures_of(map(requirements_of, amis))
        raise NoImageError(sentence(name, [choice.type for choice in choices], architectures))


def _grouped(
    choices: Iterable[TypeOfferings],
    node_class: EC2NodeClass,
    bootable: Mapping[str, str],
    needs: MachineNeeds,
    kubelets: Mapping[str, Mapping[str, Any]],
    *,
    with_efa: bool,
) -> dict[_Group, list[TypeOfferings]]:
    """Put the choices together that can have one launch template."""
    sets_max_pods = family_of(node_class).sets_max_pods
    own_kubelet = kubelet_map(node_class)
    groups: dict[_Group, list[TypeOfferings]] = {}
    for choice in _by_reservation(choices):
        group = _Group(
            image_id=bootable[choice.type.name],
            max_pods=choice.type.capacity[PODS] if sets_max_pods else None,
            needs=replace(
                needs,
                efa_interfaces=choice.type.capacity.get(EFA, 0) if with_efa else 0,
                first_efa_card=FIRST_EFA_CARD.get(choice.type.name, 0) if with_efa else 0,
                reservation=_reservation(choice.offerings[0]),
            ),
            kubelet=json.dumps(kubelets.get(choice.type.name, own_kubelet), sort_keys=True),
        )
        groups.setdefault(group, []).append(choice)
    return groups


def _addresses(choices: Iterable[TypeOfferings], subnets: Mapping[str, Subnet]) -> dict[str, int]:
    """By subnet: the least number of pods of the types that may be launched there. Each pod takes an address."""
    least: dict[str, int] = {}
    for choice in choices:
        pods = choice.type.capacity[PODS]
        for zone in {offering.zone for offering in choice.offerings}:
            subnet_id = subnets[zone].id
            least[subnet_id] = min(pods, least.get(subnet_id, pods))
    return least


def _by_reservation(choices: Iterable[TypeOfferings]) -> Iterator[TypeOfferings]:
    """Split the choices, so that all offerings of one are of the same reservation: a template names only one."""
    for choice in choices:
        ids = dict.fromkeys(offering.reservation_id for offering in choice.offerings)
        for name in ids:
            reserved_offerings = tuple(offering for offering in choice.offerings if offering.reservation_id == name)
            yield choice if len(ids) == 1 else TypeOfferings(choice.type, reserved_offerings)


def _reservation(offering: Offering) -> Reservation | None:
    if not offering.reservation_id:
        return None
    return Reservation(offering.reservation_id, offering.reservation_type, offering.reservation_interruptible == "true")


def _reference(name: str, offering: Offering) -> OfferingRef:
    key = OfferingKey.refusable(offering.capacity_type, name, offering.zone, offering.reservation_id)
    return OfferingRef.of(key)


def best_subnets(subnets: Iterable[Subnet], free_addresses: Mapping[str, int]) -> dict[str, Subnet]:
    """Pick the subnet with the most free addresses in each zone. Leave out zones whose subnets are all full."""
    best: dict[str, Subnet] = {}
    for subnet in sorted(subnets, key=lambda candidate: (-free_addresses.get(candidate.id, 0), candidate.id)):
        if free_addresses.get(subnet.id, 0) > 0:
            best.setdefault(subnet.zone, subnet)
    return best


def without_addresses(
    claim: NodeClaim,
    node_class: EC2NodeClass,
    instance_types: Iterable[InstanceType],
    free_addresses: Mapping[str, int],
) -> tuple[list[str], list[OfferingRef]]:
    """Return the zones in which all subnets of the class are full, and what the claim could buy there otherwise.

    A claim that needs such a zone must not be planned again at once.
    """
    full = {subnet.zone for subnet in node_class.status.subnets} - set(
        best_subnets(node_class.status.subnets, free_addresses)
    )
    if not full:
        return [], []
    requirements = Requirements.from_terms(term.to_dict() for term in claim.spec.requirements)
    requests = parse_resources(claim.spec.resources.requests)
    return sorted(full), [
        _reference(choice.type.name, offering)
        for choice in compatible(requirements, requests, instance_types, frozenset(full))
        for offering in choice.offerings
    ]


def _overrides(
    choices: Iterable[TypeOfferings], subnets: Mapping[str, Subnet], *, prioritized: bool
) -> list[FleetOverride]:
    """If prioritized, EC2 follows Tenon's prices. The lowest number is EC2's highest priority."""
    return [
        FleetOverride(
            instance_type=choice.type.name,
            zone=offering.zone,
            subnet_id=subnets[offering.zone].id,
            price=offering.price,
            priority=offering.price if prioritized else None,
            reservation_id=offering.reservation_id,
        )
        for choice in choices
        for offering in choice.offerings
    ]


def _template(
    claim: NodeClaim,
    node_class: EC2NodeClass,
    cluster: Cluster,
    capacity_type: str,
    group: _Group,
    *,
    open_reservations: bool,
) -> LaunchTemplate:
    spec = node_class.spec
    text = family_of(node_class).user_data(
        Bootstrap(
            cluster=cluster,
            labels=node_labels(claim.metadata.labels, capacity_type),
            taints=node_taints(of_model(claim.spec.taints), of_model(claim.spec.startup_taints)),
            kubelet=json.loads(group.kubelet),
            max_pods=group.max_pods,
            raid0=spec.instance_store_policy == "RAID0",
            user_data=spec.user_data or "",
            image_name=next((ami.name or "" for ami in node_class.status.amis if ami.id == group.image_id), ""),
        ),
    )
    return launch_template.build(
        node_class,
        cluster,
        group.needs,
        image_id=group.image_id,
        user_data=text,
        capacity_type=capacity_type,
        tags=shared_tags(cluster.name, node_class, claim.metadata.labels.get(labels.NODEPOOL, "")),
        open_reservations=open_reservations,
    )
