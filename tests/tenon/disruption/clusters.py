"""Small clusters for the tests of methods that move pods, written as plain data and built as the worker builds them.

The same description gives the model for the method and the manifests for the judge of plans (`tests.oracle`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tenon.apis import labels
from tenon.apis.approvals import read_approval_rules, read_approve_within
from tenon.apis.consolidation_limits import read_least_saving
from tenon.apis.disruption_windows import read_windows
from tenon.apis.nodepool import Budget
from tenon.apis.purchase_goals import goals_of
from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import model_of
from tenon.disruption.decision import Command
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.repair.policies import REBOOT_NODE, REPLACE_NODE, RepairPolicy, RepairPolicySet, built_in
from tenon.disruption.repair.pool_policies import PoolRepair
from tenon.disruption.rules.held_pods import held_until, holder
from tenon.disruption.rules.unhealthy import with_breaker
from tenon.disruption.search.cost import rescheduling_cost
from tenon.disruption.situation import Situation
from tenon.kube.pod_decode import MIRROR_ANNOTATION, decode_pod
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, decode_pdb, selecting
from tenon.kube.protection import node_protection
from tenon.kube.records import NodeCondition, PodRecord
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.kube.timestamps import format_instant
from tenon.messages.base import REBOOT
from tenon.provisioning.cost_limits import BoughtOffering, priced_nodes, with_cost_limits
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.resources import parse_resources, total
from tenon.scheduling.catalog import parse_catalog
from tenon.scheduling.model import InstanceType, Node, Pool, Problem
from tenon.simulation.document import claim_entry
from tests.activities.provisioning.fake_view import node_pool
from tests.oracle.findings import Finding
from tests.oracle.judging import judge
from tests.tenon.scheduling.builders import ordinary_entries

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_DURATION = re.compile(r"(\d+)([smh])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours"}

PROTECTED = 'the "karpenter.sh/do-not-disrupt" annotation of its Node'


class Spec(BaseModel):
    """A part of a description. Unknown keys are refused, so that a test does not pass for the wrong reason."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)


class PodSpec(Spec):
    """Equal pods."""

    count: int = 1
    cpu: str = "1"
    memory: str = "1Gi"
    app: str = "web"
    selector: dict[str, str] = {}
    tolerates: bool = False
    apart: bool = False
    """No two pods of the app on one node."""
    spread: Literal["", "zone", "host"] = ""
    priority: int = 0
    deletion_cost: int = 0
    ready: bool = True
    daemon: bool = False
    """A DaemonSet owns it, so no other node would run it."""
    static: bool = False
    """It mirrors a static pod, which no drain evicts."""
    succeeded: bool = False
    terminating: bool = False
    annotations: dict[str, str] = {}
    bound: str = "1h"
    """How long ago it was bound to its node."""


class PdbSpec(Spec):
    """A PodDisruptionBudget for the pods of an app."""

    app: str = "web"
    allowed: int | None = None
    """``status.disruptionsAllowed``."""
    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    unhealthy_pods: Literal["", "AlwaysAllow", "IfHealthyBudget"] = ""


class NodeSpec(Spec):
    """A node that its NodePool launched."""

    pool: str = "default"
    type: str = "m5.xlarge"
    zone: str = "us-west-2a"
    capacity_type: str = "on-demand"
    reservation: str = ""
    """The capacity reservation that it has a place in."""
    pods: list[PodSpec] = []
    quiet: str | None = "1h"
    """How long ago the last pod event was."""
    price: float | None = None
    """Instead of the price of its offering."""
    initialized: bool = True
    ready: bool = True
    leaving: bool = False
    terminating: bool = False
    """Its instance is being terminated."""
    protected: bool = False
    annotations: dict[str, str] = {}
    """Of its Node."""
    held_by: str = ""
    """Instead of what its pods say."""
    drifted: str = ""
    """The reason of the condition Drifted of its NodeClaim."""
    drifted_for: str = "1h"
    drift_message: str = ""
    grace_period: bool = False
    """Its NodeClaim has a terminationGracePeriod."""
    disrupted_by: str = ""
    replacement_for: str = ""
    created_for: str = ""
    tainted: bool = False
    age: str | None = None
    expires_in: str | None = None
    expired_for: str | None = None
    managed: bool = True
    """Whether a NodePool owns it."""
    conditions: dict[str, tuple[str, str | None, str]] = {}
    """Conditions of its Node that are not as they should be: status, for how long (null: it does not say), reason."""
    joined: str | None = None
    """How long ago its Node was created; unknown by default, so that no condition is younger."""
    registered: bool = True
    do_not_repair: Literal["", "Node", "NodeClaim"] = ""
    """The object with the annotation karpenter.sh/do-not-repair."""
    rebooting: bool = False
    reboots: list[str] = []
    """How long ago reboots were committed."""
    rebooted: str | None = None
    """How long ago the last reboot ended."""


