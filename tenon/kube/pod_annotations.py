"""What is wrong with the annotations by which a pod's owner asks something of disruption.

Kubernetes accepts any text in an annotation, so a mistyped one is noticed only if somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenon.apis import labels
from tenon.kube.event_reasons import EventReason
from tenon.kube.protection import is_invalid_value
from tenon.kube.records import PodRecord, whole_number


def annotation_mistakes(pod: PodRecord, *, deletion_costs_managed: bool) -> Iterator[tuple[EventReason, str]]:
    """Yield the reason and the message of an event about each annotation that cannot be read (EVT-06, N15-212).

    ``deletion_costs_managed``: Tenon writes pod-deletion-cost itself, so that it is no wish of the pod's owner.
    """
    if mistake := protection_mistake(pod):
        yield EventReason.INVALID_DO_NOT_DISRUPT, mistake
    if pod.disruption_cost is not None:
        name, value = labels.DISRUPTION_COST, pod.disruption_cost
    elif pod.deletion_cost is not None and not deletion_costs_managed:
        name, value = labels.POD_DELETION_COST, pod.deletion_cost
    else:
        return
    if whole_number(value) is None:
        text = f"annotation {name}={value} counts as 0: it must be a whole number from -2147483648 to 2147483647"
        yield EventReason.INVALID_DISRUPTION_COST, text


def protection_mistake(pod: PodRecord) -> str:
    """Return why the pod's annotation do-not-disrupt is ignored, in a sentence; empty if it is not."""
    if not is_invalid_value(pod.do_not_disrupt):
        return ""
    return f"annotation {labels.DO_NOT_DISRUPT}={pod.do_not_disrupt} is ignored: it must be true or a duration like 30m"
