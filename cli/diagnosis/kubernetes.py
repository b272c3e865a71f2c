"""Checks the API server, the worker's rights, the CRDs, who leads, and what the user's classes and pools say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from activities.cluster_version import server_version
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import (
    ACCESS_REVIEWS,
    CRDS,
    EC2NODECLASSES,
    LEASES,
    NODECLAIMS,
    NODEPOOLS,
    Resource,
)
from cli.diagnosis.finding import Finding, fault, ok, unknown, warning
from cli.diagnosis.rights import RIGHTS, Right
from tenon.apis import managed
from tenon.apis.crd import custom_resource_definitions
from tenon.apis.json_object import JsonObject
from tenon.kube import object_json
from tenon.kube.conditions import condition, is_true, true_since
from tenon.lifecycle.registration import JOINS_WITHIN, NOT_JOINED
from tenon.sentences import first_few
from worker.runtime.lease import is_tenons

CONCURRENCY = 8
"""Requests at the same time."""
MAIN_CRDS = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")
"""The CRDs without which Tenon cannot work, and which its ClusterRole lets it read."""
SHOWN = 5
"""How many names a sentence lists at most."""


async def check_kubernetes(kube: Kube, now: datetime) -> list[Finding]:
    """Check the cluster that ``kube`` is connected to."""
    try:
        version = server_version(await kube.request("GET", "/version"))
    except ApiError as error:
        return [fault("API server", f"{str(error).rstrip('.')}.", "check KUBECONFIG and that the server is up")]
    found = [ok("API server", f"The API server runs Kubernetes {version}.")]
    for check in (_rights, _definitions, _leader):
        found += await _guarded(check, kube)
    found += await _guarded(_objects, kube)
    found += await _guarded(lambda each: _claims(each, now), kube)
    return found


async def _guarded(check: Callable[[Kube], Any], kube: Kube) -> list[Finding]:
    """Run a check. What the API server refuses makes only this check unknown."""
    try:
        findings: list[Finding] = await check(kube)
    except ApiError as error:
        return [unknown("Kubernetes", f"{str(error).rstrip('.')}.")]
    return findings


async def _rights(kube: Kube) -> list[Finding]:
    missing: list[Right] = []

    async def review(right: Right) -> None:
        resource, _, subresource = right.resource.partition("/")
        asked = {
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "verb": right.verb,
            "name": right.name,
        }
        answer = await kube.create(ACCESS_REVIEWS, {"spec": {"resourceAttributes": asked}})
        if not (answer.get("status") or {}).get("allowed"):
            missing.append(right)

    await bounded(RIGHTS, CONCURRENCY, review)
    if not missing:
        return [ok("rights in Kubernetes", f"These credentials have all {len(RIGHTS)} rights of deploy/rbac.yaml.")]
    named = first_few(sorted(map(str, missing)), SHOWN)
    return [fault("rights in Kubernetes", f"These credentials may not {named}.", "apply deploy/rbac.yaml")]


async def _definitions(kube: Kube) -> list[Finding]:
    expected = {each["metadata"]["name"]: each for each in custom_resource_definitions().values()}
    found = []
    for name in MAIN_CRDS:
        installed = await kube.get(CRDS, name)
        mend = "run: kubectl apply --server-side -f deploy/crds"
        if installed is None:
            found.append(fault("CRDs", f"{name} is not installed.", mend))
        elif lacking := sorted(_fields(expected[name]) - _fields(installed)):
            fields = first_few(lacking, SHOWN)
            found.append(warning("CRDs", f"{name} is older than this Tenon: it lacks {fields}.", mend))
    return found or [ok("CRDs", "NodePool, NodeClaim and EC2NodeClass have every version and field of this Tenon.")]


def _fields(definition: JsonObject) -> set[str]:
    """The served versions and the paths of their fields, as ``v1 spec.template.spec.taints``."""
    found = set()
    for version in definition["spec"]["versions"]:
        if version.get("served"):
            found.add(version["name"])
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            found |= {f"{version['name']} {path}" for path in _paths(schema, "")}
    return found


def _paths(schema: Mapping[str, Any], before: str) -> Iterator[str]:
    for name, each in (schema.get("properties") or {}).items():
        if before or name in ("spec", "status"):
            path = f"{before}.{name}" if before else name
            yield path
            yield from _paths(each, path)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _paths(schema[key], before)


async def _leader(kube: Kube) -> list[Finding]:
    leases = await kube.list(LEASES, field_selector="metadata.name=karpenter-leader-election")
    holders = {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": str(
            (each.get("spec") or {}).get("holderIdentity") or ""
        )
        for each in leases
    }
    held = {key: holder for key, holder in holders.items() if holder}
    others = {key: holder for key, holder in held.items() if not is_tenons(holder)}
    if others:
        key, holder = min(others.items())
        sentence = f"{holder}, which is not Tenon, holds the Lease {key}: Tenon stands by while it renews it"
        sentence += ", unless the Lease has the event LeaseIgnored."
        return [warning("leader", sentence, "stop Karpenter, as docs/migrate.md says")]
    if not held:
        return [warning("leader", "No worker leads.", "start a worker, or look at the log of the one that runs")]
    key, holder = min(held.items())
    return [ok("leader", f"{holder} holds the Lease {key}.")]


async def _objects(kube: Kube) -> list[Finding]:
    found: list[Finding] = []
    for resource, ours in ((EC2NODECLASSES, lambda _: True), (NODEPOOLS, managed.manages_pool)):
        objects = [each for each in await kube.list(resource) if ours(each)]
        found += _readiness(resource, objects)
    return found


def _readiness(resource: Resource, objects: list[JsonObject]) -> list[Finding]:
    if not objects:
        mend = f"apply one, such as examples/{resource.kind.lower()}.yaml"
        return [warning(resource.kind, f"The cluster has no {resource.kind}, so Tenon buys nothing.", mend)]
    found = []
    for each in objects:
        if not is_true(each, "Ready"):
            conditions = (each.get("status") or {}).get("conditions") or []
            why = "; ".join(
                f"{one['type']}: {one.get('message') or one.get('reason')}"
                for one in conditions
                if one.get("status") != "True" and one["type"] != "Ready"
            )
            name = each["metadata"]["name"]
            sentence = f"{resource.kind} {name} is not Ready. {why or 'No worker has reconciled it yet'}".rstrip(".")
            mend = f"see: kubectl describe {resource.kind.lower()} {name}"
            found.append(fault(resource.kind, f"{sentence}.", mend))
    return found or [ok(resource.kind, f"Every {resource.kind} is Ready ({len(objects)}).")]


async def _claims(kube: Kube, now: datetime) -> list[Finding]:
    claims = [each for each in await kube.list(NODECLAIMS) if managed.manages_claim(each)]
    late = {each["metadata"]["name"]: condition(each, "Registered") for each in claims if _joins_late(each, now)}
    refused = {
        each["metadata"]["name"]: condition(each, "Launched").get("message", "")
        for each in claims
        if condition(each, "Launched").get("status") in ("False", "Unknown")
        and condition(each, "Launched").get("reason") not in (None, "AwaitingReconciliation")
    }
    found = []
    if late:
        mend = (
            "check that the node role has an access entry (docs/eks.md), and the console output of the instance "
            "(aws ec2 get-console-output)"
        )
        nodeclaims = first_few(sorted(late), SHOWN)
        read = min((name for name in late if late[name].get("reason") == NOT_JOINED), default="")
        why = f" {read}: {late[read].get('message', '').rstrip('.')}." if read else ""
        found.append(fault("registration", f"The nodes of {nodeclaims} run, but do not join the cluster.{why}", mend))
    if refused:
        name, why = min(refused.items())
        sentence = f"{len(refused)} NodeClaims are not launched, such as {name}: {why.rstrip('.')}."
        found.append(fault("launches", sentence, "see: tenon node list --blocked"))
    return found or [ok("NodeClaims", f"Every NodeClaim is launched and has joined in time ({len(claims)}).")]


def _joins_late(claim: JsonObject, now: datetime) -> bool:
    since = true_since(claim, "Launched")
    waits = since is not None and now - since > JOINS_WITHIN
    return waits and not is_true(claim, "Registered") and not object_json.is_deleting(claim)
