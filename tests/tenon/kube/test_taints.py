"""Which taints keep which pods away, by the rules of kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.kube.pod_decode import pod_of
from tenon.kube.taints import parse_taints, untolerated


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "a", "value": "1"}, True),
        ({"key": "a", "operator": "Equal", "value": "1", "tolerationSeconds": 5}, True),
        ({"key": "a", "operator": "", "value": "1"}, True),
        ({"key": "a", "value": "2"}, False),
        ({"key": "a"}, False),
        ({}, False),
    ],
)
def test_a_toleration_needs_key_effect_and_value(toleration: dict[str, Any] | None, tolerated: bool) -> None:
    """A taint of a Node, with the time that Kubernetes adds, is the same taint as that of a NodePool."""
    (taint,) = parse_taints([{"key": "a", "value": "1", "effect": "NoSchedule", "timeAdded": "2026-03-01T12:00:00Z"}])
    tolerations = pod_of({"metadata": {"name": "p"}, "spec": {"tolerations": [toleration] if toleration else []}})
    assert (untolerated(tolerations.pod.tolerations, [taint]) is None) is tolerated


def test_a_preference_keeps_no_pod_away() -> None:
    soft, hard = parse_taints([{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoExecute"}])
    assert untolerated((), [soft]) is None
    assert untolerated((), [soft, hard]) == hard
