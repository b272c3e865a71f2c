"""Which NodeClaims of one batch are launched by one request, and which of its instances is whose.

Claims that ask EC2 for the same are a group. Each carries its group, its place in it and the group's size from the
moment it is written, so that every claim finds its own instance whatever process died in between: the instances of a
group, sorted by id, belong to its members in the order of their places.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tenon.apis import labels
from tenon.lifecycle.messages import LaunchGroup

MOST_MEMBERS = 100
"""Members of one group: an answer of EC2 stays small, and a request that fails leaves few claims waiting."""
OF_ITS_PODS = frozenset({labels.PLANNED_PODS, labels.PLANNED_REQUESTS, labels.EXPLANATION})
"""Annotations in which claims that launch alike may differ."""


def annotate(bodies: Sequence[dict[str, Any]], batch: int) -> None:
    """Writes its group on each NodeClaim of a batch that is not alone. The same bodies get the same groups."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for body in bodies:
        alike.setdefault(_what_it_asks_for(body), []).append(body)
    number = 0
    for members in alike.values():
        for start in range(0, len(members), MOST_MEMBERS):
            chunk = members[start : start + MOST_MEMBERS]
            if len(chunk) == 1:
                continue
            for ordinal, body in enumerate(chunk):
                place = f"{batch}-{number}/{ordinal}/{len(chunk)}"
                body["metadata"]["annotations"][labels.LAUNCH_GROUP] = place
            number += 1


def group_of(annotations: Mapping[str, str]) -> LaunchGroup | None:
    """The group that a NodeClaim's annotations name; None when they name none, or not readably."""
    name, _, place = annotations.get(labels.LAUNCH_GROUP, "").partition("/")
    ordinal, _, size = place.partition("/")
    if not (name and ordinal.isdecimal() and size.isdecimal()):
        return None
    group = LaunchGroup(id=name, ordinal=int(ordinal), size=int(size))
    return group if group.ordinal < group.size <= MOST_MEMBERS else None


def group_token(cluster: str, group: LaunchGroup) -> str:
    """EC2's idempotency token of a group's request. A group's id never repeats in a cluster: batch numbers do not."""
    return hashlib.sha256(f"{cluster}/group/{group.id}/{group.size}".encode()).hexdigest()[:40]


def members_there(claims: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many NodeClaims of each group are there, by the group's id."""
    counts: dict[str, int] = {}
    for claim in claims:
        group = group_of(claim["metadata"].get("annotations") or {})
        if group is not None:
            counts[group.id] = counts.get(group.id, 0) + 1
    return counts


def _what_it_asks_for(body: Mapping[str, Any]) -> str:
    metadata = body["metadata"]
    annotations = {name: value for name, value in metadata["annotations"].items() if name not in OF_ITS_PODS}
    return json.dumps([metadata["labels"], annotations, body["spec"]], sort_keys=True)
