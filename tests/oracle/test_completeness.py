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
    ("manifests", "manifest", "place"),
    [
        ([pool(), pod()], plan(unplaced=("p",)), "bought"),
        ([pool(spec={"limits": {"cpu": "1"}}), node(), pod()], plan(unplaced=("p",)), "n"),
        ([pool(), pod(), pod("q", **AWAY)], plan(claim("p"), unplaced=("q",)), "bought"),
        (
            [pool(), labeled_daemon("agent"), pod(**affinity("podAffinity", (HOST, "agent")))],
            plan(unplaced=("p",)),
            "bought",
        ),
        ([pool(), pod("p", **spread()), pod("q", **spread())], plan(claim("p"), unplaced=("q",)), "bought"),
        ([pool(), pod("p", nodeSelector={ZONE: "b"})], plan(unplaced=("p",)), "bought"),
        ([pool("default", within("team", "red")), pod(nodeSelector={"team": "red"})], plan(unplaced=("p",)), "bought"),
    ],
)
def test_a_pod_that_was_left_out_idly(manifests: list[Object], manifest: Object, place: str) -> None:
    (result,) = left_out(read_inputs(manifests, CATALOGUE), manifest)
    assert result.rule == "left-out"
    assert f"has a place on {place}" in result.text


@pytest.mark.parametrize(
    ("manifests", "manifest"),
    [
        ([pool(), pod(cpu="9")], plan(unplaced=("p",))),
        ([pool(), pod(cpu="7500m"), daemon()], plan(unplaced=("p",))),
        ([pool(spec=FULL), pod(), pod("q")], plan(claim("q"), unplaced=("p",))),
        ([pool("default", within(ZONE, "a")), pod(nodeSelector={ZONE: "b"})], plan(unplaced=("p",))),
        ([pool(), pod(schedulingGates=[{"name": "wait"}])], plan(unplaced=("p",))),
        ([pool(), node(), pod("q", node="n", **affinity("podAntiAffinity", (ZONE, "web"))),
          pod(nodeSelector={ZONE: "a"})], plan(unplaced=("p",))),
        ([pool(), labeled_daemon("agent"), pod(**affinity("podAntiAffinity", (HOST, "agent")))], plan(unplaced=("p",))),
        ([pool(), pod(**affinity("podAffinity", (ZONE, "db")))], plan(unplaced=("p",))),
    ],
)  # fmt: skip
def test_a_pod_that_has_no_place(manifests: list[Object], manifest: Object) -> None:
    assert not judge(manifests, CATALOGUE, manifest)
    assert not list(left_out(read_inputs(manifests, CATALOGUE), manifest))


def test_first_fit_keeps_the_rules_that_it_gets() -> None:
    apart = [pod(name, "100m", **AWAY) for name in "abc"]
    assert placed_by_first_fit([pool(), *apart], CATALOGUE) == 3
    assert placed_by_first_fit([pool(spec={"limits": {"nodes": "2"}}), *apart], CATALOGUE) == 2
    assert placed_by_first_fit([pool(spec={"limits": {"nodes": "1"}}), node(), *apart], CATALOGUE) == 2
    follows = [pod("d", labels={"app": "db"}), pod("w", "3", **affinity("podAffinity", (ZONE, "db")))]
    assert placed_by_first_fit([pool(), *follows], CATALOGUE) == 2
