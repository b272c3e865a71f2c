"""The Helm chart, rendered by Helm itself (OPS-06, OPS-07): it takes Karpenter's values and says what the plain
manifests say."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox import helm
from sandbox.cluster import Sandbox
from tenon.provisioning.gates import AwsFeatureGates
from tenon.resources import parse_quantity
from tests.deploy import user_of_karpenter_1_15
from tests.docs.recipes import written_files
from worker.controllers.observability.conditions import MAX_SERIES
from worker.main import LEAVE_TIMEOUT, STOP_TIMEOUT
from worker.settings import Settings, load_all
from worker.settings.chart_names import OTHER_VALUE_NAMES, gate_value_name, value_name

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
AS_FOR_KARPENTER = Path(__file__).parent / "values" / "as_for_karpenter.yaml"
NAMED = ("--set", "settings.clusterName=sandbox", "--set", "aws.region=us-west-2")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OF_A_RELEASE = ("instance", "version", "managed-by")

Body = dict[str, Any]


def rendered(*arguments: str, values: Path | None = None) -> list[Body]:
    text = helm.template(CHART, *arguments, values=[values] if values else [])
    return [item for item in yaml.safe_load_all(text) if item]


def notes(sandbox: Sandbox, *arguments: str) -> str:
    """What Helm says after an installation. Nothing is made."""
    where = (
        "--namespace=tenon",
        f"--kubeconfig={sandbox.kubeconfig}",
        "--dry-run=client",
        "--skip-crds",
        "--take-ownership",
    )
    text = helm.run("install", "tenon", str(CHART), *where, *arguments)
    return text.partition("\nNOTES:\n")[2]


def the(documents: list[Body], kind: str) -> Body:
    (result,) = [document for document in documents if document["kind"] == kind]
    return result


def pod(documents: list[Body]) -> Body:
    spec: Body = the(documents, "Deployment")["spec"]["template"]["spec"]
    return spec


def environment(documents: list[Body]) -> dict[str, str]:
    """What the worker's container finds; values that the kubelet fills in are empty."""
    container = pod(documents)["containers"][0]
    value: dict[str, str] = dict(the(documents, "ConfigMap")["data"])
    return value | {item["name"]: item.get("value", "") for item in container["env"]}


def plain(value: Any) -> Any:
    """A document without what only a release of a chart has."""
    if isinstance(value, dict):
        plains = {
            key: plain(value)
            for key, value in value.items()
            if key
            not in ("helm.sh/chart", "checksum/settings", *(f"app.kubernetes.io/{item}" for item in OF_A_RELEASE))
        }
        return {key: plain for key, plain in plains.items() if key != "annotations" or plain}
    return [plain(item) for item in value] if isinstance(value, list) else value


def test_ops06_the_plain_manifests_are_what_the_chart_renders_by_default() -> None:
    documents = rendered(*NAMED)
    written = list(yaml.safe_load_all((ROOT / "deploy" / "deployment.yaml").read_text()))
    for kind in ("Deployment", "PodDisruptionBudget", "Service"):
        assert plain(the(documents, kind)) == plain(the(written, kind))
    assert the(written, "ConfigMap")["metadata"]["name"] == the(documents, "ConfigMap")["metadata"]["name"]
    assert the(written, "ConfigMap")["data"].items() <= environment(documents).items()


def test_files_of_metrics_fit_into_the_pod() -> None:
    """The kernel ends a process that writes to a mapped file when the file system is full. NodeClaims and Nodes have
    the most series, of 10 KiB at most.
    """
    deployment = the(rendered(*NAMED), "Deployment")["spec"]["template"]["spec"]
    (volume,) = [volume for volume in deployment["volumes"] if volume["name"] == "tmp"]
    assert parse_quantity(volume["emptyDir"]["sizeLimit"]) >= 2 * MAX_SERIES * 10 * 1024


