"""Finds where a group of pods with required affinity may start so that the other pods of the batch can follow.

The first pod of a group decides the domain of all others. If it chose for itself alone, a pod that a GPU, a volume or a
selector binds to another domain could never join.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.pods.pod_classes import PodClass, combined
from tenon.scheduling.pods.topology_groups import HOSTNAME

MAX_TERMS = 64
"""How many combinations of the members' node terms to try on a shared node."""

Follower = tuple[PodClass, str]
"""A class that needs a pod of the group, and the topology key of its term."""


class GroupStarts:
    """Which classes of a batch wait for which affinity groups."""

    def __init__(self, classes: Iterable[PodClass]) -> None:
        """Take the classes without their preferences."""
        self._followers: dict[int, list[Follower]] = {}
        for pod_class in classes:
            area = pod_class.area.affine if pod_class.area is not None else ()
            keys = {term.group: term.key for term in area} | {term.group: HOSTNAME for term in pod_class.near}
            for group, key in keys.items():
                self._followers.setdefault(group, []).append((pod_class, key))

    def followers(self, pod_class: PodClass, totals: Mapping[int, int]) -> list[Follower]:
        """The other classes that need a pod like these, and a group that has no pod yet."""
        if not self._followers or pod_class.part is None:
            return []
        return [
            follower
            for group in pod_class.part.counted
            if not totals.get(group)
            for follower in self._followers.get(group, ())
            if follower[0].origin is not pod_class.origin
        ]


def shared_node(form: PodClass, company: Sequence[PodClass], fleet: Fleet) -> PodClass | None:
    """Narrow pods that open a node to terms under which the node can also take the pods that must join them.

    Considers all pods together, or one of each class if no node holds them all. None if no node of the fleet can.
    """
    template = fleet.template
    if not all(member.tolerates(template.pool.taints) for member in company):
        return None
    terms = form.terms
    for member in company:
        terms = tuple(islice(combined(terms, member.terms), MAX_TERMS))
    together = (form, *company)
    for counts in ([len(member.pods) for member in together], [1] * len(together)):
        amounts = [
            sum(count * member.amounts[number] for count, member in zip(counts, together, strict=True))
            for number in range(len(form.amounts))
        ]
        ports = [port for member in together for port in member.ports]
        usable = tuple(
            term
            for term in terms
            if any(
                template.fitting(state, amounts) & ~template.blocked(state, ports)
                for state in template.successors(template.start, form.narrowed((term,)))
            )
        )
        if usable:
            return form.narrowed(usable)
    return None
