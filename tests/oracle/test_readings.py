"""Plans that are right as kube-scheduler reads three rules, and wrong as others may read one of them."""

from __future__ import annotations

import pytest

from benchmarks.differences import OTHER, in_words, why
from benchmarks.random_cases import Case
from tests.oracle.inputs import read_inputs
from tests.oracle.judging import between_pods, judge
from tests.oracle.objects import CATALOGUE, REQUIRED, ZONE, Object, claim, node, plan, pod, pool, spread, within
from tests.oracle.readings import KUBE_SCHEDULER

TEAM, RACK = "example.com/team", "example.com/rack"
BOTH_KEYS: Object = {
    "topologySpreadConstraints": [
        constraint for key in (ZONE, RACK) for constraint in spread(key)["topologySpreadConstraints"]
    ]
}
FRONT: Object = {"app": "web", "tier": "front"}
TWO_TERMS: Object = {
    "affinity": {
        "podAffinity": {
            REQUIRED: [
                {"topologyKey": ZONE, "labelSelector": {"matchLabels": {key: value}}} for key, value in FRONT.items()
            ]
        }
    }
}
PLANS: dict[str, tuple[list[Object], Object]] = {
    "own_values": (
        [
            pool("default", within(TEAM, "x", "y")),
            *(pod(n, "500m", nodeSelector={TEAM: "x"}, **spread(TEAM)) for n in "pq"),
        ],
        plan(claim("p", "q", cpu="1", requirements=[within(TEAM, "x")])),
    ),
    "all_keys": (
        [
            pool("default", within(ZONE, "a"), within(RACK, "r")),
            node("n", zone="b"),
            *(pod(name, "500m", **BOTH_KEYS) for name in "pq"),
        ],
        plan(claim("p", "q", cpu="1", requirements=[within(RACK, "r")])),
    ),
    "joint_terms": (
        [pool(), node("n", zone="b"), pod("there", node="n"), pod(labels=FRONT, **TWO_TERMS)],
        plan(claim("p")),
    ),
}
RULES = {"own_values": "spread", "all_keys": "spread", "joint_terms": "pod-affinity"}


@pytest.mark.parametrize("name", PLANS)
def test_one_reading_and_no_other_makes_the_plan_wrong(name: str) -> None:
    manifests, output = PLANS[name]
    assert judge(manifests, CATALOGUE, output) == []
    inputs = read_inputs(manifests, CATALOGUE)
    rules = {
        item: {finding.rule for finding in between_pods(inputs, output, reading)}
        for item, reading in KUBE_SCHEDULER.otherwise()
    }
    assert {key for key, broken in rules.items() if broken and "and" not in key} == {name}
    assert rules[name] == {RULES[name]}


def test_convictions_are_put_down_to_the_reading_that_explains_them() -> None:
    """QRK-04, SCH-061, SCH-063: what nothing explains stands out."""
    events = []
    for name, (manifests, output) in PLANS.items():
        result = why(Case(0, manifests, CATALOGUE), output, [(RULES[name], "it")] * 2)
        assert result == {name: 2}
        events.append(result)
    manifests, output = PLANS["all_keys"]
    odd = why(Case(0, manifests, CATALOGUE), output, [("limits", "it"), ("spread", "it")])
    assert odd == {"all_keys": 1, OTHER: 1}
    text = in_words([*events, odd])
    assert text.startswith("4 plans convicted, 3 of them by readings that differ from kube-scheduler's (1 where ")
    assert text.endswith(", 1 by something other")
