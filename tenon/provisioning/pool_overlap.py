"""Finds NodePools that accept the same pods. Which of them gets a node is then arbitrary.

Different weights, different taints, or requirements that no node can meet together separate two pools. Without any of
these, a pod that one of them accepts may also land in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from tenon.apis import labels
from tenon.apis.common import Condition
from tenon.apis.conditions import clear_condition, set_condition
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import OVERLAPPING, NodePool
from tenon.ec2.families import family_of
from tenon.kube.requirements import Requirements
from tenon.rollout.revisions import class_key
from tenon.sentences import first_few, plural

REASON = "SamePodsSameWeight"
_NAMED = 5
"""How many pools a sentence names."""

_WeightAndTaints = tuple[int, frozenset[tuple[str, str, str]]]


FindClass = Callable[[str], EC2NodeClass | None]


def _no_class(name: str) -> None:
    """Without the classes, each may have nodes of any operating system."""


def overlapping(pools: Sequence[NodePool], find_class: FindClass = _no_class) -> dict[str, tuple[str, ...]]:
    """Return the overlapping pools, each with the sorted names of the others. Pools that get no nodes are left out.

    ``find_class`` returns the EC2NodeClass with a name, if it is known. Its AMI family decides the nodes' operating
    system, which separates pools too. The number of comparisons is bounded by the pairs of pools with equal weight and
    taints but different requirements.
    """
    groups: dict[_WeightAndTaints, dict[Requirements, list[str]]] = {}
    for pool in pools:
        if pool.metadata.deletion_timestamp is not None or pool.spec.replicas is not None:
            continue
        requirements = _requirements(pool, find_class(class_key(pool)))
        if requirements is not None:
            pools_by_requirements = groups.setdefault(_weight_and_taints(pool), {})
            pools_by_requirements.setdefault(requirements, []).append(pool.metadata.name)
    overlaps: dict[str, tuple[str, ...]] = {}
    for pools_by_requirements in groups.values():
        for names, others in _pools_by_requirements(pools_by_requirements):
            for name in names:
                rest = sorted(other for other in others if other != name)
                if rest:
                    overlaps[name] = tuple(rest)
    return overlaps


def sentence(others: Sequence[str]) -> str:
    """Say what a pool's overlap with these others means, and what to do about it."""
    pools = f"{plural(len(others), 'NodePool')} {first_few(others, _NAMED)}"
    return (
        f"it takes the same pods as {pools}, at the same weight, so it is undefined which of them serves these pods: "
        "separate the pools by taints or requirements, or give them different weights"
    )


def with_overlap(
    conditions: Sequence[Condition], others: Sequence[str], *, now: datetime, observed_generation: int | None = None
) -> list[Condition]:
    """Set the condition about an overlap with ``others``; remove it if there are none."""
    if not others:
        return clear_condition(conditions, OVERLAPPING)
    return set_condition(
        conditions,
        OVERLAPPING,
        "True",
        now=now,
        reason=REASON,
        message=sentence(others),
        observed_generation=observed_generation,
    )


def notes(overlaps: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line per pool for a person who reads about all overlaps at once. Each pair is mentioned once."""
    lines = []
    for name, others in sorted(overlaps.items()):
        later = [other for other in others if other > name]
        if later:
            lines.append(f"NodePool {name}: {sentence(later)}")
    return lines


def _pools_by_requirements(
    pools_by_requirements: Mapping[Requirements, Sequence[str]],
) -> Iterable[tuple[Sequence[str], list[str]]]:
    """Return the pools of each set of requirements and all pools that a node could belong to, including these."""
    forms = list(pools_by_requirements)
    met = [[*pools_by_requirements[form]] for form in forms]
    for number, form in enumerate(forms):
        for other in range(number):
            if form.intersects(forms[other]):
                met[number] += pools_by_requirements[forms[other]]
                met[other] += pools_by_requirements[form]
    return zip(pools_by_requirements.values(), met, strict=True)


def _weight_and_taints(pool: NodePool) -> _WeightAndTaints:
    """Return weight and taints. Pools that differ in these are separate on purpose."""
    taints = frozenset(
        (taint.key, taint.value, taint.effect)
        for taint in pool.spec.template.spec.taints
        if taint.effect != "PreferNoSchedule"
    )
    return pool.spec.weight or 0, taints


def _requirements(pool: NodePool, node_class: EC2NodeClass | None) -> Requirements | None:
    """Return the pool's requirements on its nodes without its own name and class, which no pod needs to select by.

    Return None if they are invalid or contradict each other: such a pool gets no nodes.
    """
    terms = [term.to_dict() for term in pool.spec.template.spec.requirements]
    try:
        requirements = Requirements.from_terms(terms).with_(
            Requirements.from_labels(pool.spec.template.metadata.labels)
        )
        if node_class is not None:
            requirements = requirements.with_(_operating_system(node_class))
    except ValueError:
        return None
    return None if any(requirement.contradicts() for requirement in requirements.values()) else requirements


def _operating_system(node_class: EC2NodeClass) -> Requirements:
    """Return what the AMI family of the class makes of its nodes."""
    family = family_of(node_class)
    build = family.windows_build
    return Requirements.from_labels({labels.OS: family.os, **({labels.WINDOWS_BUILD: build} if build else {})})
