"""Settles the requirements of a planned node: gives values to open labels, and writes down lowered minValues."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain

from tenon.kube.pod import Pod
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.template import Template

_MAX_INT = 2**31 - 1


def with_default_values(
    template: Template, requirements: Requirements, lowered: Mapping[str, int], pods: Sequence[Pod]
) -> Requirements:
    """Return the requirements with lowered minValues, and a value for each of the pool's labels that must have one.

    If any value is allowed, the value depends on the pool and its first pod, so that equal problems give equal plans.
    """
    changed = dict(requirements)
    for key, offered in lowered.items():
        changed[key] = _with_least(changed[key], offered)
    for key in sorted(template.requirements):
        wanted = changed[key]
        if wanted.complement and not wanted.may_be_absent and not template.table.decides(key):
            value = _some_value(wanted, f"{template.pool.name}/{min(pod.uid or pod.key for pod in pods)}")
            changed[key] = wanted.intersection(Requirement.new(key, IN, (value,)))
    return Requirements(changed)


def _with_least(wanted: Requirement, least: int) -> Requirement:
    return Requirement(
        wanted.key,
        wanted.complement,
        wanted.members,
        gte=wanted.gte,
        lte=wanted.lte,
        min_values=least or None,
        may_be_absent=wanted.may_be_absent,
    )


def _some_value(wanted: Requirement, seed: str) -> str:
    """A whole number that the requirement allows. Equal seeds give equal numbers; different seeds mostly do not."""
    low = max(0, wanted.gte or 0)
    high = wanted.lte if wanted.lte is not None else low + _MAX_INT
    start = int.from_bytes(hashlib.sha256(f"{wanted.key}/{seed}".encode()).digest()[:8]) % (high - low + 1)
    span = min(high - low + 1, len(wanted.members) + 1)
    numbers = (str(low + (start + step) % (high - low + 1)) for step in range(span))
    # if the requirement excludes every number by name, it still allows another spelling, with leading zeros
    padded = (f"{'0' * zeros}{low}" for zeros in range(1, len(wanted.members) + 2))
    return next(value for value in chain(numbers, padded) if wanted.has(value))
