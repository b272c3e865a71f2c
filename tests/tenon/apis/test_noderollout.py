"""NodeRollouts that are accepted or refused."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.noderollout import NodeRollout
from tenon.apis.validation import parse
from tests.tenon.apis.case import edited

BASE: dict[str, Any] = {
    "apiVersion": "tenon.sh/v1alpha1",
    "kind": "NodeRollout",
    "metadata": {"name": "case"},
    "spec": {},
}
QUERY = {"name": "errors", "address": "http://prometheus:9090", "query": "sum(errors)", "max": "0.01"}
WINDOW = {"schedule": "0 9 * * 1-5", "duration": "8h"}


def with_query(**edits: Any) -> dict[str, Any]:
    return {"gates": {"prometheus": [QUERY | edits]}}


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {"nodePoolSelector": {}},
        {"nodePoolSelector": {"matchLabels": {"team": "ml"}}, "onFailure": "Rollback"},
        {"strategy": {"waves": ["100%"], "order": "NodePool", "soak": "0s", "maxUnavailable": "3"}},
        {"gates": {"approval": [1, 3.0], "restarts": "Ignore"}},
        with_query(min="0", max="0"),
        with_query(address="https://prometheus.example.com/base"),
        {"windows": [WINDOW, WINDOW | {"timezone": "Europe/Berlin"}]},
    ],
    ids=str,
)
def test_accepted(edits: dict[str, Any]) -> None:
    rollout, problems = parse(NodeRollout, edited(BASE, edits))
    assert rollout is not None
    assert problems == []


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"strategy": {"waves": ["1", "50%"]}}, "spec.strategy: the last wave must be 100%"),
        ({"strategy": {"waves": []}}, "spec.strategy.waves"),
        ({"strategy": {"waves": ["0", "100%"]}}, "spec.strategy.waves[0]"),
        ({"strategy": {"waves": ["110%", "100%"]}}, "spec.strategy.waves[0]"),
        ({"strategy": {"order": "Rack"}}, "spec.strategy.order"),
        ({"strategy": {"soak": "Never"}}, "spec.strategy.soak"),
        ({"gates": {"approval": [0]}}, "spec.gates.approval[0]"),
        ({"gates": {"prometheus": [QUERY, QUERY]}}, "two Prometheus queries have the same name"),
        (with_query(max=None), "a query needs min, max or both"),
        (with_query(min="2"), "spec.gates.prometheus[0]: min 2 is above max 0.01"),
        (with_query(address="prometheus:9090"), "spec.gates.prometheus[0].address"),
        (with_query(address="http://me:secret@prometheus"), "spec.gates.prometheus[0].address"),
        ({"onFailure": "Retry"}, "spec.onFailure"),
        ({"windows": [WINDOW | {"timezone": "Mars/Base"}]}, "spec.windows[0].timezone: 'Mars/Base' is not an IANA"),
        ({"windows": [WINDOW | {"schedule": "0 0 30 2 *"}]}, "spec.windows[0].schedule: '0 0 30 2 *' names no day"),
    ],
    ids=str,
)
def test_refused(edits: dict[str, Any], why: str) -> None:
    _, problems = parse(NodeRollout, edited(BASE, edits))
    assert any(why in str(problem) for problem in problems), problems


def test_an_absent_selector_makes_the_default_rollout() -> None:
    default, _ = parse(NodeRollout, BASE)
    every, _ = parse(NodeRollout, edited(BASE, {"nodePoolSelector": {}}))
    assert default is not None
    assert every is not None
    assert default.spec.node_pool_selector is None
    assert every.spec.node_pool_selector is not None
