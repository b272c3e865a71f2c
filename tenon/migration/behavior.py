"""What in a cluster of Karpenter's would behave otherwise under Tenon, object by object.

Each rule names a row of docs/parity.md. Only what can be seen on an object has a rule: a difference that concerns
every cluster alike, such as how often consolidation moves a pod, is said once, with the objects that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tenon.apis import labels
from tenon.apis.expiration import expires_within_budgets
from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.managed import manages_claim, manages_pool
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.conditions import is_true
from tenon.kube.structs import object_key
from tenon.migration.node_states import DISRUPTED

HASHES = ((labels.NODEPOOL_HASH, labels.NODEPOOL, "NodePool"), (labels.EC2NODECLASS_HASH, "", "EC2NodeClass"))
"""Annotation with a hash, the label that names the object that it is of (else nodeClassRef does), and its kind."""
NO_NODE = ("0", "0%")


@dataclass(frozen=True, slots=True)
class BehaviorDifference:
    """One object that would behave otherwise."""

    kind: str
    name: str
    """With its namespace, if it has one."""
    row: str
    """Of docs/reference.md; docs/parity.md says what Tenon does."""
    sentence: str
    action: str = ""
    """What to do; empty if nothing has to be done."""


@dataclass(frozen=True, slots=True)
class MigratedObjects:
    """What the rules look at, in the version of v1."""

    pools: Sequence[JsonObject] = field(default=())
    classes: Sequence[JsonObject] = field(default=())
    claims: Sequence[JsonObject] = field(default=())
    nodes: Sequence[JsonObject] = field(default=())
    pods: Sequence[JsonObject] = field(default=())
    overlays: Sequence[JsonObject] = field(default=())
    buffers: Sequence[JsonObject] = field(default=())
    old: Sequence[JsonObject] = field(default=())
    """Provisioners, AWSNodeTemplates and Machines."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Karpenter's feature gates that are stated."""


Rule = Callable[[MigratedObjects], Iterator[BehaviorDifference]]


def differences(objects: MigratedObjects) -> list[BehaviorDifference]:
    """Return what would behave otherwise, in the order of the rules."""
    return [item for rule in RULES for item in rule(objects)]


def overdue(pools: Sequence[JsonObject], claims: Sequence[JsonObject], now: datetime) -> list[ClaimRecord]:
    """Return the NodeClaims that Tenon drains at once, because they are older than their expireAfter.

    Karpenter before v1 has them wait for budgets and for their replacements.
    """
    waiting = {_name(pool) for pool in pools if expires_within_budgets(object_json.annotations(pool))}
    records = [ClaimRecord.of(claim) for claim in claims if manages_claim(claim) and not object_json.is_deleting(claim)]
    return [record for record in records if record.pool not in waiting and _is_overdue(record, now)]


def _is_overdue(claim: ClaimRecord, now: datetime) -> bool:
    created, seconds = claim.created_at, claim.expire_after_seconds
    return created is not None and seconds is not None and created + timedelta(seconds=seconds) <= now


