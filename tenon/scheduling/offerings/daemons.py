"""The room that DaemonSets take on new nodes, per instance type. Only DaemonSets that will run on a node count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import OFFERING_KEYS
from tenon.scheduling.offerings.type_table import TypeTable
from tenon.scheduling.pods.pod_classes import NO_TERM, Amounts, PodClass
from tenon.scheduling.pods.topology import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Daemon:
    """A DaemonSet, represented by its template pod."""

    name: str
    pod_class: PodClass
    groups: frozenset[int] = frozenset()
    """The groups of rules between pods that its pods take part in, as in `DaemonRules`."""


class Launchable(Protocol):
    """The part of a template that this module needs."""

    requirements: Requirements
    known_labels: frozenset[str]

    def offers_for(self, requirements: Requirements) -> dict[int, int]:
        """Map each offer (a zone and capacity type) to the types on it that satisfy the requirements."""
        ...


def read_daemons(pods: Iterable[Pod], names: tuple[str, ...], topology: Topology) -> list[Daemon]:
    """The DaemonSets of a batch, sorted by name."""
    return [
        Daemon(
            pod.key,
            PodClass(
                (pod,),
                tuple(pod.requests.get(name, 0) for name in names),
                pod.required_terms or NO_TERM,
                pod.tolerations,
                pod.host_ports,
            ),
            topology.on_daemon(pod) if topology.of_daemons else frozenset(),
        )
        for pod in sorted(pods, key=lambda pod: (pod.key, pod.uid))
    ]


def deciding_labels(daemons: Iterable[Daemon], requirements: Requirements, table: TypeTable) -> tuple[str, ...]:
    """Labels that DaemonSets select on, and that neither the pool nor the instance type alone determines."""
    label_keys = {key for daemon in daemons for term in daemon.pod_class.terms for key in term}
    return tuple(key for key in sorted(label_keys) if key in OFFERING_KEYS or _chosen_of_some(key, requirements, table))


def may_run_nowhere(daemons: Iterable[Daemon], requirements: Requirements, table: TypeTable) -> bool:
    """Whether pods may require a label so that a DaemonSet, which would run on a node otherwise, does not run there."""
    label_keys = {key for daemon in daemons for term in daemon.pod_class.terms for key in term}
    return any(
        key in requirements
        and not table.decides(key)
        and (requirements[key].complement or len(requirements[key].members) > 1)
        for key in label_keys
    )


def _chosen_of_some(key: str, requirements: Requirements, table: TypeTable) -> bool:
    """Whether a node gets one of several values that its pool lists."""
    if key not in requirements or table.decides(key):
        return False
    listed = requirements[key]
    return not listed.complement and len(listed.members) > 1


def overhead_groups(
    template: Launchable, requirements: Requirements, daemons: Sequence[Daemon], no_overhead: Amounts
) -> tuple[list[tuple[Daemon, int]], list[tuple[int, Amounts]]]:
    """Return the types that each DaemonSet may run on, and groups of types by what DaemonSets take of them together.

    DaemonSets may depend on the zone or the capacity type. A type is then in one group per sum that occurs.
    ``no_overhead`` is the amounts without any DaemonSet.
    """
    running = [(daemon, _places_of(template, requirements, daemon)) for daemon in daemons]
    running = [(daemon, places) for daemon, places in running if places]
    groups: dict[Amounts, int] = {}
    for offer, types in template.offers_for(requirements).items():
        split: dict[Amounts, int] = {no_overhead: types}
        for daemon, places in running:
            split = _add(split, daemon.pod_class.amounts, places.get(offer, 0))
        for overhead, group_types in split.items():
            groups[overhead] = groups.get(overhead, 0) | group_types
    anywhere = [(daemon, _union(places.values())) for daemon, places in running]
    return anywhere, [(groups[overhead], overhead) for overhead in sorted(groups, reverse=True)]


def types_without(daemons: Iterable[tuple[Daemon, int]], avoided: frozenset[int]) -> int:
    """Types on which no DaemonSet runs that takes part in one of the groups, as a mask to apply to other types."""
    remaining_types = -1
    for daemon, types in daemons:
        if daemon.groups & avoided:
            remaining_types &= ~types
    return remaining_types


def types_with(template: Launchable, requirements: Requirements, daemons: Iterable[Daemon], group: int) -> int:
    """Types on which a DaemonSet of the group runs, whichever way a node with these requirements is bought."""
    offers = template.offers_for(requirements)
    matching_types = 0
    for daemon in daemons:
        if group in daemon.groups:
            places = _places_of(template, requirements, daemon)
            offered_types = _union(offers.values())
            matching_types |= offered_types & ~_union(types & ~places.get(offer, 0) for offer, types in offers.items())
    return matching_types


def _add(groups: dict[Amounts, int], amounts: Amounts, where: int) -> dict[Amounts, int]:
    split: dict[Amounts, int] = {}
    for overhead, group_types in groups.items():
        if away := group_types & ~where:
            split[overhead] = split.get(overhead, 0) | away
        if with_daemon := group_types & where:
            new_overhead = tuple(map(int.__add__, overhead, amounts))
            split[new_overhead] = split.get(new_overhead, 0) | with_daemon
    return split


def _union(sets: Iterable[int]) -> int:
    union = 0
    for types in sets:
        union |= types
    return union


def _places_of(template: Launchable, requirements: Requirements, daemon: Daemon) -> dict[int, int]:
    """Map each offer to the types on which the DaemonSet may run, on a node with these requirements, by any term."""
    places: dict[int, int] = {}
    for term in daemon.pod_class.terms:
        if template.requirements.conflict(term, template.known_labels) is None:
            together = requirements.with_(term)
            if not any(together[key].contradicts() for key in term):
                for offer, types in template.offers_for(together).items():
                    places[offer] = places.get(offer, 0) | types
    return places
