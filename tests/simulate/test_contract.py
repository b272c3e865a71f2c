"""The document that ``-o json`` prints, and what goes into it, as the contract of ``tenon simulate`` fixes them."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.simulating import builtin, ready_types
from cli.simulating.files import read_catalogue_file
from tenon.manifests.faults import Source
from tenon.scheduling.catalog import parse_catalog
from tenon.simulation.catalogue import read_catalogue
from tests.simulate.running import POOL, catalogue, command, deployment, node, simulate

GOLDEN = Path(__file__).parent / "golden"
POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: team}
spec: {containers: [{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
"""
DAEMONSET = """
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {template: {spec: {containers: [{name: main, resources: {requests: {cpu: 100m, memory: 128Mi}}}]}}}
"""


def test_the_document_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    sizes = "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge, m5.4xlarge]}"
    pool = POOL.replace("requirements: [", f"requirements: [{sizes}, ")
    text = pool + deployment(replicas=5) + POD + DAEMONSET + node(cpu="1500m") + deployment("huge", 1, cpu="4000")
    out = simulate(tmp_path, text).out
    stable = re.sub(r'"solveSeconds": [0-9.e-]+', '"solveSeconds": 0', out)
    assert stable == (GOLDEN / "small.json").read_text()


def test_the_same_input_gives_the_same_bytes_in_whatever_order_it_comes(tmp_path: Path) -> None:
    parts = [POOL, deployment(replicas=40), POD, DAEMONSET, node(), deployment("other", 30, cpu="300m", memory="3Gi")]
    item, other = (simulate(tmp_path, "\n---\n".join(order)).plan for order in (parts, parts[::-1]))
    assert json.dumps(item) == json.dumps(other)


def test_workloads_become_numbered_pods_and_an_absent_count_is_one(tmp_path: Path) -> None:
    job = POD.replace("kind: Pod", "kind: Job").replace("apiVersion: v1", "apiVersion: batch/v1")
    job = job.replace("spec: {containers", "spec: {parallelism: 2, template: {spec: {containers").replace("]}", "]}}}")
    single = deployment("single").replace('"replicas": 3, ', "")
    plan = simulate(tmp_path, POOL + deployment(replicas=11) + job + single + deployment("none", 0)).plan
    pods = sorted(pod for claim in plan["nodeClaims"] for pod in claim["pods"])
    assert pods == sorted(
        [*(f"default/web-{i}" for i in range(11)), "team/alone-0", "team/alone-1", "default/single-0"]
    )
    assert plan["totals"]["pods"] == 14


def test_pods_on_nodes_take_room_and_what_is_left_is_used_first(tmp_path: Path) -> None:
    running = POD.replace("name: alone", "name: there").replace("spec: {", "spec: {nodeName: n1, ")
    plan = simulate(tmp_path, POOL + node(cpu="2600m") + running + deployment(replicas=3)).plan
    assert plan["existingNodes"] == [{"name": "n1", "pods": ["default/web-0", "default/web-1"]}]
    assert [claim["pods"] for claim in plan["nodeClaims"]] == [["default/web-2"]]
    assert plan["totals"]["pods"] == 3


def test_requests_count_the_pods_and_the_daemonsets(tmp_path: Path) -> None:
    (claim,) = simulate(tmp_path, POOL + DAEMONSET + deployment(replicas=2)).plan["nodeClaims"]
    assert claim["requests"] == {"cpu": "2100m", "memory": "2176Mi", "pods": "3"}


def test_pods_that_nothing_is_bought_for_are_reported_with_a_reason(tmp_path: Path) -> None:
    gated = POD.replace("spec: {", "spec: {schedulingGates: [{name: later}], ")
    plan = simulate(tmp_path, POOL + gated).plan
    assert plan["unschedulable"][0]["pod"] == "team/alone"
    assert "scheduling gates" in plan["unschedulable"][0]["reason"]
    assert plan["totals"]["unschedulable"] == 1


def test_a_pool_that_launches_nothing_is_named_in_the_reasons(tmp_path: Path) -> None:
    static = POOL.replace("spec:\n  template", "spec:\n  replicas: 2\n  template", 1)
    (entry,) = simulate(tmp_path, static + POD).plan["unschedulable"]
    assert "NodePool default: it is static" in entry["reason"]


