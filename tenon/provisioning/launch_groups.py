"""Launch groups: the NodeClaims of a batch that launch with one request, and which instance belongs to which claim.

Claims that ask EC2 for the same form a group. Each claim carries its group, its place in the group and the group's size
from the moment it is created, so that it finds its own instance whatever process dies in between. The instances of a
group, sorted by ID, belong to its members in the order of their places.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.launch import LaunchGroup

MAX_MEMBERS = 100
"""The most members of a group. It keeps EC2's answers small, and limits how many claims a failed request delays."""
OF_ITS_PODS = frozenset({labels.PLANNED_PODS, labels.PLANNED_POD_GROUPS, labels.PLANNED_REQUESTS, labels.EXPLANATION})
"""Annotations that may differ between claims of a group."""


def annotate(bodies: Sequence[dict[str, Any]], batch: int) -> None:
    """Write the launch group on each NodeClaim of a batch that shares one. The same bodies get the same groups."""
    claims_by_launch: dict[str, list[dict[str, Any]]] = {}
    for body in bodies:
        claims_by_launch.setdefault(_request_key(body), []).append(body)
    number = 0
    for members in claims_by_launch.values():
        for start in range(0, len(members), MAX_MEMBERS):
            chunk = members[start : start + MAX_MEMBERS]
            if len(chunk) == 1:
                continue
            for ordinal, body in enumerate(chunk):
                place = f"{batch}-{number}/{ordinal}/{len(chunk)}"
                body["metadata"]["annotations"][labels.LAUNCH_GROUP] = place
            number += 1


def group_of(annotations: Mapping[str, str]) -> LaunchGroup | None:
    """Return the group in a NodeClaim's annotations; None if there is none, or it is unreadable."""
    name, _, place = annotations.get(labels.LAUNCH_GROUP, "").partition("/")
    ordinal, _, size = place.partition("/")
    if not (name and ordinal.isdecimal() and size.isdecimal()):
        return None
    group = LaunchGroup(id=name, ordinal=int(ordinal), size=int(size))
    return group if group.ordinal < group.size <= MAX_MEMBERS else None


def group_token(cluster: str, group: LaunchGroup) -> str:
    """Return EC2's idempotency token for a group's request.

    Batch numbers are never reused in a cluster, so neither are group IDs.
    """
    return hashlib.sha256(f"{cluster}/group/{group.id}/{group.size}".encode()).hexdigest()[:40]


def whole_groups(claims: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the IDs of the groups whose members all exist, given the annotations of the existing NodeClaims."""
    groups = [group for annotations in claims if (group := group_of(annotations)) is not None]
    counts = Counter(group.id for group in groups)
    return list(dict.fromkeys(group.id for group in groups if counts[group.id] >= group.size))


def broken_groups(claims: Iterable[ClaimRecord]) -> set[str]:
    """Return the IDs of groups that lost a member before they launched: it is missing, or it is being deleted.

    Their request would buy an instance for it. A group of which a NodeClaim has an instance was launched, so to repeat
    its request buys nothing.
    """
    members: dict[str, list[ClaimRecord]] = {}
    sizes: dict[str, int] = {}
    for claim in claims:
        if (group := group_of(claim.annotations)) is not None:
            members.setdefault(group.id, []).append(claim)
            sizes[group.id] = group.size
    return {
        group
        for group, its_claims in members.items()
        if not any(claim.provider_id for claim in its_claims)
        and sum(not claim.deleting for claim in its_claims) < sizes[group]
    }


def _request_key(body: Mapping[str, Any]) -> str:
    metadata = body["metadata"]
    annotations = {name: value for name, value in metadata["annotations"].items() if name not in OF_ITS_PODS}
    return json.dumps([metadata["labels"], annotations, body["spec"]], sort_keys=True)
