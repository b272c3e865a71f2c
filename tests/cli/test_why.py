"""``tenon why`` with only a record: nodes, pods and workflows are gone. `tests/e2e/test_why.py` has all sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from typer.testing import CliRunner, Result

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import PODS
from cli.why import app, simulate_pod
from cli.why_reading.kubernetes import KubernetesReader
from tenon.evolve import evolve
from tenon.kube.pool_reasons import NoPlace, Obstacle, ObstacleKind
from tenon.record.lines import line_of
from tenon.record.why.answer import FactSource
from tenon.record.why.node_life import NodeEvent
from tenon.record.why.pod import PodFacts, PodSources, needs_simulation, why_pod
from tenon.simulation.document import no_place_entry
from tests.activities.node.fake_kube import Clock, FakeKube, stamp
from tests.tenon.record.why.stories import CLAIM, COMMAND, COMMAND_END, INSTANCE, NODE, STORY, after

Tenon = Callable[..., Result]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither an API server nor a cluster is known."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("TENON_SANDBOX_DIR", str(tmp_path / "no-sandbox"))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("CLUSTER_NAME", "TENON_RECORD", "RECORD_SINKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tenon(alone: None, tmp_path: Path) -> Tenon:
    """Runs ``tenon why`` on the record of a story."""
    path = tmp_path / "record.jsonl"
    path.write_text("".join(f"{line_of(entry)}\n" for entry in [*STORY, COMMAND, COMMAND_END]))
    start = ("--record", str(path), "--since", "2026-01-01T00:00:00Z")
    return lambda *arguments: CliRunner().invoke(app, [*start, *arguments])


@pytest.mark.parametrize("name", [CLAIM, NODE, INSTANCE, NODE.partition(".")[0], f"node/{NODE}", f"nodeclaim/{CLAIM}"])
def test_a_node_that_is_gone_is_known_by_each_of_its_names(tenon: Tenon, name: str) -> None:
    done = tenon(name)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"NodeClaim {CLAIM} ({NODE}, {INSTANCE}) of NodePool default is gone since 2026-11-26")
    assert (
        "  2026-11-26 12:00:00  batch 1 of provisioner created it for 2 pods: shop/web-1, shop/web-2  [record]" in lines
    )
    assert any("ForceDrain: the disk is slow (OPS-7) (alice with tenon node)  [record]" in line for line in lines)
    assert any("planned while it left, created default-x2" in line for line in lines)
    assert "batch 3" not in done.stdout, "that plan came much later"
    assert "Temporal: not asked, because no cluster is named: use --cluster." in lines


def test_a_pod_and_a_node_pool_that_are_gone_are_known(tenon: Tenon) -> None:
    for name in ("shop/web-1", "pod/shop/web-1"):
        done = tenon(name)
        assert done.exit_code == 0, done.output
        assert f"batch 1 created NodeClaim {CLAIM} for it" in done.stdout
    for name in ("default", "nodepool/default"):
        done = tenon(name)
        assert done.exit_code == 0, done.output
        assert "InsufficientCapacity: 1 refusal" in done.stdout


def test_scripts_get_the_same_as_json(tenon: Tenon) -> None:
    answer = json.loads(tenon(NODE, "-o", "json").stdout)
    assert (answer["kind"], answer["name"]) == ("node", CLAIM)
    assert answer["sections"][0]["question"] == "Why was it bought?"
    assert [source["source"] for source in answer["sources"]] == ["record", "Temporal", "Kubernetes"]


def test_what_nobody_knows_is_said_with_what_to_turn_on(tenon: Tenon, alone: None) -> None:
    done = tenon("ip-10-0-0-99")
    assert done.exit_code == 1
    assert done.stdout.startswith("No source knows anything of ip-10-0-0-99.")
    assert "RECORD_SINKS" not in done.stdout
    done = CliRunner().invoke(app, ["shop/web-1"])
    assert done.exit_code == 2
    assert done.stdout.startswith("No source could be asked about shop/web-1.")
    assert "set the worker's RECORD_SINKS to a file or a bucket" in done.stdout


@pytest.mark.parametrize("name", ["", "pod/", "node/", "nodepool/", "pod/shop/", "shop/"])
def test_a_name_that_is_empty_is_refused(alone: None, name: str) -> None:
    """The API server answers such a request with all objects, as if the object existed."""
    done = CliRunner().invoke(app, [name])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "empty" in done.stderr


def test_entries_whose_time_has_no_zone_do_not_count(alone: None, tmp_path: Path) -> None:
    first, *more = STORY
    path = tmp_path / "record.jsonl"
    entries = [*more, evolve(first, id="x", at=first.at.replace(tzinfo=None))]
    path.write_text("".join(f"{line_of(entry)}\n" for entry in entries))
    done = CliRunner().invoke(app, [NODE, "--record", str(path), "--since", "2026-01-01T00:00:00Z"])
    assert done.exit_code == 0, done.output
    assert "; 1 entry of the record has a time without a zone, and does not count." in done.stdout


def test_a_record_that_cannot_be_read_is_a_note(alone: None, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [NODE, "--record", str(tmp_path / "missing.jsonl")])
    assert done.exit_code == 2
    assert done.stdout.startswith(f"No source could be asked about {NODE}.")
    assert "missing.jsonl cannot be read: No such file or directory." in done.stdout


PENDING = PodSources("shop/new", PodFacts("Pending"))
DOCUMENT = {
    "unschedulable": [
        no_place_entry("shop/huge", NoPlace.in_pool("default", Obstacle(ObstacleKind.REQUESTS, "no type has 5000 CPU")))
    ],
    "nodeClaims": [
        {"nodePool": "default", "offering": {"instanceType": "m5.large"}, "pods": ["shop/new"]},
    ],
    "existingNodes": [{"name": "n1", "pods": ["shop/small"]}],
}


@pytest.mark.parametrize(
    ("pod", "question", "sentence"),
    [
        ("shop/huge", "Why is it pending?", "NodePool default: no type has 5000 CPU"),
        ("shop/new", "What does it wait for?", "the next plan: m5.large of NodePool default would be bought for it"),
        ("shop/small", "What does it wait for?", "the next plan: it has room on n1"),
    ],
)
def test_a_pod_of_which_nothing_is_said_is_simulated(
    monkeypatch: pytest.MonkeyPatch, pod: str, question: str, sentence: str
) -> None:
    """As while Tenon does not run."""
    monkeypatch.setattr(
        "cli.simulating.simulation.simulated", lambda scope: SimpleNamespace(document=DOCUMENT, live=scope.live)
    )
    sources = replace(PENDING, key=pod)
    assert needs_simulation(sources)
    answer = why_pod(simulate_pod(sources)[0])
    lines = [line for section in answer.sections if section.question == question for line in section.lines]
    assert (lines[-1].text, lines[-1].source) == (sentence, FactSource.SIMULATION)
    assert [line.text for line in lines[:-1]] == (["No node is bought for the pod:"] if "no type" in sentence else [])


def test_a_pod_of_which_something_is_said_is_not_simulated() -> None:
    event = NodeEvent(after(1), "FailedScheduling", "NodePool default: no")
    assert not needs_simulation(replace(PENDING, events=[event]))
    assert not needs_simulation(replace(PENDING, claim=CLAIM))
    assert not needs_simulation(replace(PENDING, key="shop/web-1", entries=STORY))
    assert not needs_simulation(replace(PENDING, pod=PodFacts("Pending", gated=True)))
    assert not needs_simulation(replace(PENDING, pod=PodFacts("Running", node="n1")))
    assert not needs_simulation(replace(PENDING, pod=None))


@pytest.mark.parametrize(("status", "bound"), [("True", after(90)), ("False", None)])
async def test_the_time_at_which_a_pod_was_bound_is_read(status: str, bound: datetime | None) -> None:
    """Not that of the last attempt of kube-scheduler that failed."""
    kube = FakeKube(Clock())
    condition = {"type": "PodScheduled", "status": status, "lastTransitionTime": stamp(after(90))}
    kube.add(PODS, {"metadata": {"name": "web-1", "namespace": "shop"}, "status": {"conditions": [condition]}})
    facts, _ = await KubernetesReader(cast("Kube", kube)).pod("shop", "web-1")
    assert facts is not None
    assert facts.bound == bound
