"""The chart of the CRDs alone (OPS-06): the same CRDs as in deploy/crds, which Helm upgrades and never deletes."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from sandbox import helm
from sandbox.cluster import Sandbox
from tenon.apis.versions.definitions import conversion_patch
from worker.webhook.definitions import SERVICE_PORT
from worker.webhook.server import PATH

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart-crd"
WEBHOOK = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")

Body = dict[str, Any]


def rendered(*arguments: str, chart: Path = CHART) -> dict[str, Body]:
    documents = yaml.safe_load_all(helm.template(chart, *arguments))
    return {document["metadata"]["name"]: document for document in documents if document}


def written() -> dict[str, Body]:
    documents = [yaml.safe_load(path.read_text()) for path in (ROOT / "deploy" / "crds").glob("*.yaml")]
    return {document["metadata"]["name"]: document for document in documents}


def client_config(definition: Body) -> Body:
    config: Body = definition["spec"]["conversion"]["webhook"]["clientConfig"]
    return config


def test_ops06_it_has_the_same_crds_as_the_manifests() -> None:
    expected = written()
    for definition in expected.values():
        definition["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    assert rendered() == expected


def test_both_charts_have_one_version() -> None:
    """Both are upgraded together, so their versions must not differ."""
    item, other = (yaml.safe_load((folder / "Chart.yaml").read_text()) for folder in (ROOT / "deploy" / "chart", CHART))
    assert (item["version"], item["appVersion"]) == (other["version"], other["appVersion"])


def test_a_package_of_it_has_them_too(tmp_path: Path) -> None:
    """The folder of the chart has only a link to deploy/crds."""
    helm.run("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.iterdir()
    assert rendered(chart=package) == rendered()


def test_the_webhook_is_the_service_of_the_other_release() -> None:
    values = ("webhook.serviceName=nodes", "webhook.serviceNamespace=karpenter", "additionalAnnotations.team=platform")
    bodies = rendered(*(word for value in values for word in ("--set", value)))
    for name in WEBHOOK:
        assert client_config(bodies[name])["service"] == {
            "name": "nodes",
            "namespace": "karpenter",
            "path": "/convert",
            "port": 8443,
        }
    for definition in bodies.values():
        assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep", "team": "platform"}
    elsewhere = rendered("--namespace", "karpenter")
    assert client_config(elsewhere[WEBHOOK[0]])["service"]["namespace"] == "karpenter"


def test_an_address_of_the_webhook_takes_the_place_of_the_service() -> None:
    bodies = rendered("--set", "webhook.url=https://10.0.0.1:9443/convert")
    assert [client_config(bodies[name]) for name in WEBHOOK] == [{"url": "https://10.0.0.1:9443/convert"}] * 3


def test_with_the_place_of_the_other_release_the_leader_has_nothing_to_correct() -> None:
    """Otherwise it and a tool that applies the CRDs again, such as Argo CD, undo each other's changes."""
    text = helm.template(CHART.parent / "chart", "--namespace=kube-system", "--set=settings.clusterName=orders")
    services = [document for document in yaml.safe_load_all(text) if document and document["kind"] == "Service"]
    ports = {service["metadata"]["name"]: [port["port"] for port in service["spec"]["ports"]] for service in services}
    place = {"name": "tenon", "namespace": "kube-system", "path": PATH, "port": SERVICE_PORT}
    assert SERVICE_PORT in ports[place["name"]]
    bodies = rendered("--namespace=kube-system")
    of_url = rendered(f"--set=webhook.url=https://10.0.0.1:9443{PATH}")
    for name in WEBHOOK:
        for body, way in (bodies[name], {"service": place}), (of_url[name], {"url": f"https://10.0.0.1:9443{PATH}"}):
            client_config(body)["caBundle"] = "QQ=="  # the leader writes it, and the chart leaves it out
            assert conversion_patch(body, way, "QQ==") is None


def test_the_documents_say_how_to_install_with_gitops() -> None:
    item = (ROOT / "deploy" / "README.md").read_text().partition("\n- With GitOps, ")[2].partition("\n\n")[0]
    values = yaml.safe_load((CHART / "values.yaml").read_text())["webhook"]
    for part in (
        "chart-crd",
        "skipCrds: true",
        *(f"webhook.{name}" for name in ("serviceName", "serviceNamespace", "url")),
    ):
        assert f"`{part}`" in item
        assert part.removeprefix("webhook.") in values or "webhook" not in part


def test_the_notes_name_every_crd_that_an_uninstalled_release_leaves(tmp_path: Path) -> None:
    """Helm renders notes only with a cluster, so here they are a manifest."""
    copy = shutil.copytree(CHART, tmp_path / "chart")
    notes = copy / "templates" / "NOTES.txt"
    (copy / "templates" / "notes.yaml").write_text(
        "metadata: {name: notes}\nnotes: |\n" + indent(notes.read_text(), "  ")
    )
    notes.unlink()
    (command,) = re.findall(r"kubectl delete crd (.*)", str(rendered(chart=copy)["notes"]["notes"]))
    assert sorted(command.split()) == sorted(written())


@pytest.mark.parametrize("wrong", ["webhook.enabled=false", "webhook.servicename=x", "crds.keep=false"])
def test_values_without_a_meaning_are_refused(wrong: str) -> None:
    with pytest.raises(helm.HelmError, match=r"schema|specifications"):
        rendered("--set", wrong)


@pytest.fixture
def release(sandbox: Sandbox) -> Iterator[tuple[str, ...]]:
    """The arguments for a release on a sandbox whose CRDs are those of deploy/crds.

    A worker of an earlier test may have written its ``url`` next to which Helm cannot write a ``service``, so they are
    replaced.
    """
    where = ("tenon-crd", "--namespace=default", f"--kubeconfig={sandbox.kubeconfig}")
    crds = ("replace", f"--filename={ROOT / 'deploy' / 'crds'}")
    sandbox.kubectl(*crds)
    yield where
    helm.run("uninstall", *where, "--ignore-not-found")
    sandbox.kubectl(*crds)


def live(sandbox: Sandbox, name: str) -> Body:
    body: Body = json.loads(sandbox.kubectl("get", "crd", name, "--output=json"))
    return body


def test_a_release_takes_over_and_upgrades_crds_and_leaves_them_behind(
    sandbox: Sandbox, release: tuple[str, ...]
) -> None:
    name, *where = release
    pools = WEBHOOK[0]
    uid = live(sandbox, pools)["metadata"]["uid"]
    with pytest.raises(helm.HelmError, match="invalid ownership metadata"):
        helm.run("install", name, str(CHART), *where)
    helm.run("upgrade", "--install", name, str(CHART), *where, "--take-ownership")
    authority = base64.b64encode((sandbox.layout.pki / "ca.crt").read_bytes()).decode()
    trust = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": authority}}}}}  # as the leader writes it
    sandbox.kubectl("patch", "crd", pools, "--type=merge", f"--patch={json.dumps(trust)}")
    upgraded = ("--set=webhook.serviceName=nodes", "--set=additionalAnnotations.team=platform")
    helm.run("upgrade", name, str(CHART), *where, *upgraded)
    body = live(sandbox, pools)
    assert body["metadata"]["annotations"]["team"] == "platform"
    assert client_config(body)["service"]["name"] == "nodes"
    assert client_config(body)["caBundle"] == authority
    text = helm.run("uninstall", *release)
    assert "kept due to the resource policy" in text
    for definition in written():
        assert f"[CustomResourceDefinition] {definition}" in text
    assert live(sandbox, pools)["metadata"]["uid"] == uid