def test_ops08_ops09_the_rights_are_those_of_the_plain_manifests() -> None:
    written = list(yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text()))
    for item in written:
        if item["kind"] == "Namespace":
            continue
        name, kind = item["metadata"]["name"], item["kind"]
        (same,) = [body for body in rendered(*NAMED) if (body["kind"], body["metadata"]["name"]) == (kind, name)]
        for part in ("rules", "roleRef", "subjects"):
            assert same.get(part) == item.get(part), f"{kind} {name}"
        assert same["metadata"].get("namespace") == item["metadata"].get("namespace")
        aggregated = {key: value for key, value in item["metadata"]["labels"].items() if "aggregate" in key}
        assert aggregated.items() <= same["metadata"]["labels"].items()


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "rbac-gates").glob("*.yaml")), ids=lambda path: path.stem)
def test_n15_503_a_gate_brings_its_rights(path: Path) -> None:
    """They are those of the plain manifests, and without the gate the worker does not have them."""
    gate = f"settings.featureGates.{gate_value_name(path.stem)}"
    without = rendered(*NAMED)
    added = [document for document in rendered(*NAMED, "--set", f"{gate}=true") if document not in without]
    written = list(yaml.safe_load_all(path.read_text()))
    granted = [document for document in added if "Role" in document["kind"]]
    for part in ("kind", "rules", "roleRef", "subjects"):
        assert [document.get(part) for document in granted] == [document.get(part) for document in written]
    assert [document for document in rendered(*NAMED, "--set-string", f"{gate}=false") if document not in without] == []


def test_ops05_ops08_the_webhook_secret_and_its_right_exist_only_with_the_webhook() -> None:
    with_it, without = rendered(*NAMED), rendered(*NAMED, "--set", "webhook.enabled=false")
    written = list(yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text()))
    secret, plainly = the(with_it, "Secret"), the(written, "Secret")
    assert secret.keys() == plainly.keys() == {"apiVersion", "kind", "metadata"}
    assert secret["metadata"]["name"] == plainly["metadata"]["name"]
    assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert not [item for item in without if item["kind"] == "Secret"]
    rules = [rule for item in without for rule in item.get("rules", ())]
    assert not [rule for rule in rules if "secrets" in rule["resources"]]
    assert len(without) == len(with_it) - 1


@pytest.mark.parametrize("number", ["1000000", "2147483647", "1234567.0"])
def test_set09_large_numbers_of_a_values_file_reach_the_worker_as_numbers(number: str, tmp_path: Path) -> None:
    """Helm takes the numbers of a file for floats; `--set` does not."""
    values = tmp_path / "values.yaml"
    values.write_text(f"settings: {{clusterName: c, kubeClientBurst: {number}, vmMemoryOverheadPercent: 0.05}}")
    settings = load_all({}, environment(rendered(values=values))).settings
    assert settings.kube_client_burst == int(float(number))
    assert settings.vm_memory_overhead_percent == 0.05


def test_ops07_values_of_karpenter_before_1_0_work_and_removed_ones_are_reported(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        "settings: {clusterName: c, assumeRoleARN: 'arn:aws:iam::1:role/x', assumeRoleDuration: 15m,"
        " featureGates: {drift: true, spotToSpotConsolidation: false}}"
    )
    document = load_all({}, environment(rendered(values=values)))
    assert document.settings.cluster_name == "c"
    assert [warning for warning in document.warnings if warning.startswith("ASSUME_ROLE_ARN is no longer a setting")]


def test_n15_641_the_values_of_karpenter_1_15_mean_what_its_deployment_says() -> None:
    documents = rendered(values=user_of_karpenter_1_15.VALUES)
    loaded = load_all({}, environment(documents))
    same = load_all({}, user_of_karpenter_1_15.environment()).settings
    assert loaded.warnings == []
    assert loaded.settings.feature_gates == same.feature_gates
    assert loaded.settings.aws_feature_gates == same.aws_feature_gates
    for field in ("cluster_name", "interruption_queue", "ami_refresh_interval", "ignore_dra_requests"):
        assert getattr(loaded.settings, field) == getattr(same, field)


