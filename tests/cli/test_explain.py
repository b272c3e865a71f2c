"""``tenon explain node``: what the worker thinks of one node, from files or from the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.explain import app
from tests.simulate.api_server import ApiServer
from tests.simulate.live_server import server
from tests.simulate.running import catalogue
from tests.simulate.shared_cluster import NOW, SHARED, node

__all__ = ["server"]


def explain(folder: Path, *arguments: str) -> Any:
    """Run ``tenon explain node``."""
    return CliRunner().invoke(app, ["node", *arguments, "--catalog", str(catalogue(folder))])


def test_a_node_of_a_file_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(SHARED)
    result = explain(tmp_path, "n2", "-f", str(file), "--now", NOW)
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (
        0,
        ["n2:", "  Pod default/b: annotation karpenter.sh/do-not-disrupt protects it"],
    )
    document = json.loads(explain(tmp_path, "n2", "-f", str(file), "--now", NOW, "-o", "json").stdout)
    assert [entry["node"] for entry in document["staying"]] == ["n2"]


def test_an_unknown_node_ends_with_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(SHARED)
    result = explain(tmp_path, "n9", "-f", str(file), "--now", NOW)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "n9: is no Node or NodeClaim of a NodePool in the input\n"


def test_a_node_is_explained_by_its_name_without_the_domain(tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(SHARED + node("n1.ec2.internal", "m5.large", "1900m") + node("n3.a", "m5.large", "1900m"))
    assert explain(tmp_path, "n3", "-f", str(file), "--now", NOW).exit_code == 0
    assert explain(tmp_path, "n1", "-f", str(file), "--now", NOW).exit_code == 0, "that is the whole name of a Node"
    file.write_text(SHARED + node("n3.b", "m5.large", "1900m") + node("n3.a", "m5.large", "1900m"))
    result = explain(tmp_path, "n3", "-f", str(file), "--now", NOW)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "n3: stands for 2 Nodes, n3.a, n3.b: write the whole name of one\n"


@pytest.mark.integration
def test_without_files_the_cluster_is_read_at_the_current_time(server: type[ApiServer], tmp_path: Path) -> None:
    objects = [yaml.safe_load(text) for text in SHARED.split("\n---\n")]
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "c2", "labels": {"karpenter.sh/nodepool": "default"}, "uid": "u2"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {
            "providerID": "aws:///us-west-2a/i-2",
            "conditions": [
                {"type": "Initialized", "status": "True", "reason": "X", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ],
        },
    }
    (node,) = [item for item in objects if item["metadata"]["name"] == "n2"]
    node["spec"] = {"providerID": "aws:///us-west-2a/i-2"}
    server.objects = {
        "nodepools": [item for item in objects if item["kind"] == "NodePool"],
        "nodes": [node],
        "nodeclaims": [claim],
        "pods": [item for item in objects if item["kind"] == "Pod"],
    }
    for name in ("n2", "c2"):
        result = explain(tmp_path, name)
        assert result.exit_code == 0, result.stderr
        lines = result.stdout.splitlines()
        assert lines[:2] == [f"{name}:", "  Pod default/b: annotation karpenter.sh/do-not-disrupt protects it"]
    assert set(server.methods) == {"GET"}
