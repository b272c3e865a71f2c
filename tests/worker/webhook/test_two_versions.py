"""v1 and v1beta1 of one object on a real API server (V1B-01 to V1B-09), and what is left without the webhook."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ForbiddenError
from activities.kubernetes.resources import CRDS, EC2NODECLASSES, NODECLAIMS, NODEPOOLS, SECRETS, Resource
from sandbox.bootstrap import DEPLOY
from tenon.apis.versions.definitions import NAMES
from tests.worker.webhook.conftest import Served
from tests.workflows.waiting import until
from worker.own_namespace import own_namespace
from worker.webhook.secret import SECRET, CertificateSecret

Object = dict[str, Any]
OLD_POOLS, OLD_CLAIMS, OLD_CLASSES = (
    replace(resource, version="v1beta1") for resource in (NODEPOOLS, NODECLAIMS, EC2NODECLASSES)
)
NODE = {"requirements": [{"key": "a", "operator": "Gt", "values": ["3"]}], "nodeClassRef": {"name": "c"}}


def named(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": f"{name}-{uuid.uuid4().hex[:6]}", **metadata}}


def old_pool(**node: Any) -> Object:
    return {**named("old"), "spec": {"template": {"spec": {**NODE, **node}}, "disruption": {"expireAfter": "5h"}}}


def old_class(**spec: Any) -> Object:
    terms = [{"tags": {"a": "b"}}]
    fields = {"amiFamily": "AL2023", "role": "r", "subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms}
    return {**named("class"), "spec": {**fields, **spec}}


async def read(kube: Kube, resource: Resource, name: str) -> Object:
    result = await kube.get(resource, name)
    assert result is not None
    return result


async def converts(served: Served) -> bool:
    """Whether the API server has what it needs, and the webhook answers it."""
    await served.controller.reconcile()
    try:
        await served.admin.list(OLD_POOLS)
        await served.admin.list(OLD_CLAIMS)
        await served.admin.list(OLD_CLASSES)
        await served.admin.create(OLD_POOLS, old_pool())
    except ApiError:
        return False
    return True


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def clean(served: Served) -> AsyncIterator[None]:
    """Removes the objects of these tests: other files share the sandbox, and a worker would act on them."""
    kinds = (NODECLAIMS, NODEPOOLS, EC2NODECLASSES)

    async def objects() -> dict[tuple[Resource, str], Object]:
        return {(kind, obj["metadata"]["name"]): obj for kind in kinds for obj in await served.admin.list(kind)}

    before = await objects()
    yield

    async def gone() -> bool:
        remaining = {key: obj for key, obj in (await objects()).items() if key not in before}
        for (kind, name), obj in remaining.items():
            await served.admin.delete(kind, name)
            if obj["metadata"].get("finalizers"):
                await served.admin.patch(kind, name, {"metadata": {"finalizers": None}})
        return not remaining

    await until(gone)


@pytest_asyncio.fixture(loop_scope="session")
async def kube(served: Served) -> Kube:
    """The administrator, once both versions are served."""
    await until(lambda: converts(served))
    return served.admin


async def test_v1b01_to_v1b05_a_pool_of_v1beta1_is_one_of_v1(kube: Kube) -> None:
    output = await kube.create(OLD_POOLS, old_pool(kubelet={"maxPods": 9}))
    name = output["metadata"]["name"]
    manifest = await read(kube, NODEPOOLS, name)
    assert manifest["spec"]["template"]["spec"]["expireAfter"] == "5h"
    assert manifest["spec"]["template"]["spec"]["nodeClassRef"]["group"] == "karpenter.k8s.aws"
    assert manifest["spec"]["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert manifest["spec"]["disruption"]["consolidateAfter"] == "0s"
    annotation = manifest["metadata"]["annotations"]["compatibility.karpenter.sh/v1beta1-kubelet-conversion"]
    assert json.loads(annotation) == {"maxPods": 9}
    assert name in {pool["metadata"]["name"] for pool in await kube.list(NODEPOOLS)}
    assert (await read(kube, OLD_POOLS, name))["spec"] == output["spec"]


async def test_v1b06_changes_through_either_version_leave_the_rest_as_it_is(kube: Kube) -> None:
    name = (await kube.create(OLD_POOLS, old_pool()))["metadata"]["name"]
    grace = {"spec": {"template": {"spec": {"terminationGracePeriod": "1h"}}}}
    more = {"disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "1", "reasons": ["Empty"]}]}}
    await kube.patch(NODEPOOLS, name, {"spec": {**grace["spec"], **more}})
    old = await read(kube, OLD_POOLS, name)
    assert "terminationGracePeriod" not in old["spec"]["template"]["spec"]
    assert old["spec"]["disruption"]["budgets"] == [{"nodes": "1"}]
    await kube.patch(OLD_POOLS, name, {"spec": {"weight": 7, "disruption": {"expireAfter": "6h"}}})
    spec = (await read(kube, NODEPOOLS, name))["spec"]
    assert (spec["weight"], spec["template"]["spec"]["expireAfter"]) == (7, "6h")
    assert spec["template"]["spec"]["terminationGracePeriod"] == "1h"
    assert spec["disruption"]["consolidateAfter"] == "30s"
    assert spec["disruption"]["budgets"] == [{"nodes": "1", "reasons": ["Empty"]}]


async def test_a_manifest_of_v1beta1_is_applied_again_without_a_change(served: Served, kube: Kube) -> None:
    manifest = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", **old_class()}
    name = manifest["metadata"]["name"]
    arguments = ("apply", "-f", "-")
    assert "created" in await asyncio.to_thread(served.sandbox.kubectl, *arguments, stdin=json.dumps(manifest))
    assert (await read(kube, EC2NODECLASSES, name))["spec"]["amiSelectorTerms"] == [{"alias": "al2023@latest"}]
    assert "unchanged" in await asyncio.to_thread(served.sandbox.kubectl, *arguments, stdin=json.dumps(manifest))
    (generation,) = {(await read(kube, way, name))["metadata"]["generation"] for way in (EC2NODECLASSES, OLD_CLASSES)}
    assert generation == 1
    manifest["spec"]["tags"] = {"team": "a"}
    await asyncio.to_thread(served.sandbox.apply, manifest)  # server-side, which converts the fields of each manager
    assert (await read(kube, EC2NODECLASSES, name))["spec"]["tags"] == {"team": "a"}


async def test_v1b07_a_nodeclaim_of_v1beta1_has_the_age_of_its_pool(served: Served, kube: Kube) -> None:
    pool = (await kube.create(OLD_POOLS, old_pool()))["metadata"]["name"]

    async def aged() -> bool:
        body = {**named("claim", labels={"karpenter.sh/nodepool": pool}), "spec": NODE}
        name = (await kube.create(OLD_CLAIMS, body))["metadata"]["name"]
        manifest = await read(kube, NODECLAIMS, name)
        status = {"status": {"providerID": "aws:///a/i-1", "conditions": []}}
        await kube.patch(NODECLAIMS, name, status, subresource="status")
        assert (await read(kube, OLD_CLAIMS, name))["status"]["providerID"] == "aws:///a/i-1"
        return bool(manifest["spec"]["expireAfter"] == "5h")

    await until(aged)  # pools are read every few seconds


async def test_without_the_webhook_v1_is_whole_and_v1beta1_says_why_not(served: Served, kube: Kube) -> None:
    name = (await kube.create(OLD_POOLS, old_pool()))["metadata"]["name"]
    served.stop()
    try:
        manifest = await read(kube, NODEPOOLS, name)
        assert name in {pool["metadata"]["name"] for pool in await kube.list(NODEPOOLS)}
        spec = {**manifest["spec"], "weight": 3}
        body = {**named("new"), "spec": spec}
        await kube.create(NODEPOOLS, body)
        changed = await kube.patch(NODEPOOLS, name, {"spec": {"weight": 5}})
        assert changed is not None
        query = {"watch": "true", "resourceVersion": manifest["metadata"]["resourceVersion"]}
        async for line in kube.stream(NODEPOOLS.path(), query):
            if json.loads(line)["object"]["metadata"]["name"] == name:
                break
        with pytest.raises(ApiError, match=r"conversion webhook for karpenter.sh/v1.* failed"):
            await kube.create(OLD_POOLS, old_pool())
    finally:
        served.start()
    await until(lambda: converts(served))
    assert (await read(kube, OLD_POOLS, name))["spec"]["weight"] == 5


async def test_v1b06_what_v1_keeps_fixed_is_fixed_through_v1beta1_too(kube: Kube) -> None:
    """NC-01, NP-11: the API server holds a request against the schema of its own version alone."""
    claim = (await kube.create(OLD_CLAIMS, {**named("fixed"), "spec": NODE}))["metadata"]["name"]
    patch = await kube.patch(OLD_CLAIMS, claim, {"metadata": {"annotations": {"a": "b"}}})
    assert patch is not None
    with pytest.raises(ApiError, match="the spec of a NodeClaim cannot be changed"):
        await kube.patch(OLD_CLAIMS, claim, {"spec": {"nodeClassRef": {"name": "other"}}})
    pool = (await kube.create(OLD_POOLS, old_pool()))["metadata"]["name"]
    for change in ({"apiVersion": "other.io/v1"}, {"kind": "Other"}):
        with pytest.raises(ApiError, match="cannot be changed"):
            await kube.patch(OLD_POOLS, pool, {"spec": {"template": {"spec": {"nodeClassRef": change}}}})
    reference = {"kind": "EC2NodeClass", "apiVersion": "karpenter.k8s.aws/v1beta1", "name": "other"}
    assert await kube.patch(OLD_POOLS, pool, {"spec": {"template": {"spec": {"nodeClassRef": reference}}}})


@pytest.mark.parametrize("definition", NAMES)
async def test_v1b09_what_is_stored_as_v1beta1_is_rewritten(served: Served, kube: Kube, definition: str) -> None:
    """As an installed Karpenter of before v1 leaves its objects."""
    at = [version["name"] for version in (await read(kube, CRDS, definition))["spec"]["versions"]]

    async def store_as(version: str) -> None:
        change = [
            {"op": "replace", "path": f"/spec/versions/{n}/storage", "value": item == version}
            for n, item in enumerate(at)
        ]
        await kube.patch(CRDS, definition, change, kind="json")

    async def stored() -> Any:
        return (await read(kube, CRDS, definition))["status"]["storedVersions"]

    pool = (await kube.create(OLD_POOLS, old_pool()))["metadata"]["name"]
    of_pool = {"karpenter.sh/nodepool": pool}

    async def pool_is_known() -> bool:
        claim = await kube.create(OLD_CLAIMS, {**named("first", labels=of_pool), "spec": NODE})
        return bool((await read(kube, NODECLAIMS, claim["metadata"]["name"]))["spec"]["expireAfter"] == "5h")

    if definition == NAMES[1]:
        await until(pool_is_known)  # pools are read every few seconds
    old, new, body = {
        NAMES[0]: (OLD_POOLS, NODEPOOLS, old_pool(kubelet={"maxPods": 9})),
        NAMES[1]: (OLD_CLAIMS, NODECLAIMS, {**named("claim", labels=of_pool), "spec": NODE}),
        NAMES[2]: (OLD_CLASSES, EC2NODECLASSES, old_class()),
    }[definition]
    await store_as("v1beta1")
    name = (await kube.create(old, body))["metadata"]["name"]
    status = {"status": {"conditions": [], "providerID": "aws:///a/i-1"}}
    await kube.patch(old, name, status, subresource="status")
    assert "v1beta1" in await stored()
    await store_as("v1")

    async def migrated() -> bool:
        await served.controller.reconcile()
        return bool(await stored() == ["v1"])

    await until(migrated)
    manifest = await read(kube, new, name)
    assert manifest["metadata"]["annotations"]["karpenter.sh/stored-version-migrated"] == "true"
    assert manifest["metadata"]["generation"] == 1
    if definition == NAMES[1]:
        assert (manifest["spec"]["expireAfter"], manifest["status"]["providerID"]) == ("5h", "aws:///a/i-1")


async def test_replicas_that_begin_together_have_one_certificate(served: Served, kube: Kube) -> None:
    """OPS-05: the second replica reads what the first has made; a lost certificate is made again."""
    namespace = own_namespace()
    await kube.patch(SECRETS, SECRET, {"data": None}, namespace=namespace)
    secrets = [CertificateSecret(kube, namespace) for _ in range(5)]
    ensures = await asyncio.gather(*(secret.ensure(["127.0.0.1"]) for secret in secrets))
    assert len({ensure.certificate for ensure in ensures}) == 1
    assert await secrets[0].read() == ensures[0]


async def test_what_is_installed_again_leaves_the_certificate_as_it_is(served: Served, kube: Kube) -> None:
    """The manifests have the Secret without data: they make it, and never empty it."""
    secret = CertificateSecret(kube, own_namespace())
    before = await secret.ensure(["127.0.0.1"])
    rights = str(DEPLOY / "rbac.yaml")
    for way in ((), ("--server-side", "--force-conflicts")):
        await asyncio.to_thread(served.sandbox.kubectl, "apply", *way, "-f", rights)
        assert await secret.read() == before


async def test_a_worker_may_not_make_a_secret_and_says_who_does(served: Served) -> None:
    """OPS-08: else it could have the token of any ServiceAccount of its namespace put into one."""
    worker = await Kube.connect(str(served.sandbox.worker_kubeconfig))
    try:
        await served.admin.delete(SECRETS, SECRET, namespace=own_namespace())
        with pytest.raises(ForbiddenError, match=r"does not exist .*: apply deploy/rbac.yaml"):
            await CertificateSecret(worker, own_namespace()).ensure(["127.0.0.1"])
        await asyncio.to_thread(served.sandbox.kubectl, "apply", "-f", str(DEPLOY / "rbac.yaml"))
        ensure = await CertificateSecret(worker, own_namespace()).ensure(["127.0.0.1"])
        assert await CertificateSecret(worker, own_namespace()).read() == ensure
    finally:
        await worker.close()
