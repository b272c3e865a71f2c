"""``--disruption``: the commands that the worker would give, and why the other nodes stay."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import ec2nodeclass_hashes, nodepool_hashes
from tenon.apis.nodepool import NodePool
from tenon.kube.claim_record import ClaimRecord
from tenon.manifests.faults import Source
from tenon.simulation.drifted_claims import compare_with_pools
from tenon.simulation.objects import Objects
from tests.simulate.api_server import ApiServer
from tests.simulate.live_server import server
from tests.simulate.running import Answer, catalogue, command, simulate
from tests.simulate.shared_cluster import HOLD, LABELS, NOW, PATIENT, SHARED, TWO, node, pod

__all__ = ["server"]


def disrupted(folder: Path, text: str, *options: str, form: str = "json") -> Answer:
    """Simulate at noon."""
    return simulate(folder, text, "--disruption", "--now", NOW, *options, form=form)


def test_pods_that_fit_on_another_node_move_there(tmp_path: Path) -> None:
    plan = disrupted(tmp_path, SHARED).plan
    (command,) = plan["disruption"]
    assert command.pop("explanation")[0].startswith("Removes 1 node: n1 (m5.xlarge, on-demand")
    assert command == {
        "reason": "Underutilized",
        "method": "consolidation",
        "candidates": ["n1"],
        "replacements": [],
        "savingPerHour": 0.192,
        "existingNodes": [{"name": "n2", "pods": ["default/a"]}],
    }
    (stays,) = plan["staying"]
    assert stays["why"][:2] == [
        "Pod default/b: annotation karpenter.sh/do-not-disrupt protects it",
        "Pods of other nodes are about to move to it",
    ]
    assert {key: stays[key] for key in ("node", "nodeClaim", "nodePool", "pricePerHour")} == {
        "node": "n2",
        "nodeClaim": "n2",
        "nodePool": "default",
        "pricePerHour": 0.192,
    }


def test_a_cheaper_node_replaces_one_that_is_too_large(tmp_path: Path) -> None:
    plan = disrupted(tmp_path, PATIENT + node("n1", "m5.2xlarge", "7900m") + pod("a", "n1")).plan
    (command,) = plan["disruption"]
    (replacement,) = command["replacements"]
    assert (replacement["name"], replacement["pods"]) == ("replacement-1", ["default/a"])
    assert replacement["price"] < 0.384
    assert command["savingPerHour"] == pytest.approx(0.384 - replacement["price"])
    assert any(line.startswith(f"Saves ${command['savingPerHour']:.4f} an hour") for line in command["explanation"])
    assert plan["staying"] == []


def test_a_pod_that_a_pdb_keeps_is_named(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }
    text = TWO + pod("a", "n1", labels={"app": "web"}) + pod("b", "n2", "3500m") + "\n---\n" + json.dumps(budget)
    staying = {entry["node"]: entry["why"] for entry in disrupted(tmp_path, text).plan["staying"]}
    assert staying["n1"][0] == "Pod default/a: PodDisruptionBudget default/web allows no eviction"


def test_dis13_a_pdb_without_a_status_counts_by_its_spec(tmp_path: Path) -> None:
    """An API server states how many disruptions a PodDisruptionBudget allows; a manifest that none has seen cannot."""
    for spec, stays in (({"minAvailable": 1}, False), ({"maxUnavailable": 0}, True)):
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        }
        text = TWO + pod("a", "n1", labels={"app": "web"}) + pod("b", "n2", "3500m") + "\n---\n" + json.dumps(budget)
        whies = {why for entry in disrupted(tmp_path, text).plan["staying"] for why in entry["why"]}
        assert ("Pod default/a: PodDisruptionBudget default/web allows no eviction" in whies) is stays


def test_nodes_that_the_plan_gives_pods_stay_and_their_room_is_taken(tmp_path: Path) -> None:
    pending = json.loads(pod("waits", "").removeprefix("\n---\n"))
    del pending["spec"]["nodeName"], pending["status"]
    plan = disrupted(tmp_path, PATIENT + node("n1", "m5.xlarge", "3900m") + "\n---\n" + json.dumps(pending)).plan
    assert plan["existingNodes"] == [{"name": "n1", "pods": ["default/waits"]}]
    assert plan["disruption"] == []
    assert plan["staying"][0]["why"] == ["Pods that have no node yet are expected to run on it"]


def test_keep_until_counts_from_the_time_of_the_simulation(tmp_path: Path) -> None:
    for until, stays in (("2026-01-01T12:00:01Z", True), ("2026-01-01T11:59:59Z", False)):
        claim = f"""
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: n1
  labels: {{karpenter.sh/nodepool: default}}
  annotations: {{tenon.sh/keep-until: "{until}"}}
spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: []}}
status:
  providerID: aws:///us-west-2a/i-1
  conditions: [{{type: Initialized, status: "True", reason: X, lastTransitionTime: "2026-01-01T00:00:00Z"}}]
"""
        body = json.loads(node("n1", "m5.xlarge", "3900m").removeprefix("\n---\n"))
        body["spec"] = {"providerID": "aws:///us-west-2a/i-1"}
        body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        plan = disrupted(tmp_path, PATIENT + claim + "---\n" + json.dumps(body)).plan
        assert [entry["node"] for entry in plan["staying"]] == ["n1"] * stays


def test_one_node_alone_is_explained_in_full(tmp_path: Path) -> None:
    stays = simulate(tmp_path, SHARED, "--now", NOW, "--node", "n2", form="table")
    assert stays.out.splitlines()[:2] == [
        "n2:",
        "  Pod default/b: annotation karpenter.sh/do-not-disrupt protects it",
    ]
    goes = simulate(tmp_path, SHARED, "--now", NOW, "--node", "n1", form="table")
    assert goes.out.splitlines()[0] == "Underutilized: n1 would be removed, which saves $0.1920 an hour"
    plan = simulate(tmp_path, SHARED, "--now", NOW, "--node", "n2").plan
    assert ([*plan["disruption"]], [entry["node"] for entry in plan["staying"]]) == ([], ["n2"])


def test_a_node_that_the_input_does_not_have_is_a_fault(tmp_path: Path) -> None:
    answer = simulate(tmp_path, SHARED, "--now", NOW, "--node", "n9")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.splitlines()[-1] == ("n9: is no Node or NodeClaim of a NodePool in the input")


def test_tables_and_pages_show_both(tmp_path: Path) -> None:
    shown = disrupted(tmp_path, SHARED, form="table").out
    assert "Underutilized: n1 would be removed" in shown
    assert "Nodes that stay" in shown
    page = disrupted(tmp_path, SHARED, form="html").out
    assert "Nodes that would be removed (1)" in page
    assert "Nodes that stay (1)" in page
    assert "karpenter.sh/do-not-disrupt protects it" in page


def test_without_the_option_nothing_is_said(tmp_path: Path) -> None:
    plan = simulate(tmp_path, SHARED, "--now", NOW).plan
    assert plan["disruption"] == []
    assert "staying" not in plan


LEAVING = """
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: c1
  labels: {karpenter.sh/nodepool: default}
  finalizers: [karpenter.sh/termination]
  deletionTimestamp: "2026-01-01T11:00:00Z"
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status:
  providerID: aws:///us-west-2a/i-1
  conditions:
    - {type: Initialized, status: "True", reason: X, lastTransitionTime: "2026-01-01T00:00:00Z"}
"""


DRIFTED = """
    - {type: DisruptionReason, status: "True", reason: Drifted, lastTransitionTime: "2026-01-01T11:00:00Z"}
    - {type: Drifted, status: "True", reason: AMIDrift, message: newer, lastTransitionTime: "2026-01-01T10:00:00Z"}