class ReservationSpec(Spec):
    """A capacity reservation, which every NodePool may use that allows reserved capacity."""

    type: str = "m5.xlarge"
    zone: str = "us-west-2a"
    places: int = 0
    """How many more nodes it takes."""
    available: bool = True


class PoolSpec(Spec):
    """A NodePool."""

    requirements: list[dict[str, Any]] = []
    """More than architecture and capacity type."""
    capacity_types: list[str] = ["on-demand"]
    consolidate_after: str | None = "0s"
    policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] = "WhenEmptyOrUnderutilized"
    budgets: list[dict[str, Any]] = [{"nodes": "100%"}]
    weight: int = 0
    limits: dict[str, str] | None = None
    replicas: int | None = None
    tainted: bool = False
    windows: list[dict[str, Any]] | None = None
    """The annotation tenon.sh/disruption-windows."""
    resolved: bool = True
    """Whether its instance types are known."""
    refused: bool = False
    """EC2 refuses its launches."""
    least_saving: str | None = None
    takes_pods_early: bool = False
    """The annotation tenon.sh/takes-pods-within-consolidate-after."""
    expire_within_budgets: bool = False
    """The annotation tenon.sh/expire-within-budgets."""
    approve: str | None = None
    """The annotation tenon.sh/approve."""
    approve_within: str = "24h"
    """The annotation tenon.sh/approve-within."""
    rest: str = "0s"
    """How long consolidation leaves a node alone that it created."""
    types: list[str] | None = None
    """The instance types that it may launch; all by default."""
    max_hourly_cost: str | None = None
    """The annotation tenon.sh/max-hourly-cost."""
    spot_share: str | None = None
    """The annotation tenon.sh/spot-share."""


class PolicySpec(Spec):
    """A repair policy of a NodePool's own set, with one step or a reboot before it."""

    condition: str
    status: str = "False"
    reason: str | None = None
    after: str
    drain_bound: str | None = None
    priority: int = 0
    reboots: bool = False


class RepairSpec(Spec):
    """The policies of node repair."""

    reboots: bool = False
    """The gate RebootForRepair."""
    pools: dict[str, list[PolicySpec]] = {}
    """By NodePool, the policies that stand in for the built-in ones."""


class Cluster(Spec):
    """A whole cluster."""

    pools: dict[str, PoolSpec] = Field(default_factory=lambda: {"default": PoolSpec()})
    nodes: dict[str, NodeSpec]
    max_hourly_cost: float = 0
    """The setting MAX_HOURLY_COST."""
    nominated: list[str] = []
    buffer_hosts: list[str] = []
    under_command: list[str] = []
    postponed: list[str] = []
    blocked: dict[str, str] = {}
    """By node, how long ago a method last found that it cannot leave."""
    awaiting_replacement: dict[str, str] = {}
    """NodeClaims that left before their replacement runs, with their NodePool."""
    reservations: dict[str, ReservationSpec] = {}
    pdbs: dict[str, PdbSpec] = {}
    repair: RepairSpec | None = None
    """What node repair does; by default it is off."""
    now: datetime = NOW
    """Durations of nodes and pods count back from here."""


CATALOGUE: Object = {"instanceTypes": ordinary_entries()}
_OF_A_DAEMONSET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "uid-d", "controller": True}
DEDICATED = Taint("dedicated", "NoSchedule", "x")


