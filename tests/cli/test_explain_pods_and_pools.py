"""``tenon explain pod|nodepool`` from files, and ``tenon pods`` from a cluster: one sentence for each cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import app
from tests.simulate.api_server import ApiServer
from tests.simulate.live_server import server
from tests.simulate.running import POOL, catalogue
from tests.simulate.shared_cluster import NOW, SHARED, node, pod

__all__ = ["server"]


def waiting(name: str, cpu: str, **spec: Any) -> str:
    """A pod that kube-scheduler cannot place."""
    body = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec}
    metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T11:00:00Z"}
    return "\n---\n" + json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})


BUDGET = """
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: a, namespace: default}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: a}}}
"""
FREEZE = """
---
apiVersion: tenon.sh/v1alpha1
kind: DisruptionFreeze
metadata: {name: pause}
spec: {endTime: "2026-01-01T14:00:00Z", reason: release}
"""
_OTHER_NODE = node("n3", "m5.xlarge", "3900m", labels={"kubernetes.io/hostname": "n3"}) + pod("d", "n3")
FILES = (
    SHARED
    + _OTHER_NODE
    + waiting("huge", "5000")
    + waiting("small", "2")
    + pod("c", "n1", labels={"app": "a"})
    + BUDGET
)


def explain(folder: Path, *arguments: str) -> Any:
    file = folder / "input.yaml"
    file.write_text(FILES)
    common = ("-f", str(file), "--catalog", str(catalogue(folder)), "--now", NOW)
    return CliRunner().invoke(app, ["explain", *arguments, *common])


def why(folder: Path, name: str) -> list[str]:
    result = explain(folder, "pod", name, "-o", "json")
    assert result.exit_code == 0, result.output
    sentences: list[str] = json.loads(result.stdout)["why"]
    return sentences


def test_a_pod_that_no_node_can_hold_says_what_each_nodepool_lacks(tmp_path: Path) -> None:
    first, *_ = why(tmp_path, "huge")
    assert first.startswith("No node is bought for the pod: NodePool default: needs 5000 CPU; the largest")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a", "The node belongs to NodePool default, but no NodeClaim says for which pods it was launched"),
        ("d", "The node has no NodeClaim: Tenon did not launch it and does not remove it"),
    ],
)
def test_a_node_without_a_nodeclaim_is_tenons_if_it_is_of_a_nodepool(tmp_path: Path, name: str, sentence: str) -> None:
    assert why(tmp_path, name)[1] == sentence


def test_a_pod_that_waits_says_which_node_it_gets(tmp_path: Path) -> None:
    first, *_ = why(tmp_path, "default/small")
    assert first.startswith("A node is there or on its way for the pod: it fits on n")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a", "It may be evicted: nothing protects it"),
        ("b", "It may not be evicted now, so its node is not disrupted: annotation karpenter.sh/do-not-disrupt"),
        ("c", "It may not be evicted now, so its node is not disrupted: PodDisruptionBudget default/a allows no"),
    ],
)
def test_a_pod_on_a_node_says_where_it_is_and_what_holds_it_there(tmp_path: Path, name: str, sentence: str) -> None:
    sentences = why(tmp_path, name)
    assert sentences[0].startswith("It is on Node n")
    assert "(m5.xlarge, on-demand, us-west-2a)" in sentences[0]
    assert [text for text in sentences if text.startswith(sentence)] != []


def test_a_pod_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    result = explain(tmp_path, "pod", "shop/nope")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "shop/nope: is no pod of the cluster or of the input\n"


def test_a_pod_is_looked_up_in_one_namespace(tmp_path: Path) -> None:
    result = explain(tmp_path, "pod", "default/small", "-n", "other")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "default/small names a namespace, and --namespace another: other.\n"
    assert explain(tmp_path, "pod", "default/small", "-n", "default").exit_code == 0
    assert explain(tmp_path, "pod", "small", "-n", "other").stderr.startswith("other/small: is no pod")


def test_a_nodepool_says_what_it_buys_and_what_it_may_lose(tmp_path: Path) -> None:
    result = explain(tmp_path, "nodepool", "default", "-o", "json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["nodePool"] == "default"
    assert facts["buys"][0].startswith("It buys nothing for default/huge: needs 5000 CPU; ")
    assert facts["limits"] == ["It has no limits: a mistake in a Deployment may cost any amount"]
    prices = [float(text.partition("$")[2].split()[0]) for text in facts["cheapest"] if "$" in text]
    assert prices == sorted(prices)
    assert len(prices) == 5
    assert facts["nodes"][0] == "2 nodes"
    assert any("2 of 2 nodes may go now" in text for text in facts["budgets"])
    assert facts["consolidation"][0] == "WhenEmptyOrUnderutilized, consolidateAfter 10m"
    table = explain(tmp_path, "nodepool", "default").stdout
    assert table.startswith("NodePool default\n  Buys          It buys nothing for default/huge")


def test_a_nodepool_at_its_limit_says_so(tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    limited = FILES.replace("spec:\n  disruption:", "spec:\n  limits: {cpu: 8, nodes: 10}\n  disruption:", 1)
    file.write_text(limited)
    common = ("-f", str(file), "--catalog", str(catalogue(tmp_path)), "--now", NOW, "-o", "json")
    result = CliRunner().invoke(app, ["explain", "nodepool", "default", *common])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["limits"] == ["cpu: 7800m of 8 (98%)", "nodes: 2 of 10 (20%)"]


def facts_of(folder: Path, files: str, name: str) -> Any:
    file = folder / "input.yaml"
    file.write_text(files)
    common = ("-f", str(file), "--catalog", str(catalogue(folder)), "--now", NOW, "-o", "json")
    result = CliRunner().invoke(app, ["explain", "nodepool", name, *common])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_nodepool_lists_the_commands_for_its_own_nodes_only(tmp_path: Path) -> None:
    files = SHARED + node("n3", "m5.xlarge", "3900m") + "\n---\n" + POOL.replace("name: default", "name: ci", 1)
    own = facts_of(tmp_path, files, "default")["consolidation"]
    assert any(text.startswith("Empty now: n3, which saves $") for text in own)
    assert [text for text in facts_of(tmp_path, files, "ci")["consolidation"] if " now: " in text] == []


def test_a_frozen_nodepool_lets_no_node_go_whatever_its_budgets_allow(tmp_path: Path) -> None:
    """Repair goes on, so its budget is as before."""
    budgets = facts_of(tmp_path, FILES + FREEZE, "default")["budgets"]
    frozen = [text for text in budgets if "no node may go now, because the NodePool is frozen by" in text]
    assert len(frozen) == 1
    assert "DisruptionFreeze pause (release) until " in frozen[0]
    assert [text.partition(":")[0] for text in budgets if "2 of 2 nodes may go now" in text] == ["Unhealthy"]


def test_an_unknown_nodepool_is_one_sentence(tmp_path: Path) -> None:
    result = explain(tmp_path, "nodepool", "nope")
    assert result.stderr == "nope: is no NodePool of Tenon in the cluster or in the input\n"


@pytest.mark.integration
def test_pods_that_wait_are_grouped_by_cause_the_worst_first(server: type[ApiServer]) -> None:
    pods = [yaml.safe_load(waiting(f"huge-{number}", "5000")[4:]) for number in range(3)]
    gated = waiting("gated", "1", schedulingGates=[{"name": "a/b"}])
    server.objects = {
        "nodepools": [yaml.safe_load(POOL)],
        "pods": [
            *pods,
            yaml.safe_load(waiting("ok", "1")[4:]),
            yaml.safe_load(gated[4:]),
        ],
    }
    result = CliRunner().invoke(app, ["pods", "--pending", "-o", "json"])
    assert result.exit_code == 0, result.output
    groups = json.loads(result.stdout)["groups"]
    assert [(group["waitsFor"], group["pods"]) for group in groups] == [
        ("nothing fits", ["default/huge-0", "default/huge-1", "default/huge-2"]),
        ("nothing fits", ["default/gated"]),
        ("purchase", ["default/ok"]),
    ]
    assert groups[0]["why"].startswith("NodePool default: needs 5000 CPU; ")
    assert groups[0]["since"] == "2026-01-01T11:00:00Z"
    assert groups[2]["why"].startswith("NodePool default buys ")
    elsewhere = CliRunner().invoke(app, ["pods", "--pending", "-n", "shop"])
    assert elsewhere.stderr.endswith("No pod waits for a node.\n")
    table = CliRunner().invoke(app, ["pods"]).stdout
    assert table.startswith("No node is bought for 3 pods, the oldest for ")
    assert set(server.methods) == {"GET"}


def test_the_nodepool_that_only_waits_is_named_first_and_no_note_is_about_other_things(tmp_path: Path) -> None:
    overlapping = POOL.replace("name: default", "name: twin", 1)
    tainted = POOL.replace("name: default", "name: apart", 1).replace(
        "    spec:\n", "    spec:\n      taints: [{key: own, effect: NoSchedule}]\n", 1
    )
    full = overlapping.replace("spec:\n", "spec:\n  limits: {cpu: 0}\n", 1)
    file = tmp_path / "input.yaml"
    file.write_text("\n---\n".join([tainted, full, full.replace("twin", "other", 1)]) + waiting("small", "2"))
    common = ("-f", str(file), "--catalog", str(catalogue(tmp_path)), "--now", NOW, "-o", "json")
    result = CliRunner().invoke(app, ["explain", "pod", "small", *common])
    assert result.exit_code == 0, result.output
    first, *notes = json.loads(result.stdout)["why"]
    names = [name for name in ("other", "twin", "apart") if f"NodePool {name}: " in first]
    assert sorted(names, key=lambda name: first.index(f"NodePool {name}: ")) == ["other", "twin", "apart"]
    assert [note for note in notes if "takes the same pods" in note] == []