@pytest.mark.parametrize(("value", "ignored"), [("false", False), ("true", True), ("null", True)])
def test_n15_456_a_false_value_reaches_the_worker_and_none_is_the_default(value: str, ignored: bool) -> None:
    """Karpenter's template dropped ``ignoreDRARequests: false``."""
    result = environment(rendered(*NAMED, "--set-json", f"settings.ignoreDRARequests={value}"))
    assert load_all({}, result).settings.ignore_dra_requests is ignored


def test_n15_641_a_gate_of_1_15_that_has_no_effect_is_named() -> None:
    loaded = load_all({}, environment(rendered(*NAMED, "--set", "settings.awsFeatureGates.draNVIDIAGPU=true")))
    assert loaded.settings.aws_feature_gates == AwsFeatureGates(dra_nvidia_gpu=True)
    assert loaded.warnings == [
        "The feature gate DRANVIDIAGPU=true has no effect in this version: "
        "pods with dynamic resource claims are always left out."
    ]


@pytest.mark.parametrize("way", [0, 1], ids=["Temporal Cloud", "own server"])
def test_the_values_of_the_eks_page_reach_the_worker(way: int, tmp_path: Path) -> None:
    """The page writes them to a file, one for each way to get a Temporal server."""
    values = written_files(ROOT / "docs" / "eks.md", "tenon-values.yaml")[way]
    file = tmp_path / "tenon-values.yaml"
    file.write_text(yaml.safe_dump(values))
    documents = rendered("--set", "settings.clusterName=orders", values=file)
    result = environment(documents)
    assert (result["TEMPORAL_ADDRESS"], result["TEMPORAL_NAMESPACE"]) == tuple(values["temporal"].values())
    own = {"configMapRef": {"name": "tenon-settings"}}
    assert pod(documents)["containers"][0]["envFrom"] == [own, *values.get("controller", {}).get("envFrom", [])]


def test_ops07_every_setting_can_be_set() -> None:
    """SET-01 to SET-30: what the chart cannot set, nobody who installs by chart has."""
    usual = Settings(cluster_name="prod").as_environment()
    under = {
        value_name(field): usual[field.upper()] or "given"
        for field in Settings.model_fields
        if field not in OTHER_VALUE_NAMES
    }
    result = environment(rendered("--set-json", f"settings={json.dumps(under)}"))
    assert result.keys() >= usual.keys()


@pytest.mark.parametrize("values", [None, AS_FOR_KARPENTER], ids=["default", "as for Karpenter"])
def test_the_worker_takes_what_the_chart_gives_it(values: Path | None) -> None:
    """No variable is unknown, malformed, or other than its default unless the values say so."""
    document = load_all({}, environment(rendered(*(() if values else NAMED), values=values)))
    if values is None:
        assert document.warnings == []
        assert document.settings == Settings(cluster_name="sandbox", karpenter_service="tenon")
    else:
        assert document.settings.batch_max_duration.seconds == 30
        assert document.settings.feature_gates.static_capacity
        assert (document.settings.reserved_enis, document.settings.isolated_vpc, document.settings.metrics_port) == (
            1,
            True,
            8000,
        )
        assert document.settings.interruption_queue == "prod"
        assert not any("INTERRUPTION_QUEUE" in warning for warning in document.warnings)