@cache
def types() -> Mapping[str, InstanceType]:
    """The catalogue by name."""
    return {kind.name: kind for kind in parse_catalog(CATALOGUE)}


def catalogue_of(cluster: Cluster, freed: Mapping[str, int] | None = None) -> Object:
    """The catalogue with the cluster's reservations. ``freed``: how many more places each of them has."""
    entries = [{**entry, "offerings": list(entry["offerings"])} for entry in CATALOGUE["instanceTypes"]]
    for name, spec in cluster.reservations.items():
        (entry,) = (entry for entry in entries if entry["name"] == spec.type)
        entry["offerings"].append(
            {
                "zone": spec.zone,
                "capacityType": labels.RESERVED,
                "price": 1e-8,
                "available": spec.available,
                "reservationId": name,
                "reservationCapacity": spec.places + (freed or {}).get(name, 0),
            }
        )
    return {"instanceTypes": entries}


def duration(text: str) -> timedelta:
    """Read a duration such as 90s or 1h."""
    match = _DURATION.fullmatch(text)
    assert match, f"{text!r} is not a duration"
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def situation(cluster: Cluster) -> Situation:
    """The cluster as disruption sees it."""
    now, details = cluster.now, {}
    managed = []
    budgets = [_pdb(name, spec) for name, spec in cluster.pdbs.items()]
    for name, spec in cluster.nodes.items():
        if not spec.managed:
            continue
        records = [record for record in records_of(name, spec, now) if not record.terminal]
        moving = [record for record in records if record.reschedulable]
        with_budgets = [(record, selecting(record.pod, budgets)) for record in records]
        held_by = spec.held_by or holder(with_budgets, now)
        until = held_until(with_budgets, now) if held_by and not spec.held_by else None
        quiet = None if spec.quiet is None else now - duration(spec.quiet)
        managed.append(
            ManagedNode(
                claim=name,
                uid=f"uid-{name}",
                pool=spec.pool,
                initialized=spec.initialized,
                ready=spec.ready,
                leaving=spec.leaving,
                empty=not moving,
                protected_by=PROTECTED if spec.protected else node_protection({}, spec.annotations, None, now),
                quiet_since=quiet if not moving else None,
                node=name,
                terminating=spec.terminating,
                held_by=held_by if not moving else "",
                held_until=until if not moving else None,
                drifted=bool(spec.drifted),
                disrupted_by=spec.disrupted_by,
                replacement_for=spec.replacement_for,
                created_for=spec.created_for,
                expires_at=_expires_at(spec, now),
                registered=spec.registered,
                unhealthy=conditions_of(spec, now),
                node_created_at=None if spec.joined is None else now - duration(spec.joined),
                repair_veto=spec.do_not_repair,
                rebooting=spec.rebooting,
                reboots=tuple(now - duration(ago) for ago in spec.reboots),
                rebooted_at=None if spec.rebooted is None else now - duration(spec.rebooted),
                cpu=types()[spec.type].allocatable["cpu"],
            )
        )
        details[name] = NodeDetail(
            node=name,
            instance_type=spec.type,
            zone=spec.zone,
            capacity_type=_capacity_type(spec),
            price=price_of(spec),
            pods=tuple(record.pod for record in moving),
            cost=rescheduling_cost(
                (record.pod.priority, record.stated_cost(deletion_costs_managed=False)) for record in moving
            ),
            held_by=held_by,
            held_until=until,
            has_grace_period=spec.grace_period,
            drifted=spec.drifted,
            drift_message=spec.drift_message,
            drifted_since=now - duration(spec.drifted_for) if spec.drifted else None,
            quiet_since=quiet,
            created_at=None if spec.age is None else now - duration(spec.age),
        )
    static = {name for name, spec in cluster.pools.items() if spec.replicas is not None}
    refused = {name for name, spec in cluster.pools.items() if spec.refused}
    return Situation(
        nodes=managed,
        policies={name: _policy(name, spec) for name, spec in cluster.pools.items()},
        now=now,
        under_command=frozenset(cluster.under_command),
        postponed=frozenset(cluster.postponed),
        nominated=frozenset(cluster.nominated),
        buffer_hosts=frozenset(cluster.buffer_hosts),
        awaiting_replacement=dict(cluster.awaiting_replacement),
        model=model_of(_problem(cluster), details, static, refused),
        blocked_at={name: now - duration(ago) for name, ago in cluster.blocked.items()},
        repair=None if cluster.repair is None else with_breaker(repair_of_spec(cluster.repair), managed),
    )


