"""A cluster of another region than the built-in catalogue: commands say so, and give no cause that they do not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import app
from tests.cli.test_explain_pods_and_pools import waiting
from tests.simulate.api_server import ApiServer
from tests.simulate.live_server import server
from tests.simulate.running import POOL
from tests.simulate.shared_cluster import NOW, SHARED
from tests.tenon.scheduling.builders import ordinary_entries

__all__ = ["server"]

REGION = "eu-central-1"
CLASS = f"""
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: nodes
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{cluster: shop}}}}]
  securityGroupSelectorTerms: [{{tags: {{cluster: shop}}}}]
status:
  subnets: [{{id: subnet-1, zone: {REGION}a}}]
  securityGroups: [{{id: sg-1}}]
  amis: [{{id: ami-1, requirements: [{{key: kubernetes.io/arch, operator: In, values: [amd64]}}]}}]
  instanceProfile: nodes
  conditions:
    - {{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}}
"""
FALSE_CAUSE = "no instance type is on sale"
SENTENCE = (
    f"--catalog: the built-in catalogue knows us-west-2 only, and the EC2NodeClasses have subnets in {REGION}, so what "
    f"Tenon buys there and why is not known: write a file with `tenon catalog {REGION}`, and name it with --catalog\n"
)


def catalogue(folder: Path) -> Path:
    """The small catalogue, in the other region."""
    file = folder / "catalogue.json"
    file.write_text(json.dumps({"instanceTypes": ordinary_entries()}).replace("us-west-2", REGION))
    return file


def cluster(server: type[ApiServer]) -> None:
    """A NodePool whose nodes would be in the other region, and pods that need one."""
    pods = [yaml.safe_load(waiting(name, cpu)[4:]) for name, cpu in (("small", "1"), ("huge", "5000"))]
    server.objects = {"nodepools": [yaml.safe_load(POOL)], "ec2nodeclasses": [yaml.safe_load(CLASS)], "pods": pods}
    server.objects["events"] = []
    server.single = {pod["metadata"]["name"]: {**pod, "status": {"phase": "Pending"}} for pod in pods}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.integration
@pytest.mark.parametrize(
    "command",
    [("pods",), ("pods", "-o", "json"), ("simulate", "--live"), ("explain", "pod", "small")],
    ids=" ".join,
)
def test_a_cluster_of_another_region_has_no_plan(server: type[ApiServer], command: tuple[str, ...]) -> None:
    cluster(server)
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(SENTENCE)
    assert FALSE_CAUSE not in result.output


@pytest.mark.integration
def test_pods_and_why_take_a_catalogue_of_the_region(server: type[ApiServer], tmp_path: Path) -> None:
    cluster(server)
    own = ("--catalog", str(catalogue(tmp_path)))
    result = run("pods", "-o", "json", *own)
    assert result.exit_code == 0, result.output
    groups = {group["pods"][0]: group for group in json.loads(result.stdout)["groups"]}
    assert groups["default/huge"]["why"].startswith("NodePool default: needs 5000 CPU; ")
    assert f", {REGION}a)" in groups["default/small"]["why"]
    page = run("why", "pod/small", *own).stdout
    assert "of NodePool default would be bought for it" in page


@pytest.mark.integration
def test_why_says_that_a_pod_cannot_be_planned_without_one(server: type[ApiServer]) -> None:
    cluster(server)
    result = run("why", "pod/huge")
    assert SENTENCE.rstrip() in result.stdout
    assert FALSE_CAUSE not in result.output


@pytest.mark.integration
def test_no_pod_waits_in_any_region(server: type[ApiServer]) -> None:
    cluster(server)
    del server.objects["pods"]
    result = run("pods")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (0, "No pod waits for a node.")


def files(folder: Path) -> tuple[str, ...]:
    file = folder / "input.yaml"
    text = SHARED.replace("us-west-2", REGION) + waiting("huge", "5000")
    file.write_text(f"{text}\n---\n{CLASS}")
    return "-f", str(file), "--now", NOW


def test_a_nodepool_of_another_region_says_what_needs_no_catalogue(tmp_path: Path) -> None:
    result = run("explain", "nodepool", "default", "-o", "json", *files(tmp_path))
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["buys"] == [f"It is not known: {SENTENCE.removeprefix('--catalog: ').rstrip()}"]
    assert (facts["cheapest"], facts["consolidation"]) == ([], [])
    assert facts["nodes"] == ["2 nodes"]
    assert FALSE_CAUSE not in result.output


def test_where_a_placed_pod_is_needs_no_catalogue(tmp_path: Path) -> None:
    result = run("explain", "pod", "a", "-o", "json", *files(tmp_path))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["why"][0].startswith("It is on Node n1")


def test_why_a_node_stays_is_not_known_without_its_price(tmp_path: Path) -> None:
    result = run("explain", "node", "n1", *files(tmp_path))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", SENTENCE)