"""


def test_a_node_that_leaves_says_why_it_was_disrupted(tmp_path: Path) -> None:
    plan = disrupted(tmp_path, PATIENT + LEAVING + DRIFTED.lstrip("\n"), "--node", "c1").plan
    assert plan["staying"][0]["why"] == [
        "It is leaving since 2026-01-01 11:00:00 UTC: Drifted: AMIDrift: newer (a disruption command)"
    ]
    plan = disrupted(tmp_path, PATIENT + LEAVING, "--node", "c1").plan
    assert plan["staying"][0]["why"] == [
        "It is leaving since 2026-01-01 11:00:00 UTC: Deleted: the NodeClaim was deleted (kubectl or another "
        "controller)"
    ]


def test_a_node_that_an_operator_drains_says_who_and_why(tmp_path: Path) -> None:
    because = '[{"reason": "force_drained", "detail": "broken disk", "actor": "ann"}]'
    annotated = LEAVING.replace(
        "  finalizers:", f"  annotations: {{tenon.sh/deleted-because: '{because}'}}\n  finalizers:"
    )
    plan = disrupted(tmp_path, PATIENT + annotated, "--node", "c1").plan
    why = "It is leaving since 2026-01-01 11:00:00 UTC: ForceDrained: broken disk (ann)"
    assert plan["staying"][0]["why"] == [why]


def test_totals_compare_the_nodes_before_and_after(tmp_path: Path) -> None:
    larger = (
        PATIENT + node("n1", "m5.2xlarge", "7900m") + node("n2", "m5.xlarge", "3900m", **HOLD) + pod("a", "n1", "4")
    )
    plan = disrupted(tmp_path, larger).plan
    (command,) = plan["disruption"]
    (replacement,) = command["replacements"]
    totals = plan["totals"]
    assert (totals["nodesBeforeDisruption"], totals["nodesAfterDisruption"]) == (2, 2)
    assert totals["pricePerHourBeforeDisruption"] == 0.576
    assert totals["pricePerHourAfterDisruption"] == round(0.192 + replacement["price"], 6)
    sentence = "Nodes of NodePools: 2 for $0.3840 an hour now, 1 for $0.1920 an hour after the disruption"
    for form in ("table", "html"):
        assert sentence in disrupted(tmp_path, SHARED, form=form).out


WHEN_EMPTY = PATIENT.replace("disruption: {", "disruption: {consolidationPolicy: WhenEmpty, ")
CLAIMED = """
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c1, creationTimestamp: "2026-01-01T00:00:00Z", labels: LABELS, annotations: ANNOTATIONS}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
status:
  providerID: aws:///us-west-2a/i-1
  nodeName: n1
  capacity: {cpu: "4", memory: 14Gi, pods: "58"}
  allocatable: {cpu: 3900m, memory: 14Gi, pods: "58"}
  conditions: CONDITIONS
