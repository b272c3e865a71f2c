"""What every plan must keep, whatever the batch: checked from the records alone, not with the engine's own parts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.taints import Taint
from tenon.resources import add, fits, maximum
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, Node, PlannedClaim, Pool, Problem
from tests.tenon.scheduling.builders import CATALOG
from tests.tenon.scheduling.random_problems import FAMILY, problems

TYPES = {instance_type.name: instance_type for instance_type in CATALOG}


def labels_of(
    claim: PlannedClaim, pool: Pool, instance_type: InstanceType, zone: str, capacity_type: str
) -> Requirements:
    """What a node is known to be once the claim is bought in this way."""
    assert all(key in pool.requirements or key in labels.WELL_KNOWN for key in claim.requirements)
    own = {key: r for key, r in pool.requirements.with_(claim.requirements).items() if key not in labels.WELL_KNOWN}
    bought = Requirements.from_labels({labels.ZONE: zone, labels.CAPACITY_TYPE: capacity_type})
    return instance_type.requirements.with_(bought).with_(Requirements(own))


def always(requirements: Requirements, requirement: Requirement) -> bool:
    """Whether the node satisfies the requirement, whatever its open labels become."""
    if requirement.contradicts():
        return False
    if requirement.key not in requirements or requirements[requirement.key].operator == "DoesNotExist":
        return requirement.operator in ("NotIn", "DoesNotExist")
    mine = requirements[requirement.key]
    if mine.complement:
        return requirement.operator == "Exists" or (
            requirement.operator == "NotIn" and set(requirement.values) <= set(mine.values)
        )
    return all(requirement.has(value) for value in mine.values)


def suits(pod: Pod, requirements: Requirements, taints: tuple[Taint, ...]) -> bool:
    hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
    tolerated = all(any(t.tolerates(taint) for t in pod.tolerations) for taint in hard)
    return tolerated and (
        not pod.required_terms
        or any(all(always(requirements, r) for r in term.values()) for term in pod.required_terms)
    )


def may_run(daemon: Pod, requirements: Requirements, taints: tuple[Taint, ...]) -> bool:
    """Whether a DaemonSet's pod may come to the node."""
    if not all(any(t.tolerates(taint) for t in daemon.tolerations) for taint in taints if taint.effect == "NoSchedule"):
        return False
    return not daemon.required_terms or any(
        all(requirements[r.key].overlaps(r) if r.key in requirements else r.may_be_absent for r in term.values())
        for term in daemon.required_terms
    )


def ways(claim: PlannedClaim) -> list[tuple[InstanceType, str, str]]:
    """Every way in which the claim may be bought."""
    result = []
    for name in claim.instance_types:
        open_offers = [
            (TYPES[name], offering.zone, offering.capacity_type)
            for offering in TYPES[name].offerings
            if claim.requirements.get(labels.ZONE).has(offering.zone)
            and claim.requirements.get(labels.CAPACITY_TYPE).has(offering.capacity_type)
        ]
        assert open_offers, f"{name} is listed and cannot be bought"
        result += open_offers
    return result


def check_node(node: Node, placed: tuple[Pod, ...]) -> None:
    assert fits(add(node.used, *(pod.requests for pod in placed)), node.allocatable)
    for pod in placed:
        assert suits(pod, Requirements.from_labels(node.labels), node.taints)


@settings(max_examples=120, deadline=None)
@given(problems())
def test_every_plan_keeps_the_rules(batch: Problem) -> None:
    plan = solve(batch)
    by_name = {pool.name: pool for pool in batch.pools}

    # each pod is in exactly one part, and every part says something
    planned = Counter(pod.key for claim in plan.claims for pod in claim.pods)
    planned.update(pod.key for placed in plan.placements.values() for pod in placed)
    planned.update(list(plan.unschedulable))
    assert planned == Counter(pod.key for pod in batch.pods)
    assert all(map(str, plan.unschedulable.values()))

    peaks: dict[str, list[dict[str, int]]] = {}
    for claim in plan.claims:
        pool = by_name[claim.pool]
        assert claim.pods
        assert claim.instance_types[0] == claim.offering.instance_type
        check_ports(claim.pods)
        summed = add(*(pod.requests for pod in claim.pods))
        for instance_type, zone, capacity_type in ways(claim):
            requirements = labels_of(claim, pool, instance_type, zone, capacity_type)
            daemons = [d for d in batch.daemons if may_run(d, requirements, pool.taints)]
            # every listed type holds the claim's pods and its DaemonSets
            assert fits(add(summed, *(d.requests for d in daemons)), instance_type.allocatable)
            for pod in claim.pods:
                assert suits(pod, requirements, pool.taints)
            for requirement in pool.requirements.values():
                assert always(requirements, requirement) or requirement.key == "team"
        prices = {(o.capacity_type, t.name, o.zone): o.price for t in CATALOG for o in t.offerings}
        assert claim.price == min(prices[ct, t.name, zone] for t, zone, ct in ways(claim)) == prices[claim.offering[:3]]
        peaks.setdefault(claim.pool, []).append(
            maximum(*(TYPES[name].capacity for name in claim.instance_types)) | {"nodes": 1}
        )
        for key, requirement in pool.requirements.items():
            offered = (
                {TYPES[name].requirements[key].values for name in claim.instance_types} if key == FAMILY else set()
            )
            assert key != FAMILY or len(offered) >= (requirement.min_values or 0)

    for name, amounts in peaks.items():
        limits = by_name[name].limits or {}
        used = add(*amounts)
        assert all(used[resource] <= limit for resource, limit in limits.items())

    for node in batch.nodes:
        check_node(node, plan.placements.get(node.name, ()))


def check_ports(on_one_node: tuple[Pod, ...]) -> None:
    ports = [port for pod in on_one_node for port in pod.host_ports]
    for position, (address, port, protocol) in enumerate(ports):
        for other, other_port, other_protocol in ports[:position]:
            same = (port, protocol) == (other_port, other_protocol)
            assert not (same and (address == other or "" in (address, other)))


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 2**16))
def test_the_order_of_the_input_does_not_matter(batch: Problem, seed: int) -> None:
    shuffle = random.Random(seed)

    def mixed(items: Any) -> list[Any]:
        return shuffle.sample(list(items), len(items))

    again = Problem(
        mixed(batch.pods),
        [replace(pool, instance_types=mixed(pool.instance_types)) for pool in mixed(batch.pools)],
        mixed(batch.nodes),
        mixed(batch.daemons),
    )
    assert repr(solve(again)) == repr(solve(batch))
