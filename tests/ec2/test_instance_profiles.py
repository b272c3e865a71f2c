"""ACT-05: which instance profiles of earlier roles go."""

from __future__ import annotations

import pytest

from tenon.apis import labels
from tenon.ec2.nodeclass.instance_profiles import unused_profiles
from tenon.kube.claim_record import ClaimRecord


def claim(profile: str) -> ClaimRecord:
    return ClaimRecord.of(
        {"metadata": {"name": "a", "annotations": {labels.INSTANCE_PROFILE: profile} if profile else {}}}
    )


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [([], ["new", "old"]), (["old", "current"], ["new"]), (["old", "new"], []), (["current", ""], [])],
    ids=["no node", "one is used", "both are used", "a node may have any"],
)
def test_act05_a_profile_that_no_node_has_is_unused(profiles: list[str], expected: list[str]) -> None:
    assert unused_profiles(["old", "new"], [claim(profile) for profile in profiles], []) == expected


def test_act05_a_profile_of_a_recorded_version_is_used() -> None:
    assert unused_profiles(["old", "new"], [], ["old", ""]) == ["new"]