def conditions_of(spec: NodeSpec, now: datetime) -> tuple[NodeCondition, ...]:
    """The conditions of a node as its record has them."""
    return tuple(
        NodeCondition(type_, status, 0.0 if ago is None else (now - duration(ago)).timestamp(), reason)
        for type_, (status, ago, reason) in spec.conditions.items()
    )


def repair_of_spec(spec: RepairSpec) -> PoolRepair:
    """What node repair does, apart from its breaker."""
    return PoolRepair(built_in(reboots=spec.reboots), {pool: _policies(specs) for pool, specs in spec.pools.items()})


def _policies(specs: list[PolicySpec]) -> RepairPolicySet:
    policies = [
        RepairPolicy(
            policy.condition,
            policy.status,
            policy.reason,
            duration(policy.after),
            None if policy.drain_bound is None else duration(policy.drain_bound),
            policy.priority,
            (REBOOT_NODE, REPLACE_NODE) if policy.reboots else (REPLACE_NODE,),
        )
        for policy in specs
    ]
    return RepairPolicySet(tuple(policies))


def _expires_at(spec: NodeSpec, now: datetime) -> datetime | None:
    if spec.expired_for is not None:
        return now - duration(spec.expired_for)
    return None if spec.expires_in is None else now + duration(spec.expires_in)


def _pdb(name: str, spec: PdbSpec) -> PodDisruptionBudget:
    """The budget, decoded as from the API server."""
    declaration = {
        "maxUnavailable": spec.max_unavailable,
        "minAvailable": spec.min_available,
        "unhealthyPodEvictionPolicy": spec.unhealthy_pods or None,
    }
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": spec.app}},
            **{key: value for key, value in declaration.items() if value is not None},
        },
        "status": {} if spec.allowed is None else {"disruptionsAllowed": spec.allowed},
    }
    return decode_pdb(json.dumps(body).encode()).value


def price_of(spec: NodeSpec) -> float:
    """The price of a node's own offering."""
    if spec.price is not None:
        return spec.price
    if spec.reservation:
        return 1e-8
    offered = types()[spec.type].offerings
    return next(o.price for o in offered if (o.zone, o.capacity_type) == (spec.zone, spec.capacity_type))


def records_of(node: str, spec: NodeSpec, now: datetime = NOW) -> list[PodRecord]:
    """The pods of a node, decoded as from the API server."""
    return [decode_pod(json.dumps(manifest).encode()) for manifest in pod_manifests(node, spec, now)]


def pod_manifests(node: str, spec: NodeSpec, now: datetime = NOW) -> list[Object]:
    """The manifests of a node's pods."""
    return [
        _pod_manifest(f"{node}-{number}-{copy}", node, pod, now)
        for number, pod in enumerate(spec.pods)
        for copy in range(pod.count)
    ]


