"""What the sandbox's pods are said to use, as HorizontalPodAutoscalers and `kubectl top` read it."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.metrics import LOAD
from sandbox.metrics.usage import Load, Use, parse_load, usage

SET = {"metadata": {"uid": "set", "ownerReferences": [{"uid": "web", "controller": True}]}}


def deployment(load: str | None = None) -> dict[str, Any]:
    return {"metadata": {"uid": "web", "annotations": {LOAD: load} if load else {}}}


def container(name: str, requests: dict[str, str], limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}}


def pod(name: str, *containers: dict[str, Any], owner: str = "set", phase: str = "Running") -> dict[str, Any]:
    owners = [{"uid": owner, "controller": True}] if owner else []
    return {
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": owners},
        "spec": {"containers": containers or (container("main", {"cpu": "500m", "memory": "64Mi"}),)},
        "status": {"phase": phase},
    }


def millicores(pods: list[dict[str, Any]], load: str | None) -> dict[str, list[int]]:
    result = usage(pods, [SET], [deployment(load)])
    return {key: [use.millicores for use in uses] for key, uses in result.items()}


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("90%", Load(percent=90)),
        ("12.5%", Load(percent=12.5)),
        (" 0% ", Load()),
        ("1500m", Load(millicores=1500)),
        ("1.5", Load(millicores=1500)),
        ("0", Load(millicores=0)),
    ],
)
def test_a_load_is_a_part_of_what_is_requested_or_so_many_cpus(text: str, load: Load) -> None:
    assert parse_load(text) == load


@pytest.mark.parametrize("text", ["", "much", "-1", "90 %", "1Gi", "%"])
def test_what_is_no_load_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="write 90%"):
        parse_load(text)


def test_a_percentage_is_of_each_pods_own_request() -> None:
    assert millicores([pod("a"), pod("b")], "90%") == {"ns/a": [450], "ns/b": [450]}


def test_cpus_are_shared_by_the_pods_that_run() -> None:
    """So an autoscaler that adds pods brings the figure of each down, as in life."""
    pods = [pod("a"), pod("b"), pod("waits", phase="Pending"), pod("stranger", owner="")]
    assert millicores(pods, "1500m") == {"ns/a": [750], "ns/b": [750], "ns/stranger": [0]}


def test_containers_share_by_what_they_request_and_stop_at_their_limits() -> None:
    pair = pod("a", container("big", {"cpu": "300m"}, {"cpu": "400m"}), container("small", {"cpu": "100m"}))
    assert millicores([pair], "1") == {"ns/a": [400, 250]}
    bare = pod("a", container("one", {}), container("two", {}))
    assert millicores([bare], "1") == {"ns/a": [500, 500]}
    assert millicores([bare], "90%") == {"ns/a": [0, 0]}


@pytest.mark.parametrize("load", [None, "nonsense"])
def test_without_a_load_that_can_be_read_pods_are_idle(load: str | None) -> None:
    uses = usage([pod("a")], [SET], [deployment(load)])
    assert uses == {"ns/a": [Use("main", 0, 64 * 2**20)]}