def test_ops07_a_values_file_for_karpenter_means_the_same_here() -> None:
    documents = rendered(values=AS_FOR_KARPENTER)
    body = pod(documents)
    account = the(documents, "ServiceAccount")["metadata"]
    assert account["annotations"]["eks.amazonaws.com/role-arn"].endswith("role/KarpenterControllerRole-prod")
    assert the(documents, "Deployment")["spec"]["replicas"] == 3
    assert body["serviceAccountName"] == account["name"]
    assert (body["priorityClassName"], body["dnsPolicy"]) == ("system-node-critical", "Default")
    container, sidecar = body["containers"]
    assert container["image"].startswith("public.ecr.aws/example/tenon:1.2.3@sha256:1111")
    assert {"name": "AWS_REGION", "value": "eu-central-1"} in container["env"]
    assert [port["containerPort"] for port in container["ports"]] == [8000, 8001, 8443]
    (apart,) = body["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = the(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert apart["labelSelector"]["matchLabels"].items() <= labels.items()
    assert "appArmorProfile" not in container["securityContext"], "the API server refuses an empty one"
    token, more = {"name": "token", "mountPath": "/token"}, {"name": "token", "mountPath": "/more"}
    assert token in container["volumeMounts"]
    assert sidecar["volumeMounts"] == [token, more]
    assert [init_container["name"] for init_container in body["initContainers"]] == ["wait"]
    assert body["imagePullSecrets"] == [{"name": "registry"}]
    monitor = the(documents, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (monitor["spec"]["sampleLimit"], endpoint["interval"]) == (1000000, "15s")
    assert endpoint["relabelings"][0]["targetLabel"] == "cluster"
    assert endpoint["metricRelabelings"][0]["action"] == "labeldrop"
    for document in documents:
        assert document["metadata"]["annotations"]["owner"] == "platform", document["kind"]
        assert document["metadata"]["labels"]["team"] == "platform", document["kind"]
    assert the(documents, "PodDisruptionBudget")["metadata"]["name"] == "karpenter"


@pytest.mark.parametrize(
    ("values", "honored"),
    [
        ((), None),
        (("serviceMonitor.honorLabels=true",), True),
        (("serviceMonitor.endpointConfig.honorLabels=true",), True),
        (("serviceMonitor.honorLabels=true", "serviceMonitor.endpointConfig.honorLabels=false"), False),
        (("serviceMonitor.honorLabels=true", "serviceMonitor.endpointConfig=null"), True),
    ],
)
def test_labels_of_metrics_are_honored_only_if_asked(values: tuple[str, ...], honored: bool | None) -> None:
    """As in Karpenter's chart, `namespace` becomes `exported_namespace` by default. The endpoint's own field wins."""
    arguments = [part for value in ("serviceMonitor.enabled=true", *values) for part in ("--set", value)]
    (endpoint,) = the(rendered(*NAMED, *arguments), "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint.get("honorLabels") is honored


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("settings.batchMaxDuraton=3s", "batchMaxDuraton"),
        ("settings.preferencePolicy=Lax", "preferencePolicy"),
        ("settings.featureGates.nodeOverlays=true", "nodeOverlays"),
        ("settings.kubeClientBurst=0", "kubeClientBurst"),
        ("settings.clusterName=", "settings.clusterName is required"),
        ("settings.aws.clusterName=c", "aws"),
        ("replica=3", "replica"),
        ("controller.resource.limits.cpu=1", "resource"),
        ("serviceMonitor.enable=true", "enable"),
        ("controller.image.tag=1", "tag"),
        ("webhook.enabled=off", "webhook"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_before_anything_is_installed(wrong: str, why: str) -> None:
    with pytest.raises(helm.HelmError, match=why):
        rendered(*NAMED, "--set", wrong)


MANAGED = "karpenter.sh/nodepool"
UNMANAGED = {"key": MANAGED, "operator": "DoesNotExist"}
SYSTEM = {"key": "eks.amazonaws.com/nodegroup", "operator": "In", "values": ["system"]}
OWN_POOL = {"key": MANAGED, "operator": "In", "values": ["system"]}


@pytest.mark.parametrize(
    ("affinity", "expressions"),
    [
        (None, [[UNMANAGED]]),
        ({"nodeAffinity": None}, [[UNMANAGED]]),
        (
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [SYSTEM]}, {"matchFields": []}]}}},
            [[SYSTEM, UNMANAGED], [UNMANAGED]],
        ),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OWN_POOL]}]}}}, [[OWN_POOL]]),
    ],
    ids=["no affinity", "no node affinity", "terms of the user", "a term that names the label"],
)
def test_ops11_no_affinity_puts_the_worker_on_a_node_that_it_manages(
    affinity: Body | None, expressions: list[list[Body]]
) -> None:
    body = pod(rendered(*NAMED, "--set-json", f"affinity={json.dumps(affinity)}"))
    terms = body["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [term["matchExpressions"] for term in terms] == expressions


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_ops07_only_terms_without_a_selector_mean_the_pods_of_the_release(kind: str) -> None:
    """As in Karpenter's chart, in required and in preferred terms."""
    own = {"app.kubernetes.io/name": "tenon", "app.kubernetes.io/instance": "tenon"}
    others = [{"matchLabels": {"app": "temporal"}}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, {}]
    selectors = [None, *others]

    def terms() -> list[Body]:
        return [{"topologyKey": "zone", **({"labelSelector": item} if item is not None else {})} for item in selectors]

    affinity = {kind: {REQUIRED: terms(), PREFERRED: [{"weight": 1, "podAffinityTerm": term} for term in terms()]}}
    spread = [{**term, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"} for term in terms()]
    values = {"affinity": affinity, "topologySpreadConstraints": spread}
    body = pod(rendered(*NAMED, *(f"--set-json={name}={json.dumps(value)}" for name, value in values.items())))
    weighted = body["affinity"][kind][PREFERRED]
    assert [term["weight"] for term in weighted] == [1] * 4
    of_weighted = [term["podAffinityTerm"] for term in weighted]
    for part in (body["affinity"][kind][REQUIRED], of_weighted, body["topologySpreadConstraints"]):
        assert [term["labelSelector"] for term in part] == [{"matchLabels": own}, *others]


def test_the_notes_name_the_values_that_are_ignored(sandbox: Sandbox) -> None:
    ignored = yaml.safe_load((CHART / "files" / "ignored.yaml").read_text())
    options = [*NAMED, *(word for path in ignored for word in ("--set", f"{path}=x"))]
    text, usual = notes(sandbox, *options), notes(sandbox, *NAMED)
    guide = (ROOT / "docs" / "migrate.md").read_text()
    for path, instead in ignored.items():
        assert f"{path}: {instead}" in text
        assert path not in usual
        assert f"`{path}`" in guide


def test_ops06_the_requests_and_limits_are_those_that_the_documents_derive() -> None:
    """A table says for each value which measurement it follows from."""
    (container,) = pod(rendered(*NAMED))["containers"]
    text = (ROOT / "docs" / "real-pods.md").read_text()
    derived = dict(re.findall(r"^\| `((?:requests|limits)\.\w+)` \| (\w+) \|", text, re.MULTILINE))
    values = {f"{kind}.{name}": value for kind, of in container["resources"].items() for name, value in of.items()}
    assert derived == values | {"limits.cpu": "none"}
    measured = re.findall(r"^\|.*\| (\d+) \| (\d+) \| [\d.]+", text, re.MULTILINE)
    assert len(measured) == 4, "at the start, at rest, in the demo, in a burst"
    assert max(int(figure) for row in measured for figure in row) * 2**20 < parse_quantity(values["requests.memory"])


def test_charts_have_no_faults_that_helm_finds() -> None:
    helm.run("lint", "--strict", str(CHART), "--set", "settings.clusterName=sandbox")
    helm.run("lint", "--strict", str(CHART), "--values", str(AS_FOR_KARPENTER))
    helm.run("lint", "--strict", str(ROOT / "deploy" / "chart-crd"))


def test_a_release_of_another_name_in_another_namespace_keeps_together() -> None:
    documents = rendered(*NAMED, "--set", "fullnameOverride=nodes", "--namespace", "karpenter")
    assert environment(documents)["KARPENTER_SERVICE"] == the(documents, "Service")["metadata"]["name"] == "nodes"
    for document in documents:
        for subject in document.get("subjects", ()):
            assert (subject["name"], subject["namespace"]) == ("nodes", "karpenter")
        if document["kind"].endswith("RoleBinding"):
            roles = [item["metadata"]["name"] for item in documents if item["kind"] == document["roleRef"]["kind"]]
            assert document["roleRef"]["name"] in roles


def test_the_api_server_serves_tenon_before_other_workloads() -> None:
    """As Karpenter in kube-system, whose own schemas give it these levels."""
    schemas = [body for body in rendered(*NAMED, "--namespace", "tenon") if body["kind"] == "FlowSchema"]
    assert {schema["spec"]["priorityLevelConfiguration"]["name"] for schema in schemas} == {
        "leader-election",
        "workload-high",
    }
    for item in schemas:
        (rule,) = item["spec"]["rules"]
        account = {"name": "tenon", "namespace": "tenon"}
        assert rule["subjects"] == [{"kind": "ServiceAccount", "serviceAccount": account}]
    leases, rest = sorted(schemas, key=lambda schema: int(schema["spec"]["matchingPrecedence"]))
    assert leases["spec"]["rules"][0]["resourceRules"][0]["resources"] == ["leases"]
    assert rest["spec"]["rules"][0]["resourceRules"][0]["resources"] == ["*"]
    documents = rendered(*NAMED, "--namespace", "kube-system")
    assert "FlowSchema" not in {document["kind"] for document in documents}


def test_a_lease_of_another_name_may_be_held_and_that_of_a_karpenter_seen() -> None:
    documents = rendered(*NAMED, "--set", "settings.leaderElectionName=ours")
    rules = [
        rule for document in documents for rule in document.get("rules", ()) if rule.get("resources") == ["leases"]
    ]
    assert sorted(rule.get("resourceNames", []) for rule in rules) == [
        [],
        ["karpenter-leader-election", "ours"],
        ["ours"],
    ]


def test_a_network_policy_lets_only_monitoring_read_metrics() -> None:
    assert "NetworkPolicy" not in {body["kind"] for body in rendered(*NAMED)}
    documents = rendered(*NAMED, "--set", "networkPolicy.enabled=true")
    policy = the(documents, "NetworkPolicy")["spec"]
    assert policy["podSelector"] == the(documents, "Deployment")["spec"]["selector"]
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [
        {"from": [monitoring], "ports": [{"port": "http-metrics"}]},
        {"ports": [{"port": "https-webhook"}]},
    ]
    ports = {port["name"] for container in pod(documents)["containers"] for port in container["ports"]}
    assert ports >= {"http-metrics", "https-webhook"}


def test_a_network_policy_without_monitoring_and_webhook_allows_no_traffic() -> None:
    closed = ("networkPolicy.enabled=true", "networkPolicy.metricsFrom=null", "webhook.enabled=false")
    documents = rendered(*NAMED, *(word for item in closed for word in ("--set", item)))
    assert the(documents, "NetworkPolicy")["spec"]["ingress"] == []


def test_ops07_the_chart_may_be_part_of_another_one(tmp_path: Path) -> None:
    """Helm then adds `global`, and `enabled` if that is the condition. Settings may be templates, as in Karpenter's."""
    shutil.copytree(CHART, tmp_path / "charts" / "tenon")
    dependency = {"name": "tenon", "version": "0.1.0", "condition": "tenon.enabled"}
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [dependency]}
    cluster = "{{ .Values.global.cluster }}"
    settings = {"clusterName": cluster, "leaderElectionName": f"{cluster}-lease", "defaultTags": '{"team": "a"}'}
    values = {"global": {"cluster": "orders"}, "tenon": {"enabled": True, "settings": settings}}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(chart))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    documents = [body for body in yaml.safe_load_all(helm.template(tmp_path)) if body]
    data = the(documents, "ConfigMap")["data"]
    assert (data["CLUSTER_NAME"], data["LEADER_ELECTION_NAME"], data["DEFAULT_TAGS"]) == (
        "orders",
        "orders-lease",
        '{"team": "a"}',
    )
    leases = [rule for body in documents for rule in body.get("rules", ()) if rule.get("resources") == ["leases"]]
    names = {name for rule in leases for name in rule.get("resourceNames", ())}
    assert names == {"karpenter-leader-election", "orders-lease"}
    assert "{{" not in str(documents)
    assert not helm.template(tmp_path, "--set", "tenon.enabled=false").strip()
    with pytest.raises(helm.HelmError, match=r"settings\.clusterName is required"):
        helm.template(tmp_path, "--set", "global.cluster=")


def test_the_chart_brings_every_crd() -> None:
    brought = {body["metadata"]["name"] for body in rendered(*NAMED, "--include-crds") if "Definition" in body["kind"]}
    written = [yaml.safe_load(path.read_text()) for path in (ROOT / "deploy" / "crds").glob("*.yaml")]
    assert brought == {item["metadata"]["name"] for item in written}


@pytest.mark.parametrize("values", [None, AS_FOR_KARPENTER], ids=["default", "as for Karpenter"])
def test_an_api_server_takes_what_the_chart_renders(sandbox: Sandbox, values: Path | None) -> None:
    """Every field is known and valid, though nothing is made. No sandbox has the ServiceMonitor kind."""
    arguments = () if values else (*NAMED, "--set", "networkPolicy.enabled=true")
    documents = [body for body in rendered(*arguments, values=values) if body["kind"] != "ServiceMonitor"]
    sandbox.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=yaml.safe_dump_all(documents),
    )