def test_an_unready_class_in_the_input_is_believed_and_an_absent_one_is_ready(tmp_path: Path) -> None:
    condition = "{type: Ready, status: 'False', reason: X, lastTransitionTime: '2026-01-01T00:00:00Z'}"
    broken = f"""
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: r
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{a: b}}}}]
  securityGroupSelectorTerms: [{{tags: {{a: b}}}}]
status: {{conditions: [{condition}]}}
"""
    assert simulate(tmp_path, POOL + POD).plan["totals"]["nodes"] == 1
    assert "is not ready" in simulate(tmp_path, POOL + POD + broken).plan["unschedulable"][0]["reason"]
    without_status = broken.partition("status:")[0]
    assert simulate(tmp_path, POOL + POD + without_status).plan["totals"]["nodes"] == 1


def test_a_class_that_only_a_pool_names_is_noted(tmp_path: Path) -> None:
    """Among files that have classes it is most likely a slip; without any, one with default settings is understood."""
    other = """
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: defaults}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""
    answer = simulate(tmp_path, POOL + POD + other)
    assert answer.plan["totals"]["nodes"] == 1
    assert answer.err == (
        "note: NodePool default: EC2NodeClass default is not in the input (did you mean defaults?): "
        "the simulation assumes one with default settings\n"
    )
    assert simulate(tmp_path, POOL + POD).err == ""


def test_a_mistyped_instance_type_is_answered_with_the_most_similar_one(tmp_path: Path) -> None:
    mistyped = POOL.replace("karpenter.sh/capacity-type", "node.kubernetes.io/instance-type")
    (remainder,) = simulate(tmp_path, mistyped.replace("on-demand", "m5.lagre") + POD).plan["unschedulable"]
    assert remainder["reason"].endswith(
        "meets its requirement node.kubernetes.io/instance-type In [m5.lagre] (the most similar is m5.large)"
    )


def test_lists_are_opened_and_other_kinds_noted(tmp_path: Path) -> None:
    listed = (
        '{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}, "spec": {"containers": [{}]}}]}'
    )
    answer = simulate(tmp_path, f"{POOL}\n---\n{listed}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n")
    assert answer.plan["totals"]["pods"] == 1
    assert answer.err == "note: Secret (v1) is not read\n"


def test_folders_files_and_standard_input_together(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "pool.yaml").write_text(POOL)
    (folder / "notes.txt").write_text("not a manifest: [")
    answer = command(
        "-f", str(folder), "-f", "-", "-o", "json", "--catalog", str(catalogue(tmp_path)), stdin=deployment()
    )
    assert answer.plan["totals"]["pods"] == 3


@pytest.mark.parametrize("load", ["small-400", "medium-100", "large-10"])
def test_the_examples_are_planned_on_the_built_in_catalogue(load: str) -> None:
    """Seed 001's loads: at most as many nodes and dollars as stated for them."""
    most = {"small-400": (4, 3.973), "medium-100": (3, 3.978), "large-10": (2, 4.284)}[load]
    folder = Path("examples/simulate")
    plan = command("-f", str(folder / "nodepool.yaml"), "-f", str(folder / f"{load}.yaml"), "-o", "json").plan
    assert plan["totals"]["unschedulable"] == 0
    assert plan["totals"]["nodes"] <= most[0]
    assert plan["totals"]["pricePerHour"] <= most[1]


def test_a_wish_to_spread_over_hosts_is_kept() -> None:
    """Seed 001: 400 pods with ScheduleAnyway over hosts and a skew of 30 make 15 nodes."""
    folder = Path("examples/simulate")
    plan = command("-f", str(folder / "nodepool.yaml"), "-f", str(folder / "spread-400.yaml"), "-o", "json").plan
    assert plan["totals"]["nodes"] < 16
    assert max(len(claim["pods"]) for claim in plan["nodeClaims"]) <= 30


def test_the_example_of_a_shop_is_placed_whole() -> None:
    answer = command("-f", "examples/simulate/shop", "-o", "json")
    assert answer.plan["totals"]["unschedulable"] == 0
    assert "spot prices of the built-in catalogue are estimates" in answer.err


def test_an_accelerator_that_the_built_in_catalogue_lacks_is_named(tmp_path: Path) -> None:
    """It has no type with an AMD GPU. Of those with NVIDIA's, none has enough CPU for the other pod."""
    file = tmp_path / "input.yaml"
    gpus = {"amd": ("amd.com/gpu", "500m"), "nvidia": ("nvidia.com/gpu", "5000")}
    pods = (
        POD.replace("alone", name).replace("500m", cpu).replace("resources: {", f"resources: {{limits: {{{gpu}: 1}}, ")
        for name, (gpu, cpu) in gpus.items()
    )
    file.write_text("".join([POOL, *pods]))
    note = "no type of the built-in catalogue has amd.com/gpu, though EC2 sells some: name a fuller one with --catalog"
    answer = command("-f", str(file), "-o", "json")
    assert answer.plan["totals"]["unschedulable"] == 2
    assert [line for line in answer.err.splitlines() if "/gpu" in line] == [f"note: {note}"]
    assert "built-in" not in simulate(tmp_path, file.read_text()).err


