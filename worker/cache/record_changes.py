"""Says which changes of a record matter to controllers and the planner.

A busy cluster writes many objects per second in which nothing has changed that a controller decides by.
"""

from __future__ import annotations

from tenon.apis.nodeclaim import CONSOLIDATABLE
from tenon.kube.claim_record import LAST_POD_EVENT_TIME, ClaimRecord
from tenon.kube.records import ObjectRecord, PodRecord


def schedule_essence(schedule: ObjectRecord | None) -> object:
    """What of a NodeSchedule changes what it asks for: its spec, a pause, and the boot times that it knows."""
    if schedule is None:
        return None
    rows = schedule.status.get("nodePools") or ()
    boots = [(row.get("name"), row.get("bootTime")) for row in rows]
    return schedule.version_of_spec, schedule.status.get("paused"), boots


def freeze_essence(freeze: ObjectRecord | None) -> object:
    """What of a DisruptionFreeze decides when it holds: its spec, and what is known of its calendar."""
    return None if freeze is None else (freeze.version_of_spec, freeze.status.get("calendar"))


def became_sized(before: ClaimRecord, after: ClaimRecord) -> bool:
    """Whether the claim's instance has become known with this change, and with it the claim's usage of limits."""
    return not before.status.get("capacity") and bool(after.status.get("capacity"))


def only_pod_event_noted(before: ClaimRecord, after: ClaimRecord) -> bool:
    """Whether only the time of the last pod event or the condition Consolidatable, which follows from it, changed. A
    busy cluster writes many of these per second.
    """
    if before.spec != after.spec:
        return False
    metadata = ({**claim.metadata, "resourceVersion": ""} for claim in (before, after))
    return next(metadata) == next(metadata) and _lasting_status(before) == _lasting_status(after)


def _lasting_status(claim: ClaimRecord) -> dict[str, object]:
    """The claim's status without what follows from pod events."""
    conditions = [
        condition for condition in claim.status.get("conditions") or () if condition.get("type") != CONSOLIDATABLE
    ]
    return {**claim.status, LAST_POD_EVENT_TIME: "", "conditions": conditions}


def released_protection(before: PodRecord, after: PodRecord | None) -> bool:
    """Whether a pod with do-not-disrupt ended, went away or lost the annotation."""
    if not before.do_not_disrupt or before.terminal:
        return False
    return after is None or after.terminal or after.do_not_disrupt != before.do_not_disrupt


def cost_annotations(pod: PodRecord, *, deletion_costs_managed: bool) -> tuple[str | None, ...]:
    """The annotations by which the owner of a pod states what its eviction costs, as they are written.

    ``deletion_costs_managed``: Tenon writes pod-deletion-cost itself, many times and for no owner.
    """
    return pod.disruption_cost, None if deletion_costs_managed else pod.deletion_cost


def what_matters(pod: PodRecord | None) -> tuple[object, ...] | None:
    """The properties of a pod whose change is reported for its node."""
    return None if pod is None else (*_presence(pod), pod.do_not_disrupt)


def is_pod_event(before: PodRecord | None, after: PodRecord | None) -> bool:
    """Whether a pod came, ended, began to end or went away, from which consolidateAfter counts.

    The object of a pod that has ended may change or go away hours later, which is none.
    """
    if after is None:
        return before is not None and not before.terminal
    if before is None or before.uid != after.uid:
        return True
    return not before.terminal and _presence(before) != _presence(after)


def _presence(pod: PodRecord) -> tuple[object, ...]:
    return (pod.uid, pod.node_name, pod.terminal, pod.deleting)
