"""The pods without a node in groups with one reason each, bounded, for the provisioner's page and for commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tenon.apis.reasons import Reason, camel_case
from tenon.evolve import evolve
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.messages.provisioning import PendingClause, PendingPods, PlanResult
from tenon.scheduling.explanation.waiting import WaitsFor, beginning, waiting_text
from tenon.scheduling.model import Plan
from tenon.sentences import counted, shortened

_NONE: Mapping[str, str] = MappingProxyType({})
MOST_GROUPS = 10
NAMED_PODS = 3
MAX_WHY = 1000
"""How long the reason of a group may be. A reason has a clause for each NodePool."""


def without_place(reasons: Mapping[str, NoPlace]) -> list[PendingPods]:
    """Group pods for which no node is bought. ``reasons``: why, by the key of the pod.

    Pods that wait for the same at other times are one group: pages and lists name the time of each attempt once, with
    what EC2 refuses by now.
    """
    fitting_reasons: dict[int, NoPlace] = {}  # pods share reasons: each is formatted once
    whole_reasons: dict[NoPlace, NoPlace] = {}
    groups: dict[NoPlace, list[str]] = {}
    for key, why in reasons.items():
        if id(why) not in fitting_reasons:
            fitting_reasons[id(why)] = why.without_times.shortened(MAX_WHY)
            whole_reasons.setdefault(fitting_reasons[id(why)], why)
        groups.setdefault(fitting_reasons[id(why)], []).append(key)
    return [_unplaced(why, whole_reasons[why], keys) for why, keys in groups.items()]


def _unplaced(why: NoPlace, whole: NoPlace, keys: Sequence[str]) -> PendingPods:
    """The kinds are those of the whole clauses: a clause that is cut keeps only the kind of its beginning."""
    clauses = [
        PendingClause(pool=clause.pool, kind=clause.kind, waits=clause.waits, text=str(fitting))
        for clause, fitting in zip(whole.clauses, why.clauses, strict=False)
    ]
    clauses += [PendingClause(text=text) for text in why.sentences[len(clauses) :]]
    return _group(shortened(str(why), MAX_WHY), keys, clauses, has_place=False)


def with_place(plan: Plan, claims: Sequence[str]) -> list[PendingPods]:
    """Group the pods of a plan by the node that they wait for. ``claims``: the names of the plan's NodeClaims."""
    places = [
        (f"{name} ({planned.offering.instance_type}) was created for {_them(planned.pods)}", planned.pods, name)
        for name, planned in zip(claims, plan.claims, strict=True)
    ]
    places += [(f"{node} has room for {_them(pods)}", pods, "") for node, pods in plan.placements.items()]
    return [
        _group(why, keys, has_place=True, claim=claim)
        for why, pods, claim in places
        if (keys := [pod.key for pod in pods if not pod.buffer and not pod.node_name])
    ]


def bounded(groups: Sequence[PendingPods]) -> tuple[list[PendingPods], int]:
    """Return the groups that a message carries, and how many pods it leaves out.

    Those without a place come first, then the largest.
    """
    ordered = sorted(groups, key=lambda group: (group.has_place, -group.count, group.why))
    return ordered[:MOST_GROUPS], sum(group.count for group in ordered[MOST_GROUPS:])


def without_placed_pods(plan: PlanResult) -> PlanResult:
    """Return the figures of a plan without the pods that had a place, after a wait in which no pod asked for one."""
    return evolve(plan, pending=[group for group in plan.pending if not group.has_place])


def pending_sentence(group: PendingPods, unlaunched: Mapping[str, str] = _NONE) -> str:
    """Say which pods wait, and why. ``unlaunched``: the NodeClaims that got no instance, with the reason."""
    reason = unlaunched.get(group.claim) if group.claim else None
    if reason is not None:
        return waiting_text(WaitsFor.NEXT_BATCH, _without_instance(group, reason), _names(group))
    return waiting_text(_waits_for(group), group.why, _names(group))


def pending_title(group: PendingPods) -> str:
    """Say which pods wait, as the beginning of that sentence, which a list of its clauses follows."""
    return f"{beginning(_waits_for(group), _names(group))}:"


def _without_instance(group: PendingPods, reason: str) -> str:
    created = f"{group.claim}, which was created for {'it' if group.count == 1 else 'them'}"
    if Reason.of(reason) is Reason.INSUFFICIENT_CAPACITY:
        return f"EC2 had no capacity for {created}"
    return f"{created}, got no instance: {camel_case(reason)}"


def _waits_for(group: PendingPods) -> WaitsFor:
    return WaitsFor.NODE if group.has_place else WaitsFor.NOTHING_FITS


def _names(group: PendingPods) -> str:
    more = group.count - len(group.pods)
    return f"{counted(group.count, 'pod')} ({', '.join(group.pods)}{f' and {more} more' if more else ''})"


def _them(pods: Sequence[Pod]) -> str:
    return "it" if len(pods) == 1 else "them"


def _group(
    why: str, keys: Sequence[str], clauses: Sequence[PendingClause] = (), *, has_place: bool, claim: str = ""
) -> PendingPods:
    pods = sorted(keys)[:NAMED_PODS]
    return PendingPods(why=why, clauses=list(clauses), pods=pods, count=len(keys), has_place=has_place, claim=claim)