def _forgotten_drift(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    owners = {
        "NodePool": {_name(pool): pool for pool in objects.pools},
        "EC2NodeClass": {_name(node_class): node_class for node_class in objects.classes},
    }
    for claim in objects.claims:
        if not manages_claim(claim) or object_json.is_deleting(claim) or is_true(claim, "Drifted"):
            continue
        for key, label, kind in HASHES:
            name = object_json.labels(claim).get(label) if label else field_at(claim, "spec", "nodeClassRef", "name")
            owner = owners[kind].get(str(name or ""))
            if owner is not None and _differ(owner, claim, key):
                sentence = f"{kind} {name} was changed and this node has not drifted yet: the change no longer counts."
                action = "wait until Karpenter has replaced it, or drain it afterwards"
                yield BehaviorDifference("NodeClaim", _name(claim), "QRK-15", sentence, action)


def _differ(owner: JsonObject, claim: JsonObject, key: str) -> bool:
    """Whether both have hashes of one version, and different ones."""
    ours, its = object_json.annotations(owner), object_json.annotations(claim)
    same_version = ours.get(f"{key}-version") == its.get(f"{key}-version")
    return same_version and key in ours and key in its and ours[key] != its[key]


def _begun_disruptions(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    leaving = {
        str((claim.get("status") or {}).get("providerID") or "")
        for claim in objects.claims
        if object_json.is_deleting(claim)
    }
    for node in objects.nodes:
        taints = (node.get("spec") or {}).get("taints") or ()
        is_tainted = any(taint.get("key") in DISRUPTED for taint in taints)
        if is_tainted and str((node.get("spec") or {}).get("providerID") or "") not in leaving:
            sentence = "Karpenter has begun to disrupt it. Tenon removes the taint, and decides again."
            yield BehaviorDifference("Node", _name(node), "QRK-01", sentence)


def _old_objects(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    sentences = {
        "Provisioner": "becomes a NodePool, unless it is older than a NodePool; Karpenter since 0.33 ignores it.",
        "AWSNodeTemplate": "becomes an EC2NodeClass; Karpenter since 0.33 ignores it.",
        "Machine": "gets a condition, and its node is not taken over.",
    }
    for item in objects.old:
        kind = str(item.get("kind") or "")
        sentence = f"{kind} {_name(item)} {sentences.get(kind, 'acts under Tenon.')}"
        yield BehaviorDifference(kind, _name(item), "LEG-01", sentence, "delete it if no one uses it")
    for node in objects.nodes:
        if labels.PROVISIONER in object_json.labels(node):
            sentence = "It is a node of a Machine, which Tenon does not take over: only you end it."
            yield BehaviorDifference("Node", _name(node), "LEG-01", sentence, "see docs/migrate.md#from-v1alpha5")


def _consolidation(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    for pool in objects.pools:
        policy = field_at(pool, "spec", "disruption", "consolidationPolicy") or "WhenEmptyOrUnderutilized"
        after = str(field_at(pool, "spec", "disruption", "consolidateAfter") or "0s")
        if manages_pool(pool) and policy == "WhenEmptyOrUnderutilized" and after != "Never":
            sentence = (
                "Consolidation moves a pod at most twice in 24 hours and not within an hour of the last time; one "
                "command may replace many nodes by several."
            )
            yield BehaviorDifference("NodePool", _name(pool), "WSH-01", sentence)


def _limits(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    for pool in objects.pools:
        if manages_pool(pool) and "nodes" in (field_at(pool, "spec", "limits") or {}):
            sentence = "The limit of nodes also holds within a batch, which Karpenter exceeds."
            yield BehaviorDifference("NodePool", _name(pool), "QRK-18", sentence)


def _repairs(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    if not objects.gates.get("NodeRepair"):
        return
    for pool in objects.pools:
        budgets = field_at(pool, "spec", "disruption", "budgets") or []
        is_closed = any(
            str(budget.get("nodes")) in NO_NODE and not budget.get("reasons") and not budget.get("schedule")
            for budget in budgets
        )
        if manages_pool(pool) and is_closed:
            sentence = "Its budget of 0 nodes also stops node repair, as in Karpenter 1.15 and unlike 1.14."
            action = "add a budget with reasons: [Unhealthy]"
            yield BehaviorDifference("NodePool", _name(pool), "N15-128", sentence, action)


def _static_pools(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    for pool in objects.pools:
        if manages_pool(pool) and field_at(pool, "spec", "replicas") is not None:
            if not objects.gates.get("StaticCapacity"):
                sentence = "It is static, and the gate StaticCapacity is off: it is not Ready."
                action = "set settings.featureGates.staticCapacity"
                yield BehaviorDifference("NodePool", _name(pool), "GAT-05", sentence, action)
            else:
                sentence = "The next of its nodes is replaced as soon as budgets and limits allow, not one at a time."
                yield BehaviorDifference("NodePool", _name(pool), "DIS-02", sentence)


def _user_data(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    for node_class in objects.classes:
        text = str(field_at(node_class, "spec", "userData") or "")
        if "register-with-taints" in text and "NodeConfig" in text:
            sentence = "Its userData states --register-with-taints, so the class is not Ready."
            yield BehaviorDifference(
                "EC2NodeClass", _name(node_class), "AWS-097", sentence, "use the taints of the NodePool"
            )
        if labels.NVIDIA_CONSUMABLE_CAPACITY in object_json.annotations(node_class):
            sentence = "Sharing of NVIDIA GPUs is checked and has no effect: pods with ResourceClaims get no node."
            yield BehaviorDifference("EC2NodeClass", _name(node_class), "N15-451", sentence)
        if _is_bottlerocket(node_class) and _has_pid(node_class):
            sentence = (
                "It reserves pid or has a threshold of 100 %, which Bottlerocket refuses: the class is not Ready."
            )
            yield BehaviorDifference("EC2NodeClass", _name(node_class), "AWS-098", sentence, "take the setting out")


def _is_bottlerocket(node_class: JsonObject) -> bool:
    terms = field_at(node_class, "spec", "amiSelectorTerms") or ()
    aliases = [str(term.get("alias") or "") for term in terms]
    family = field_at(node_class, "spec", "amiFamily")
    return family == "Bottlerocket" or any(alias.startswith("bottlerocket@") for alias in aliases)


def _has_pid(node_class: JsonObject) -> bool:
    kubelet = field_at(node_class, "spec", "kubelet") or {}
    reserved = {**(kubelet.get("kubeReserved") or {}), **(kubelet.get("systemReserved") or {})}
    thresholds = {**(kubelet.get("evictionHard") or {}), **(kubelet.get("evictionSoft") or {})}
    return "pid" in reserved or any(str(amount) in ("100%", "100.0%") for amount in thresholds.values())


def _gated(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    for items, gate, row in ((objects.overlays, "NodeOverlay", "GAT-04"), (objects.buffers, "CapacityBuffer", "CB-01")):
        if not objects.gates.get(gate):
            for item in items:
                sentence = f"It has no effect while the gate {gate} is off, as in Karpenter."
                yield BehaviorDifference(str(item["kind"]), _name(item), row, sentence)


def _pods(objects: MigratedObjects) -> Iterator[BehaviorDifference]:
    for pod in objects.pods:
        spec = pod.get("spec") or {}
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        if spec.get("resourceClaims"):
            sentence = "It has ResourceClaims, for which Tenon buys no node."
            yield BehaviorDifference("Pod", _name(pod), "SCH-096", sentence, "keep Karpenter for such pods")
        if selected := {labels.REGISTERED, labels.INITIALIZED} & set(_selected(spec)):
            sentence = f"It selects {min(selected)}: Karpenter lets it wait forever, and Tenon buys a node for it."
            yield BehaviorDifference("Pod", _name(pod), "LBL-03", sentence)
        cost = object_json.annotations(pod).get(labels.POD_DELETION_COST)
        if cost is not None and objects.gates.get("PodDeletionCostManagement"):
            sentence = f"Its deletion cost {cost} is Karpenter's, and counts as one that you set."
            action = f"kubectl annotate pods -A --all {labels.POD_DELETION_COST}-"
            yield BehaviorDifference("Pod", _name(pod), "N15-646", sentence, action)
        elif cost is not None and cost.startswith("-"):
            sentence = f"Its deletion cost {cost} does not make its node count as empty."
            yield BehaviorDifference("Pod", _name(pod), "DIS-23", sentence)


def _selected(spec: Mapping[str, Any]) -> Iterable[str]:
    yield from spec.get("nodeSelector") or ()
    required = field_at(dict(spec), "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            yield str(expression.get("key"))


def _name(obj: JsonObject) -> str:
    return object_key(obj["metadata"]["name"], obj["metadata"].get("namespace") or "")


RULES: Sequence[Rule] = (
    _forgotten_drift,
    _begun_disruptions,
    _old_objects,
    _user_data,
    _static_pools,
    _gated,
    _repairs,
    _consolidation,
    _limits,
    _pods,
)
