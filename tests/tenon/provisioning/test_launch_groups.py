"""Equal NodeClaims of one batch launch as a group (rule 2 of docs/design.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis import labels
from tenon.messages.launch import LaunchGroup
from tenon.provisioning.launch_groups import MAX_MEMBERS, annotate, group_of, group_token, whole_groups


def body(name: str, cpu: str = "1", **annotations: str) -> dict[str, Any]:
    planned = {labels.PLANNED_PODS: f"web/{name}=u", labels.PLANNED_REQUESTS: "{}", labels.EXPLANATION: name}
    return {
        "metadata": {"name": name, "labels": {labels.BATCH: "7"}, "annotations": {**planned, **annotations}},
        "spec": {"resources": {"requests": {"cpu": cpu}}},
    }


def places(*bodies: dict[str, Any]) -> list[str]:
    annotate(bodies, 7)
    return [body["metadata"]["annotations"].get(labels.LAUNCH_GROUP, "") for body in bodies]


def test_equal_claims_are_a_group_whichever_pods_they_are_for() -> None:
    assert places(body("a"), body("b", "2"), body("c"), body("d", "2")) == ["7-0/0/2", "7-1/0/2", "7-0/1/2", "7-1/1/2"]


def test_a_claim_that_is_like_no_other_has_no_group() -> None:
    relaxed = {labels.MIN_VALUES_RELAXED: "true"}
    assert places(body("a"), body("b", "2"), body("c", **relaxed)) == ["", "", ""]


def test_a_group_has_bounded_size() -> None:
    names = places(*(body(f"n-{number}") for number in range(MAX_MEMBERS + 2)))
    assert names[0] == f"7-0/0/{MAX_MEMBERS}"
    assert names[-2:] == ["7-1/0/2", "7-1/1/2"]
    assert len(set(names)) == len(names)


def test_a_claim_says_its_place() -> None:
    assert group_of({labels.LAUNCH_GROUP: "7-0/3/20"}) == LaunchGroup(id="7-0", ordinal=3, size=20)


@pytest.mark.parametrize(
    "text", ["", "7-0", "7-0/1", "7-0/a/2", "7-0/2/2", "7-0/-1/2", "/0/2", "7-0/0/99999", "a/b/c/d"]
)
def test_what_cannot_be_read_is_no_group(text: str) -> None:
    assert group_of({labels.LAUNCH_GROUP: text}) is None


def test_members_share_a_token_and_groups_do_not() -> None:
    first, second = (LaunchGroup(id="7-0", ordinal=place, size=2) for place in (0, 1))
    other = LaunchGroup(id="7-1", ordinal=0, size=2)
    assert group_token("c", first) == group_token("c", second)
    assert len({group_token("c", first), group_token("c", other), group_token("d", first)}) == 3
    assert len(group_token("c", first)) <= 64


def test_a_group_is_whole_when_all_its_members_are_there() -> None:
    bodies = [body("a"), body("b"), body("c", "2")]
    annotate(bodies, 7)
    annotations = [body["metadata"]["annotations"] for body in bodies]
    assert whole_groups(annotations[:1]) == []
    assert whole_groups(annotations) == ["7-0"]