def test_an_uninstalled_release_leaves_what_it_says(sandbox: Sandbox) -> None:
    """A release of another name, in a cluster that has the CRDs and a NodePool."""
    where = ("nodes", "--namespace=default", f"--kubeconfig={sandbox.kubeconfig}")
    pool = yaml.safe_load((ROOT / "examples" / "nodepool.yaml").read_text())
    pool["metadata"]["name"] = "left"
    sandbox.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(pool))
    value = ("--set=fullnameOverride=nodes", "--set=replicas=0", *NAMED)
    try:
        text = helm.run("install", *where[:1], str(CHART), *where[1:], *value)
        assert "`helm uninstall nodes` stops Tenon and leaves everything that runs" in text
        before = sandbox.kubectl("get", "deployments,secrets", "--namespace=default", "--output=name").split()
        remainder = helm.run("uninstall", *where)
        after = sandbox.kubectl("get", "deployments,secrets", "--namespace=default", "--output=name").split()
        assert set(before) - set(after) == {"deployment.apps/nodes", "secret/sh.helm.release.v1.nodes.v1"}
        assert "secret/tenon-webhook-cert" in after
        assert "[Secret] tenon-webhook-cert" in remainder
        assert not sandbox.kubectl("get", "clusterroles", "nodes", "--ignore-not-found")
        assert "left" in sandbox.kubectl("get", "nodepools", "--output=name")
    finally:
        helm.run("uninstall", *where, "--ignore-not-found")
        sandbox.kubectl("delete", "secret", "tenon-webhook-cert", "--namespace=default", "--ignore-not-found")
        sandbox.kubectl("delete", "nodepool", "left")