def test_the_pods_of_the_guide_for_eks_take_more_nodes_than_one_as_it_says(tmp_path: Path) -> None:
    file = tmp_path / "inflate.yaml"
    file.write_text(Path("examples/inflate.yaml").read_text().replace("replicas: 0", "replicas: 10"))
    options = [f"-f{name}" for name in ("examples/ec2nodeclass.yaml", "examples/nodepool.yaml", str(file))]
    totals = command(*options, "-o", "json").plan["totals"]
    assert (totals["pods"], totals["unschedulable"]) == (10, 0)
    says_several = "the ten pods on their nodes, of which there may be more than one" in Path("docs/eks.md").read_text()
    assert (totals["nodes"] > 1) is says_several


@pytest.mark.integration
def test_two_processes_print_the_same_bytes(tmp_path: Path) -> None:
    """No order of a set or hash shows in the output."""
    (tmp_path / "input.yaml").write_text(POOL + deployment(replicas=40) + POD + DAEMONSET + node())
    arguments = ["-f", str(tmp_path / "input.yaml"), "-o", "json", "--catalog", str(catalogue(tmp_path))]
    outputs = {
        re.sub(
            r'"solveSeconds": [0-9.e-]+',
            "",
            subprocess.run(
                [sys.executable, "-m", "cli", "simulate", *arguments],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout,
        )
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_the_built_in_catalogue_is_packed_the_same_each_time() -> None:
    assert builtin.pack(builtin.load()) == builtin.PACKED.read_bytes()


def test_the_built_in_catalogue_is_valid() -> None:
    _, faults = read_catalogue(builtin.load(), Source("built-in catalogue"))
    assert not faults


def test_the_types_that_are_ready_to_read_are_those_of_the_built_in_catalogue() -> None:
    """`python -m cli.simulating.builtin` writes both files."""
    types = parse_catalog(builtin.load())
    assert read_catalogue_file(None)[0] == types
    assert gzip.decompress(builtin.READY.read_bytes()) == ready_types.encoded(types)


def test_ready_types_keep_reservations_and_what_is_unavailable() -> None:
    """The built-in catalogue has neither."""
    (kind, *_) = parse_catalog(builtin.load())
    reserved = replace(
        kind.offerings[0], capacity_type="reserved", reservation_id="cr-1", reservation_capacity=2, available=False
    )
    types = [replace(kind, offerings=(*kind.offerings, reserved))]
    assert ready_types.decoded(ready_types.encoded(types)) == types


def test_settings_and_time_are_checked(tmp_path: Path) -> None:
    assert simulate(tmp_path, POOL, "--set", "PREFERENCE_POLICY=Ignore", "--now", "2026-01-01T00:00:00Z").status == 0
    quiet = simulate(tmp_path, POOL, "--set", "LOG_LEVEL=debug")
    assert (quiet.status, quiet.err) == (0, "note: setting LOG_LEVEL has no effect on a simulation\n")
    times = [["--now", time] for time in ("noon", "2026-01-31", "2026-01-31T12:00:00")]
    for wrong in (["--set", "PREFERENCE_POLICY=Maybe"], ["--set", "X=1"], ["--set", "X"], *times):
        assert len(simulate(tmp_path, POOL, *wrong).faults) == 1


def test_a_file_without_any_object_is_noted(tmp_path: Path) -> None:
    (tmp_path / "nothing.yaml").write_text("# all of it is a comment\n---\n")
    answer = simulate(tmp_path, POOL, "-f", str(tmp_path / "nothing.yaml"))
    assert answer.status == 0
    assert answer.err == f"note: {tmp_path / 'nothing.yaml'} holds no object\n"


def test_sch001_a_pod_that_a_daemonset_owns_is_not_planned_for(tmp_path: Path) -> None:
    """Whether the reference says that it controls the pod or not."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "u"}
    owned = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "log-1", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main"}]},
    }
    answer = simulate(tmp_path, f"{POOL}\n---\n{json.dumps(owned)}")
    assert answer.plan["totals"]["nodes"] == 0
    assert "a DaemonSet owns it" in answer.plan["unschedulable"][0]["reason"]