def findings(cluster: Cluster, commands: Iterable[Command]) -> list[Finding]:
    """What is wrong with the places of all pods that the commands move, judged without the engine.

    A static NodePool's node is replaced by one like it, wherever its pods go, so nothing can be said about them. The
    pods of an expired node are planned once they are evicted.
    """
    selection = [
        command
        for command in commands
        if command.reason != Reason.EXPIRED and command.decision != REBOOT and not _is_static(command, cluster)
    ]
    removal = {candidate.node.claim for command in selection for candidate in command.candidates}
    manifests: list[Object] = [_pool_manifest(name, spec) for name, spec in cluster.pools.items()]
    for name, spec in cluster.nodes.items():
        if name not in removal:
            manifests.append(_node_manifest(name, spec))
        for pod in pod_manifests(name, spec, cluster.now):
            if name in removal:
                if not decode_pod(json.dumps(pod).encode()).reschedulable:
                    continue
                del pod["spec"]["nodeName"]
            manifests.append(pod)
    claims = [
        claim_entry(claim, f"new-{turn}-{number}")
        for turn, command in enumerate(selection)
        for number, claim in enumerate(command.new_claims)
    ]
    freed = Counter(name for command in selection for name in command.freed_places)
    hosts: dict[str, list[str]] = {}
    for command in selection:
        for node, pods in command.destinations.items():
            hosts.setdefault(node, []).extend(pod.key for pod in pods)
    count = sum(len(claim["pods"]) for claim in claims) + sum(map(len, hosts.values()))
    plan = {
        "nodeClaims": claims,
        "existingNodes": [{"name": name, "pods": pods} for name, pods in hosts.items()],
        "unschedulable": [],
        "totals": {
            "pods": count,
            "unschedulable": 0,
            "nodes": len(claims),
            "pricePerHour": sum(claim["price"] for claim in claims),
            "lowerBoundPricePerHour": 0.0,
        },
    }
    return judge(manifests, catalogue_of(cluster, freed), plan)


def _is_static(command: Command, cluster: Cluster) -> bool:
    return any(cluster.pools[candidate.node.pool].replicas is not None for candidate in command.candidates)


def _problem(cluster: Cluster) -> Problem:
    nodes = []
    for name, spec in cluster.nodes.items():
        pods = tuple(record.pod for record in records_of(name, spec, cluster.now) if not record.terminal)
        nodes.append(
            Node(
                name,
                _node_labels(name, spec),
                (DEDICATED,) if spec.tainted else (),
                types()[spec.type].allocatable,
                total(pod.requests for pod in pods),
                initialized=spec.initialized,
                pods=pods,
                closed=spec.leaving,
                capacity=types()[spec.type].capacity,
            )
        )
    pools = [_pool(name, spec, cluster) for name, spec in cluster.pools.items()]
    costs = {name: spec.max_hourly_cost for name, spec in cluster.pools.items()}
    if not (any(costs.values()) or cluster.max_hourly_cost):
        return Problem((), pools, nodes, namespaces={"default": {}})
    pools_with_types = [
        (node_pool(pool.name, annotations={labels.MAX_HOURLY_COST: cost} if (cost := costs[pool.name]) else {}), types)
        for pool in pools
        for types in (pool.instance_types,)
    ]
    bought = [
        BoughtOffering(spec.pool, spec.type, spec.zone, _capacity_type(spec))
        for spec in cluster.nodes.values()
        if spec.managed
    ]
    policy = PlanPolicy(max_hourly_cost=cluster.max_hourly_cost)
    limited = with_cost_limits(pools, pools_with_types, lambda: bought, policy)
    return Problem((), limited, priced_nodes(nodes, pools_with_types), namespaces={"default": {}})


def _node_labels(name: str, spec: NodeSpec) -> dict[str, str]:
    values = {
        key: requirement.values[0]
        for key, requirement in types()[spec.type].requirements.items()
        if requirement.members
    }
    own = {labels.ZONE: spec.zone, labels.CAPACITY_TYPE: _capacity_type(spec), labels.HOSTNAME: name}
    place = {labels.RESERVATION_ID: spec.reservation} if spec.reservation else {}
    return {**values, **own, **place, **({labels.NODEPOOL: spec.pool} if spec.managed else {})}


def _capacity_type(spec: NodeSpec) -> str:
    return labels.RESERVED if spec.reservation else spec.capacity_type


