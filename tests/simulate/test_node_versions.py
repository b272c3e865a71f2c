"""``tenon simulate`` and ``tenon explain`` of a NodePool whose newest version a NodeRollout holds back, from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from cli.explain import app
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.rollout.revisions import revision_of, to_object
from tests.simulate.running import catalogue
from tests.simulate.shared_cluster import NOW

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
READY = {"type": "Ready", "status": "True", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}
CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default", "uid": "c", "generation": 1},
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
    },
}


def pool(team: str) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "web", "uid": "p", "generation": 1},
        "spec": {
            "template": {
                "metadata": {"labels": {"team": team}},
                "spec": {"requirements": [], "nodeClassRef": REFERENCE},
            }
        },
    }


def rollout(digest: str) -> dict[str, Any]:
    row = {"name": "web", "phase": "Halted", "currentRevision": digest, "targetRevision": "0123456789"}
    return {
        "apiVersion": "tenon.sh/v1alpha1",
        "kind": "NodeRollout",
        "metadata": {"name": "nodes", "uid": "r", "generation": 1},
        "spec": {},
        "status": {"nodePools": [{**row, "message": "the canary is not ready"}]},
    }


def of_a_daemonset() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "agent-1", "namespace": "kube-system"},
        "data": {"spec": {}},
        "revision": 1,
    }


def test_a_simulation_launches_the_version_that_passed(tmp_path: Path) -> None:
    resolved = {**CLASS, "status": {"conditions": [READY]}}
    revision = revision_of(NodePool.model_validate(pool("old")), EC2NodeClass.model_validate(resolved))
    waiting = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "uid": "a"},
        "spec": {"nodeSelector": {"team": "old"}, "containers": [{"name": "a", "image": "a"}]},
    }
    recorded = to_object(revision, "tenon", 1)
    objects = [pool("new"), CLASS, rollout(revision.digest), recorded, of_a_daemonset(), waiting]
    file = tmp_path / "input.yaml"
    file.write_text(yaml.safe_dump_all(objects))

    def explain(*arguments: str) -> Any:
        types = str(catalogue(tmp_path))
        return CliRunner().invoke(
            app, ["pod", "default/a", "-f", str(file), "--catalog", types, "--now", NOW, *arguments]
        )

    result = explain()
    assert result.exit_code == 0, result.stderr
    assert "A node is bought for the pod" in result.stdout
    file.write_text(yaml.safe_dump_all([item for item in objects if item["kind"] != "NodeRollout"]))
    assert "No node is bought for the pod" in explain().stdout, "without the rollout, the newest spec counts"