"""


def claimed(annotations: dict[str, str] | None = None, drifted: str = "") -> str:
    """A Node with its NodeClaim and one pod. ``drifted``: the reason of the claim's condition Drifted."""
    kinds = {"Launched": "Launched", "Registered": "Registered", "Initialized": "Initialized"}
    kinds |= {"Drifted": drifted} if drifted else {}
    since = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": since}
        for kind, reason in kinds.items()
    ]
    labels = {**LABELS, "node.kubernetes.io/instance-type": "m5.xlarge"}
    text = CLAIMED.replace("ANNOTATIONS", json.dumps(annotations or {})).replace("LABELS", json.dumps(labels))
    text = text.replace("CONDITIONS", json.dumps(conditions))
    own = json.loads(node("n1", "m5.xlarge", "3900m").removeprefix("\n---\n"))
    own["metadata"]["labels"] |= {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    own["spec"] = {"providerID": "aws:///us-west-2a/i-1"}
    own["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    return text + "\n---\n" + json.dumps(own) + pod("a", "n1", "3500m")


def narrowed(*zones: str) -> str:
    """The NodePool, limited to zones."""
    zone = json.dumps({"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones})
    return WHEN_EMPTY.replace("requirements: [", f"requirements: [{zone}, ")


def test_dis72_a_narrowed_nodepool_shows_which_nodes_that_replaces(tmp_path: Path) -> None:
    (stays,) = disrupted(tmp_path, narrowed("us-west-2a", "us-west-2b") + claimed()).plan["staying"]
    assert not any("drift" in sentence for sentence in stays["why"])
    (command,) = disrupted(tmp_path, narrowed("us-west-2b") + claimed()).plan["disruption"]
    assert (command["reason"], command["candidates"]) == ("Drifted", ["n1"])
    assert [replacement["offering"]["zone"] for replacement in command["replacements"]] == ["us-west-2b"]


SCRATCH = """
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: ebs.csi.aws.com,
 volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a-tmp}, spec: {storageClassName: fast, volumeName: vol},
 status: {phase: Bound}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: vol}
spec:
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [us-west-2a]}]
"""


def with_scratch(text: str) -> str:
    """The same, with an ephemeral volume in us-west-2a for each pod."""
    template = {"spec": {"storageClassName": "fast"}}
    volumes = json.dumps([{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}])
    return text.replace('"containers": [', f'"volumes": {volumes}, "containers": [') + SCRATCH


def test_sch073_an_ephemeral_volume_does_not_keep_a_drifted_node(tmp_path: Path) -> None:
    plan = disrupted(tmp_path, narrowed("us-west-2b") + with_scratch(claimed())).plan
    assert plan["staying"] == []
    (command,) = plan["disruption"]
    assert [replacement["offering"]["zone"] for replacement in command["replacements"]] == ["us-west-2b"]


def test_sch073_a_leaving_pod_gets_its_ephemeral_volume_where_it_goes(tmp_path: Path) -> None:
    leaves = claimed().replace(
        'creationTimestamp: "2026-01-01T00:00:00Z"', 'deletionTimestamp: "2026-01-01T11:00:00Z"', 1
    )
    plan = disrupted(tmp_path, narrowed("us-west-2b") + with_scratch(leaves)).plan
    assert plan["unschedulable"] == []
    (planned,) = plan["nodeClaims"]
    assert (planned["pods"], planned["offering"]["zone"]) == (["default/a"], "us-west-2b")


def test_dis71_a_changed_template_shows_which_nodes_that_replaces(tmp_path: Path) -> None:
    hashes = nodepool_hashes(NodePool.model_validate(yaml.safe_load(WHEN_EMPTY)))
    assert disrupted(tmp_path, WHEN_EMPTY + claimed(hashes)).plan["disruption"] == []
    changed = WHEN_EMPTY.replace("    spec:\n", "    metadata: {labels: {team: red}}\n    spec:\n", 1)
    (command,) = disrupted(tmp_path, changed + claimed(hashes)).plan["disruption"]
    assert command["reason"] == "Drifted"


def test_a_drift_that_the_change_undoes_is_over_and_one_of_the_class_stays(tmp_path: Path) -> None:
    undone = claimed(drifted="RequirementsDrifted")
    assert disrupted(tmp_path, narrowed("us-west-2a") + undone).plan["disruption"] == []
    (command,) = disrupted(tmp_path, narrowed("us-west-2a") + claimed(drifted="AMIDrift")).plan["disruption"]
    assert command["reason"] == "Drifted"


def test_a_handwritten_node_drifts_only_by_labels_that_it_has(tmp_path: Path) -> None:
    family = "{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}, "
    text = WHEN_EMPTY.replace("requirements: [", "requirements: [" + family)
    plan = disrupted(tmp_path, text + node("n1", "m5.xlarge", "3900m") + pod("a", "n1", "3500m")).plan
    assert plan["disruption"] == []
    moved = disrupted(tmp_path, narrowed("us-west-2b") + node("n1", "m5.xlarge", "3900m") + pod("a", "n1", "3500m"))
    assert [command["reason"] for command in moved.plan["disruption"]] == ["Drifted"]


NODE_CLASS = """
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""
CA = "Q0E="


def class_hashes(text: str = NODE_CLASS) -> dict[str, str]:
    """The annotations of a NodeClaim that was launched from the class in the cluster with this CA bundle."""
    return ec2nodeclass_hashes(EC2NodeClass.model_validate(yaml.safe_load(text.removeprefix("\n---"))), CA)


def test_dis71_a_changed_ec2nodeclass_shows_which_nodes_that_replaces(tmp_path: Path) -> None:
    """The hash covers the CA bundle. Without it no node drifts, because nobody can tell."""
    changed, ca = f"{NODE_CLASS}  userData: echo hello\n", ("--set", f"CLUSTER_CA_BUNDLE={CA}")
    assert disrupted(tmp_path, WHEN_EMPTY + NODE_CLASS + claimed(class_hashes()), *ca).plan["disruption"] == []
    (command,) = disrupted(tmp_path, WHEN_EMPTY + changed + claimed(class_hashes()), *ca).plan["disruption"]
    assert (command["reason"], command["candidates"]) == ("Drifted", ["n1"])
    assert disrupted(tmp_path, WHEN_EMPTY + changed + claimed(class_hashes())).plan["disruption"] == []
    undone = WHEN_EMPTY + NODE_CLASS + claimed(class_hashes(), drifted="NodeClassDrift")
    assert disrupted(tmp_path, undone, *ca).plan["disruption"] == []


@pytest.mark.integration
def test_dis71_a_class_that_differs_from_that_of_the_cluster_shows_which_nodes_that_replaces(
    server: type[ApiServer], tmp_path: Path
) -> None:
    """The class of the cluster shows what changed, so nobody needs to know the CA bundle."""
    parts = {part["kind"]: part for part in yaml.safe_load_all(WHEN_EMPTY + NODE_CLASS + claimed(class_hashes()))}
    live_class = parts["EC2NodeClass"]
    live_class["metadata"]["annotations"] = class_hashes()
    server.objects = {
        "nodepools": [parts["NodePool"]],
        "ec2nodeclasses": [live_class],
        "nodeclaims": [parts["NodeClaim"]],
        "nodes": [parts["Node"]],
        "pods": [parts["Pod"]],
    }
    options = ("--live", "--disruption", "-o", "json", "--catalog", str(catalogue(tmp_path)), "--node", "n1")

    def with_file(text: str) -> Answer:
        changed = tmp_path / "class.yaml"
        changed.write_text(text)
        return command("-f", str(changed), *options)

    assert with_file(NODE_CLASS).plan["disruption"] == []
    answer = with_file(f"{NODE_CLASS}  userData: echo hello\n  tags: {{team: red}}\n")
    (result,) = answer.plan["disruption"]
    assert result["reason"] == "Drifted"
    elsewhere = with_file(
        NODE_CLASS.replace("subnetSelectorTerms: [{tags: {a: b}}]", "subnetSelectorTerms: [{id: subnet-1}]")
    )
    assert elsewhere.plan["disruption"] == []
    assert "only EC2 knows what the changed spec.subnetSelectorTerms selects" in elsewhere.err


def test_dis71_a_claim_says_which_fields_of_its_class_a_file_changes() -> None:
    objects, before = Objects(), NODE_CLASS.removeprefix("\n---")
    objects.add(yaml.safe_load(f"{before}  userData: x\n  tags: {{a: b}}\n"), Source("file"))
    live_class = yaml.safe_load(before)
    live_class["metadata"]["annotations"] = class_hashes()
    for body in (live_class, *yaml.safe_load_all(WHEN_EMPTY + claimed(class_hashes()))):
        objects.add(body, Source("cluster"), yields=True)
    compare_with_pools(objects, datetime(2026, 3, 1, tzinfo=UTC))
    (claim,) = objects.of("NodeClaim")
    drifted = ClaimRecord.of(claim.body).condition("Drifted")
    assert (drifted["reason"], drifted["message"]) == (
        "NodeClassDrift",
        "spec.tags, spec.userData of EC2NodeClass default would change",
    )


SICK_KERNEL = """
---
apiVersion: tenon.sh/v1alpha1
kind: NodeRepairPolicy
metadata: {name: kernel}
spec:
  nodePoolSelector: {}
  faults: [{conditionType: KernelDeadlock, conditionStatus: "True", tolerationDuration: 5m}]
"""


def test_n15_126_a_repair_policy_of_the_input_says_which_node_is_unhealthy(tmp_path: Path) -> None:
    """A pod keeps the node, because the policy does not bound its drain."""
    body = json.loads(node("n1", "m5.xlarge", "3900m").removeprefix("\n---\n"))
    deadlock = {"type": "KernelDeadlock", "status": "True", "lastTransitionTime": "2026-01-01T11:00:00Z"}
    body["status"]["conditions"] = [{"type": "Ready", "status": "True"}, deadlock]
    text = PATIENT + SICK_KERNEL + "\n---\n" + json.dumps(body) + pod("a", "n1", **HOLD)
    (stays,) = disrupted(tmp_path, text, "--set", "FEATURE_GATES=NodeRepair=true").plan["staying"]
    assert stays["why"][0] == (
        "Its node is unhealthy (KernelDeadlock is True), but repair requires a termination grace period to bypass "
        "blocking pods: pod default/a: annotation karpenter.sh/do-not-disrupt protects it"
    )
