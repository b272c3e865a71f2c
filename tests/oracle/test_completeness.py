"""Pods that a plan leaves out although they have a place, and the simple planner that plans are measured by."""

from __future__ import annotations

import pytest

from tests.oracle.completeness import left_out, placed_by_first_fit
from tests.oracle.inputs import read_inputs
from tests.oracle.judging import judge
from tests.oracle.objects import (
    CATALOGUE,
    HOST,
    ZONE,
    Object,
    affinity,
    claim,
    daemon,
    labeled_daemon,
    node,
    plan,
    pod,
    pool,
    spread,
    within,
)

FULL: Object = {"limits": {"cpu": "8"}}
NEAR: Object = affinity("podAffinity", (HOST, "agent"))
AWAY: Object = affinity("podAntiAffinity", (HOST, "web"))


@pytest.mark.parametrize(
    ("manifests", "made", "place"),
    [
        ([pool(), pod()], plan(left=("p",)), "bought"),
        ([pool(spec={"limits": {"cpu": "1"}}), node(), pod()], plan(left=("p",)), "n"),
        ([pool(), pod(), pod("q", **AWAY)], plan(claim("p"), left=("q",)), "bought"),
        (
            [pool(), labeled_daemon("agent"), pod(**affinity("podAffinity", (HOST, "agent")))],
            plan(left=("p",)),
            "bought",
        ),
        ([pool(), pod("p", **spread()), pod("q", **spread())], plan(claim("p"), left=("q",)), "bought"),
        ([pool(), pod("p", nodeSelector={ZONE: "b"})], plan(left=("p",)), "bought"),
        ([pool("default", within("team", "red")), pod(nodeSelector={"team": "red"})], plan(left=("p",)), "bought"),
    ],
)
def test_a_pod_that_was_left_out_idly(manifests: list[Object], made: Object, place: str) -> None:
    (found,) = left_out(read_inputs(manifests, CATALOGUE), made)
    assert found.rule == "left-out"
    assert f"has a place on {place}" in found.what


@pytest.mark.parametrize(
    ("manifests", "made"),
    [
        ([pool(), pod(cpu="9")], plan(left=("p",))),
        ([pool(), pod(cpu="7500m"), daemon()], plan(left=("p",))),
        ([pool(spec=FULL), pod(), pod("q")], plan(claim("q"), left=("p",))),
        ([pool("default", within(ZONE, "a")), pod(nodeSelector={ZONE: "b"})], plan(left=("p",))),
        ([pool(), pod(schedulingGates=[{"name": "wait"}])], plan(left=("p",))),
        ([pool(), node(), pod("q", node="n", **affinity("podAntiAffinity", (ZONE, "web"))),
          pod(nodeSelector={ZONE: "a"})], plan(left=("p",))),
        ([pool(), labeled_daemon("agent"), pod(**affinity("podAntiAffinity", (HOST, "agent")))], plan(left=("p",))),
        ([pool(), pod(**affinity("podAffinity", (ZONE, "db")))], plan(left=("p",))),
    ],
)  # fmt: skip
def test_a_pod_that_has_no_place(manifests: list[Object], made: Object) -> None:
    assert not judge(manifests, CATALOGUE, made)
    assert not list(left_out(read_inputs(manifests, CATALOGUE), made))


def test_first_fit_keeps_the_rules_that_it_gets() -> None:
    apart = [pod(name, "100m", **AWAY) for name in "abc"]
    assert placed_by_first_fit([pool(), *apart], CATALOGUE) == 3
    assert placed_by_first_fit([pool(spec={"limits": {"nodes": "2"}}), *apart], CATALOGUE) == 2
    assert placed_by_first_fit([pool(spec={"limits": {"nodes": "1"}}), node(), *apart], CATALOGUE) == 2
    follows = [pod("d", labels={"app": "db"}), pod("w", "3", **affinity("podAffinity", (ZONE, "db")))]
    assert placed_by_first_fit([pool(), *follows], CATALOGUE) == 2