def test_a_chart_with_worker_versioning_names_the_version_and_gives_its_runs_time_to_leave() -> None:
    """Two images of one tag are two versions. A worker without the time would leave nodes without a worker."""
    digest = "sha256:" + "0123456789abcdef" * 4
    values = ("settings.workerVersioning=Automatic", "controller.image.tag=1.2.3", f"controller.image.digest={digest}")
    documents = rendered(*NAMED, *(argument for value in values for argument in ("--set", value)))
    assert environment(documents)["TEMPORAL_WORKER_BUILD_ID"] == "1.2.3-0123456789ab"
    assert environment(documents)["WORKER_VERSIONING"] == "Automatic"
    by_default = rendered(*NAMED)
    assert "TEMPORAL_WORKER_BUILD_ID" not in environment(by_default)
    grace = pod(by_default)["terminationGracePeriodSeconds"]
    assert grace > STOP_TIMEOUT, "the rest is for stopping the probes and releasing the Lease"
    assert pod(documents)["terminationGracePeriodSeconds"] == grace + LEAVE_TIMEOUT


def test_a_chart_for_temporals_worker_controller_has_its_objects_with_the_pods_of_the_deployment() -> None:
    """The controller chooses the build ID, so the chart names none."""
    value = ("--set", "workerController.enabled=true", "--set", "settings.workerVersioning=Manual")
    documents = rendered(*NAMED, *value)
    deployment = the(documents, "WorkerDeployment")
    template = the(rendered(*NAMED, "--set", "settings.workerVersioning=Manual"), "Deployment")["spec"]["template"]
    for term in (
        *template["spec"]["affinity"]["podAntiAffinity"][REQUIRED],
        *template["spec"]["topologySpreadConstraints"],
    ):
        term["matchLabelKeys"] = ["temporal.io/build-id"]
    assert deployment["spec"]["template"] == template
    assert set(deployment["spec"]) == {"replicas", "workerOptions", "rollout", "sunset", "template"}
    assert the(documents, "Connection")["spec"] == {"hostPort": "temporal-frontend.temporal:7233"}
    assert "TEMPORAL_WORKER_BUILD_ID" not in str(deployment)
    assert not [document for document in documents if document["kind"] == "Deployment"]


