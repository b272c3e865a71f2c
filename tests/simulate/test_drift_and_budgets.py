"""What a changed NodePool replaces, and when its budgets let it, as ``--disruption`` shows it (DIS-70, DIS-72, NP-19).

A budget with reasons holds back only these. A budget with a schedule holds nothing back outside of it, as in Karpenter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenon.apis.hashing import nodepool_hashes
from tenon.apis.nodepool import NodePool
from tests.simulate.test_disruption import WHEN_EMPTY, claimed, disrupted, narrowed

HASHES = nodepool_hashes(NodePool.model_validate(yaml.safe_load(WHEN_EMPTY)))


def requiring(requirement: str) -> str:
    return WHEN_EMPTY.replace("requirements: [", f"requirements: [{requirement}, ")


def in_template(field: str) -> str:
    return WHEN_EMPTY.replace("      nodeClassRef", f"      {field}\n      nodeClassRef")


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        (WHEN_EMPTY.replace("[on-demand]", "[spot]"), "RequirementsDrifted"),
        (
            requiring("{key: node.kubernetes.io/instance-type, operator: NotIn, values: [m5.xlarge]}"),
            "RequirementsDrifted",
        ),
        (requiring("{key: team, operator: In, values: [a]}"), "RequirementsDrifted"),
        (in_template("expireAfter: 10h"), "NodePoolDrifted"),
        (in_template("startupTaints: [{key: a, effect: NoSchedule}]"), "NodePoolDrifted"),
    ],
    ids=["capacity type", "an excluded type", "a label that the node lacks", "expireAfter", "startupTaints"],
)
def test_dis70_dis72_a_change_that_concerns_nodes_replaces_them(tmp_path: Path, pool: str, why: str) -> None:
    answer = disrupted(tmp_path, pool + claimed(HASHES), form="table")
    assert why in answer.out
    (command,) = disrupted(tmp_path, pool + claimed(HASHES)).plan["disruption"]
    assert (command["reason"], command["candidates"]) == ("Drifted", ["n1"])


@pytest.mark.parametrize(
    "pool",
    [
        WHEN_EMPTY.replace("[on-demand]", "[on-demand, spot]"),
        WHEN_EMPTY.replace("spec:\n", "spec:\n  weight: 5\n  limits: {cpu: 100}\n", 1),
        WHEN_EMPTY.replace("nodes: 100%", "nodes: 50%"),
        requiring("{key: team, operator: NotIn, values: [a]}"),
        narrowed("us-west-2a"),
    ],
    ids=["widened", "weight and limits", "budgets", "excludes a label that the node lacks", "narrowed to its zone"],
)
def test_dis70_dis72_a_change_that_the_nodes_meet_replaces_none(tmp_path: Path, pool: str) -> None:
    assert disrupted(tmp_path, pool + claimed(HASHES)).plan["disruption"] == []


def test_dis72_a_drifted_node_stays_if_its_pods_have_no_other_place(tmp_path: Path) -> None:
    (stays,) = disrupted(tmp_path, in_template("taints: [{key: a, effect: NoSchedule}]") + claimed(HASHES)).plan[
        "staying"
    ]
    assert "its taint a:NoSchedule is not tolerated" in stays["why"][0]


NEVER = {"nodes": "0"}
NOON = {"schedule": "0 11 * * *", "duration": "2h"}
"""In force at the time of the tests, Thursday noon."""


@pytest.mark.parametrize(
    ("budgets", "leaves"),
    [
        ([{**NEVER, "reasons": ["Drifted"], **NOON}], False),
        ([{**NEVER, "reasons": ["Drifted"], "schedule": "0 13 * * *", "duration": "3h"}], True),
        ([{"nodes": "90%", "reasons": ["Drifted"], "schedule": "0 13 * * *", "duration": "3h"}], True),
        ([{**NEVER, "reasons": ["Underutilized", "Empty"]}], True),
        ([{"nodes": "100%"}, {**NEVER, "reasons": ["Drifted"]}], False),
        ([{"nodes": "1", "reasons": ["Drifted"]}, NEVER], False),
        ([{**NEVER, "schedule": "0 23 * * *", "duration": "14h"}], False),
        ([{**NEVER, "schedule": "0 23 * * *", "duration": "12h"}], True),
        ([{**NEVER, "schedule": "0 0 * * sat-sun", "duration": "24h"}], True),
        ([{**NEVER, "schedule": "0 0 * * mon-fri", "duration": "24h"}], False),
        ([{**NEVER, "schedule": "@weekly", "duration": "24h"}], True),
        ([{"nodes": "1%"}], True),
        ([{"nodes": "0%"}], False),
        ([], True),
    ],
    ids=[
        "the window is open",
        "the window is closed",
        "a window that was meant as the only one",
        "of other reasons",
        "the strictest of two",
        "one for all reasons is the strictest",
        "from the night before until 13:00",
        "from the night before until 11:00",
        "weekends",
        "weekdays",
        "once a week",
        "percentages are rounded up",
        "none",
        "the default of 10 %",
    ],
)
def test_np19_np20_a_budget_holds_drift_back_only_in_its_window_and_for_its_reasons(
    tmp_path: Path, budgets: list[dict[str, Any]], leaves: bool
) -> None:
    pool = narrowed("us-west-2b").replace(
        ", budgets: [{nodes: 100%}]", f", budgets: {json.dumps(budgets)}" if budgets else ""
    )
    plan = disrupted(tmp_path, pool + claimed(HASHES)).plan
    assert [command["reason"] for command in plan["disruption"]] == (["Drifted"] if leaves else [])
    if not leaves:
        assert "of its 1 node to be disrupted for Drifted" in " ".join(plan["staying"][0]["why"])


ROLLOUT = """
---
apiVersion: tenon.sh/v1alpha1
kind: NodeRollout
metadata: {name: careful}
spec: {strategy: {waves: ["1", "100%"]}}
"""


def test_a_rollout_shows_which_wave_replaces_which_node(tmp_path: Path) -> None:
    """The node itself stays until the rollout has begun, and the waves say when its turn is."""
    changed = in_template("expireAfter: 10h") + claimed(HASHES) + ROLLOUT
    plan = disrupted(tmp_path, changed).plan
    assert plan["disruption"] == []
    waves = [
        {"wave": 1, "goal": "1", "zone": "", "nodeClaims": ["c1"]},
        {"wave": 2, "goal": "100%", "zone": "", "nodeClaims": []},
    ]
    assert plan["rollouts"] == [{"nodeRollout": "careful", "nodePool": "default", "phase": "Settled", "waves": waves}]
    table = disrupted(tmp_path, changed, form="table").out
    assert "NodeRollout careful, NodePool default (Settled)" in table
    assert "rollouts" not in disrupted(tmp_path, WHEN_EMPTY + claimed(HASHES) + ROLLOUT).plan, "nothing is outdated"