def _needs(spec: PoolSpec) -> list[Object]:
    return [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": spec.capacity_types},
        {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
        *([{"key": labels.INSTANCE_TYPE, "operator": "In", "values": spec.types}] if spec.types else []),
        *spec.requirements,
    ]


def _pool(name: str, spec: PoolSpec, cluster: Cluster) -> Pool:
    offered = parse_catalog(catalogue_of(cluster)) if cluster.reservations else list(types().values())
    mine = [types()[node.type].capacity for node in cluster.nodes.values() if node.managed and node.pool == name]
    return Pool(
        name,
        Requirements.from_terms(_needs(spec)),
        offered if spec.resolved else [],
        weight=spec.weight,
        taints=(DEDICATED,) if spec.tainted else (),
        limits=parse_resources(spec.limits) if spec.limits else None,
        goals=None if spec.spot_share is None else goals_of({labels.SPOT_SHARE: spec.spot_share}),
        usage={**total(mine), "nodes": len(mine)},
    )


def _policy(name: str, spec: PoolSpec) -> PoolPolicy:
    return PoolPolicy(
        name,
        None if spec.consolidate_after is None else duration(spec.consolidate_after),
        tuple(Budget.model_validate(budget) for budget in spec.budgets),
        spec.policy,
        spec.replicas,
        None if spec.least_saving is None else read_least_saving(spec.least_saving),
        duration(spec.rest),
        () if spec.windows is None else read_windows(json.dumps(spec.windows)),
        takes_pods_early=spec.takes_pods_early,
        expire_within_budgets=spec.expire_within_budgets,
        approvals=() if spec.approve is None else read_approval_rules(spec.approve),
        approve_within=read_approve_within(spec.approve_within),
    )


def _pod_manifest(name: str, node: str, pod: PodSpec, now: datetime) -> Object:
    selection = {"labelSelector": {"matchLabels": {"app": pod.app}}}
    key = {"zone": labels.ZONE, "host": labels.HOSTNAME}.get(pod.spread)
    apart = {"affinity": {"podAntiAffinity": {REQUIRED: [{**selection, "topologyKey": labels.HOSTNAME}]}}}
    rule = {**selection, "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": pod.app},
            "annotations": {
                **({labels.POD_DELETION_COST: str(pod.deletion_cost)} if pod.deletion_cost else {}),
                **({MIRROR_ANNOTATION: "x"} if pod.static else {}),
                **pod.annotations,
            },
            **({"ownerReferences": [_OF_A_DAEMONSET]} if pod.daemon else {}),
            **({"deletionTimestamp": format_instant(now)} if pod.terminating else {}),
        },
        "spec": {
            "nodeName": node,
            "priority": pod.priority,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": pod.cpu, "memory": pod.memory}}}],
            **({"nodeSelector": pod.selector} if pod.selector else {}),
            **({"tolerations": [{"operator": "Exists"}]} if pod.tolerates else {}),
            **(apart if pod.apart else {}),
            **({"topologySpreadConstraints": [rule]} if key else {}),
        },
        "status": {
            "phase": "Succeeded" if pod.succeeded else "Running",
            "startTime": format_instant(now - duration(pod.bound)),
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastTransitionTime": format_instant(now - duration(pod.bound)),
                },
                {"type": "Ready", "status": "True" if pod.ready else "False"},
            ],
        },
    }


def _node_manifest(name: str, spec: NodeSpec) -> Object:
    kind = next(entry for entry in CATALOGUE["instanceTypes"] if entry["name"] == spec.type)
    room = {resource: _allocatable(kind, resource) for resource in kind["capacity"]}
    taints = [{"key": DEDICATED.key, "value": DEDICATED.value, "effect": DEDICATED.effect}] if spec.tainted else []
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": _node_labels(name, spec)},
        "spec": {"taints": taints},
        "status": {"allocatable": room, "capacity": kind["capacity"]},
    }


def _allocatable(kind: Object, resource: str) -> str:
    """The oracle reads quantities by itself, so this is a difference of texts in the units of the catalogue."""
    capacity, overhead = kind["capacity"][resource], kind["overhead"].get(resource)
    if overhead is None:
        return str(capacity)
    if resource == "cpu":
        return f"{int(capacity) * 1000 - int(overhead.removesuffix('m'))}m"
    return f"{float(capacity.removesuffix('Gi')) * 1024 - int(overhead.removesuffix('Mi')):.0f}Mi"


def _pool_manifest(name: str, spec: PoolSpec) -> Object:
    taints = [{"key": DEDICATED.key, "value": DEDICATED.value, "effect": DEDICATED.effect}] if spec.tainted else []
    body: Object = {"template": {"spec": {"requirements": _needs(spec), "taints": taints}}, "weight": spec.weight}
    return {"kind": "NodePool", "metadata": {"name": name}, "spec": {**body, "limits": spec.limits or {}}}