def test_only_pods_of_one_version_of_the_worker_controller_stay_apart() -> None:
    """Otherwise the pods of a new version wait for those of the earlier one to leave, which wait for them."""
    values = {
        "workerController": {"enabled": True},
        "settings": {"workerVersioning": "Manual"},
        "affinity": {
            "podAntiAffinity": {
                REQUIRED: [
                    {"topologyKey": "host"},
                    {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "temporal"}}},
                    {"topologyKey": "host", "matchLabelKeys": ["team"]},
                ],
                PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}],
            },
            "podAffinity": {REQUIRED: [{"topologyKey": "region"}]},
        },
    }
    documents = rendered(*(f"--set-json={name}={json.dumps(value)}" for name, value in values.items()), *NAMED)
    affinity = the(documents, "WorkerDeployment")["spec"]["template"]["spec"]["affinity"]
    version = ["temporal.io/build-id"]
    terms = affinity["podAntiAffinity"][REQUIRED]
    assert [term.get("matchLabelKeys") for term in terms] == [version, None, ["team"]]
    assert affinity["podAntiAffinity"][PREFERRED][0]["podAffinityTerm"]["matchLabelKeys"] == version
    assert "matchLabelKeys" not in affinity["podAffinity"][REQUIRED][0]


def test_a_chart_for_temporals_worker_controller_is_refused_without_manual_versioning() -> None:
    with pytest.raises(helm.HelmError, match=r"needs settings\.workerVersioning: Manual"):
        rendered(*NAMED, "--set", "workerController.enabled=true")


