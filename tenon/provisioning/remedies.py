"""What a person can do about pods without a node and about what EC2 refuses, as `tenon.node.remedies` says for nodes.

Each remedy is a sentence in Markdown with the command that carries it out, the gentlest first.
"""

from __future__ import annotations

from collections.abc import Collection

from tenon.apis import labels
from tenon.kube.offerings import FULL_RESERVATION, PLACEMENT_GROUP, QUOTA, RESERVATION, OfferingKey
from tenon.kube.pool_reasons import ObstacleKind
from tenon.messages.provisioning import LaunchBreaker, PendingPods, PurchasePause, ShortageWait
from tenon.scheduling.explanation.waiting import explain_command
from tenon.sentences import first_few

_WAIT = "do nothing if the pods can wait: Tenon asks EC2 again by itself"
NAMED_POOLS = 3
_SEE_RESERVATIONS = "see how full the reservations are: `aws ec2 describe-capacity-reservations`"


def _kinds(group: PendingPods) -> list[str]:
    """Return the kinds of obstacles that the remedies of these pods are about, each once.

    If a NodePool takes them later by itself, that is what they wait for, whatever keeps them off the others.
    """
    waiting = [clause.kind for clause in group.clauses if clause.waits]
    return list(dict.fromkeys(waiting or [clause.kind for clause in group.clauses if clause.kind]))


def for_unplaced(group: PendingPods) -> list[str]:
    """Return what helps pods for which no node is bought: what they wait for, or else what someone must change."""
    explain = f"`{explain_command(group.pods[0])}` says what each NodePool lacks"
    remedies = [remedy for kind in _kinds(group) for remedy in _for_kind(kind, group, explain)]
    return list(dict.fromkeys(remedies)) or _for_change(explain)


def _for_kind(kind: str, group: PendingPods, explain: str) -> list[str]:
    pools = [clause.pool for clause in group.clauses if clause.kind == kind and clause.pool]
    match kind:
        case ObstacleKind.CAPACITY:
            return [_WAIT, f"allow more instance types, zones or capacity types in a NodePool: {explain}"]
        case ObstacleKind.LIMITS:
            limited = f"NodePool {first_few(pools, NAMED_POOLS)}" if pools else "the NodePool"
            return [f"raise the limits of {limited} or on costs, or wait until other nodes leave: {explain}"]
        case ObstacleKind.SCHEDULE:
            return ["do nothing if the pods can wait for the hours of the NodePool: `tenon schedule list` says when"]
        case ObstacleKind.LAUNCHES if pools:
            return [f"see why its launches are held back: `kubectl describe nodepool {pools[0]}`"]
        case ObstacleKind.RESERVATIONS:
            return [_SEE_RESERVATIONS]
        case ObstacleKind.POD:
            return [f"do what the reason says, because no change of a NodePool helps: {explain}"]
        case _:
            return _for_change(explain)


def _for_change(explain: str) -> list[str]:
    return [
        f"change the pods or a NodePool that should take them: {explain}",
        "try a changed NodePool before you apply it: `tenon simulate --live -f nodepool.yaml`",
    ]


def for_refused(keys: Collection[OfferingKey]) -> list[str]:
    """Return what helps pods that need capacity which EC2 refuses. ``keys``: the refusals of one sentence."""
    key = next(iter(keys))
    if key.scope == QUOTA:
        return [
            f"ask AWS for a larger quota: `aws service-quotas list-service-quotas --service-code ec2` lists "
            f"{key.capacity_type} quotas with their codes, and `aws service-quotas request-service-quota-increase` "
            "raises one",
            "allow types of other families in the NodePool: `tenon explain nodepool NAME` says what it may buy",
        ]
    if key == key.whole_capacity_type:
        if key.capacity_type == labels.SPOT:
            role = "`aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`"
            return [f"create the role that EC2 needs for spot instances: {role}"]
        return [_WAIT]
    remedies = [_WAIT]
    if any(not own.scope for own in keys):
        other = "on-demand" if key.capacity_type == labels.SPOT else "spot"
        remedies.append(
            f"allow more instance types, zones or {other} capacity in the NodePool: `tenon explain nodepool NAME` says "
            "what it may buy"
        )
    if any(own.scope in (RESERVATION, FULL_RESERVATION) for own in keys):
        remedies.append(_SEE_RESERVATIONS)
    if any(own.scope == PLACEMENT_GROUP for own in keys):
        remedies.append("see the placement groups: `aws ec2 describe-placement-groups`")
    return remedies


def for_wait(wait: ShortageWait) -> list[str]:
    """Return what helps pods that wait for a cheaper node."""
    namespace, _, name = wait.pod.partition("/")
    command = f"kubectl annotate pod -n {namespace} {name} {labels.SHORTAGE_POLICY}=Buy"
    return [_WAIT, *([f"buy the dear node now: `{command}`"] if name else [])]


def for_pause(pause: PurchasePause) -> list[str]:
    """Return what helps pods that kube-scheduler did not place on the nodes that were bought for them."""
    if not pause.pods:
        return []
    namespace, _, name = pause.pods[0].partition("/")
    return [
        f"see what kube-scheduler says: `kubectl describe pod -n {namespace} {name}`",
        f"change what it names, in the pods, NodePool {pause.pool} or its EC2NodeClass: that ends the pause at once",
    ]


def for_breaker(breaker: LaunchBreaker) -> list[str]:
    """Return what helps launches that EC2 refuses."""
    node_class = breaker.node_class.partition("@")[0]
    if breaker.outage:
        return ["do nothing: Tenon asks EC2 again by itself, and gives up no NodeClaim; `tenon doctor` asks EC2 too"]
    if breaker.boots:
        return [f"see why instances end: `tenon why {breaker.ended[-1]}`"] if breaker.ended else []
    where = f"kubectl describe ec2nodeclass {node_class}" if node_class else f"kubectl describe nodepool {breaker.pool}"
    return [
        *([f"correct what EC2 names: `{where}` shows it"] if node_class or breaker.pool else []),
        "check the rights of the worker: `tenon doctor`",
    ]