def test_the_shadow_comes_without_the_worker_and_may_only_read() -> None:
    pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: a\n"
    documents = rendered(*NAMED, "--set", "shadow.enabled=true", "--set", f"shadow.manifests={pool}")
    roles = [item for item in documents if item["kind"] in ("Role", "ClusterRole")]
    assert {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert not any("secrets" in rule["resources"] for role in roles for rule in role["rules"])
    assert {item["roleRef"]["name"] for item in documents if item["kind"].endswith("Binding")} == {
        role["metadata"]["name"] for role in roles
    }
    (container,) = pod(documents)["containers"]
    assert container["args"][0] == "shadow"
    assert the(documents, "Deployment")["spec"]["replicas"] == 1
    assert yaml.safe_load(the(documents, "ConfigMap")["data"]["manifests.yaml"])["metadata"]["name"] == "a"
    assert {"FlowSchema", "PodDisruptionBudget", "PrometheusRule"}.isdisjoint(item["kind"] for item in documents)


def test_the_shadow_keeps_its_state_on_a_claim_if_one_is_named() -> None:
    with_claim = rendered(*NAMED, "--set", "shadow.enabled=true", "--set", "shadow.existingClaim=state")
    volumes = {volume["name"]: volume for volume in pod(with_claim)["volumes"]}
    assert volumes["state"]["persistentVolumeClaim"]["claimName"] == "state"
    assert "manifests" not in volumes
