"""Checks the API server, the worker's rights, the CRDs, who leads, and what the user's classes and pools say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

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
from activities.nodeclass.cluster_version import server_version
from cli.diagnosis.finding import DoctorFinding, fault, ok, unknown, warning
from cli.diagnosis.rights import RIGHTS, Right
from tenon.apis import managed
from tenon.apis.crd import custom_resource_definitions
from tenon.apis.json_object import JsonObject
from tenon.kube import object_json
from tenon.kube.conditions import condition, is_true, true_since
from tenon.node.registration import JOINS_WITHIN, NOT_JOINED
from tenon.sentences import first_few
from worker.runtime.election.lease import LEASE_NAME, is_tenons
from worker.settings import Settings

CONCURRENCY = 8
"""Requests at the same time."""
MAIN_CRDS = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")
"""The CRDs without which Tenon cannot work, and which its ClusterRole lets it read."""
SHOWN = 5
"""How many names a sentence lists at most."""


async def check_kubernetes(kube: Kube, now: datetime, settings: Settings | None) -> list[DoctorFinding]:
    """Check the cluster that ``kube`` is connected to. ``settings``: the worker's; None if they cannot be used."""
    try:
        version = server_version(await kube.request("GET", "/version"))
    except ApiError as error:
        return [fault("API server", f"{str(error).rstrip('.')}.", "check KUBECONFIG and that the server is up")]
    findings = [ok("API server", f"The API server runs Kubernetes {version}.")]
    for check in (_rights, check_definitions, partial(_leader, settings=settings)):
        findings += await _guarded(check, kube)
    findings += await _guarded(_objects, kube)
    findings += await _guarded(lambda kube_client: _claims(kube_client, now), kube)
    return findings


async def _guarded(check: Callable[[Kube], Any], kube: Kube) -> list[DoctorFinding]:
    """Run a check. What the API server refuses makes only this check unknown."""
    try:
        findings: list[DoctorFinding] = await check(kube)
    except ApiError as error:
        return [unknown("Kubernetes", f"{str(error).rstrip('.')}.")]
    return findings


async def _rights(kube: Kube) -> list[DoctorFinding]:
    missing: list[Right] = []

    async def review(right: Right) -> None:
        resource, _, subresource = right.resource.partition("/")
        permissions = {
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "verb": right.verb,
            "name": right.name,
        }
        answer = await kube.create(ACCESS_REVIEWS, {"spec": {"resourceAttributes": permissions}})
        if not (answer.get("status") or {}).get("allowed"):
            missing.append(right)

    await bounded(RIGHTS, CONCURRENCY, review)
    if not missing:
        return [ok("rights in Kubernetes", f"These credentials have all {len(RIGHTS)} rights of deploy/rbac.yaml.")]
    missing_text = first_few(sorted(map(str, missing)), SHOWN)
    return [fault("rights in Kubernetes", f"These credentials may not {missing_text}.", "apply deploy/rbac.yaml")]


async def check_definitions(kube: Kube) -> list[DoctorFinding]:
    """Check that the main CRDs are installed, with every version and field of this Tenon."""
    expected = {definition["metadata"]["name"]: definition for definition in custom_resource_definitions().values()}
    findings = []
    for name in MAIN_CRDS:
        installed = await kube.get(CRDS, name)
        remedy = "run: kubectl apply --server-side --force-conflicts -f deploy/crds"
        if installed is None:
            findings.append(fault("CRDs", f"{name} is not installed.", remedy))
        elif lacking := sorted(_fields(expected[name]) - _fields(installed)):
            fields = first_few(lacking, SHOWN)
            findings.append(warning("CRDs", f"{name} is older than this Tenon: it lacks {fields}.", remedy))
    return findings or [ok("CRDs", "NodePool, NodeClaim and EC2NodeClass have every version and field of this Tenon.")]


def _fields(definition: JsonObject) -> set[str]:
    """The served versions and the paths of their fields, as ``v1 spec.template.spec.taints``."""
    paths = set()
    for version in definition["spec"]["versions"]:
        if version.get("served"):
            paths.add(version["name"])
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            paths |= {f"{version['name']} {path}" for path in _paths(schema, "")}
    return paths


def _paths(schema: Mapping[str, Any], before: str) -> Iterator[str]:
    for name, property_schema in (schema.get("properties") or {}).items():
        if before or name in ("spec", "status"):
            path = f"{before}.{name}" if before else name
            yield path
            yield from _paths(property_schema, path)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _paths(schema[key], before)


async def _leader(kube: Kube, settings: Settings | None) -> list[DoctorFinding]:
    if settings is not None and settings.disable_leader_election:
        return [unknown("leader", "DISABLE_LEADER_ELECTION is true, so no Lease shows whether a worker runs.")]
    name = settings.leader_election_name if settings is not None else LEASE_NAME
    leases = await kube.list(LEASES, field_selector=f"metadata.name={name}")
    holders = {
        f"{lease['metadata']['namespace']}/{lease['metadata']['name']}": str(
            (lease.get("spec") or {}).get("holderIdentity") or ""
        )
        for lease in leases
    }
    held_leases = {key: holder for key, holder in holders.items() if holder}
    others = {key: holder for key, holder in held_leases.items() if not is_tenons(holder)}
    if others:
        key, holder = min(others.items())
        sentence = f"{holder}, which is not Tenon, holds the Lease {key}: Tenon stands by while it renews it"
        sentence += ", unless the Lease has the event LeaseIgnored."
        return [warning("leader", sentence, "stop Karpenter, as docs/migrate.md says")]
    if not held_leases:
        return [
            warning(
                "leader", f"No worker holds a Lease {name}.", "start a worker, or look at the log of the one that runs"
            )
        ]
    key, holder = min(held_leases.items())
    return [ok("leader", f"{holder} holds the Lease {key}.")]


async def _objects(kube: Kube) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    for resource, ours in ((EC2NODECLASSES, lambda _: True), (NODEPOOLS, managed.manages_pool)):
        objects = [candidate for candidate in await kube.list(resource) if ours(candidate)]
        findings += _readiness(resource, objects)
    return findings


def _readiness(resource: Resource, objects: list[JsonObject]) -> list[DoctorFinding]:
    if not objects:
        remedy = f"apply one, such as examples/{resource.kind.lower()}.yaml"
        return [warning(resource.kind, f"The cluster has no {resource.kind}, so Tenon buys nothing.", remedy)]
    findings = []
    for readable in objects:
        if not is_true(readable, "Ready"):
            conditions = (readable.get("status") or {}).get("conditions") or []
            why = "; ".join(
                f"{condition['type']}: {condition.get('message') or condition.get('reason')}"
                for condition in conditions
                if condition.get("status") != "True" and condition["type"] != "Ready"
            )
            name = readable["metadata"]["name"]
            sentence = f"{resource.kind} {name} is not Ready. {why or 'No worker has reconciled it yet'}".rstrip(".")
            remedy = f"see: kubectl describe {resource.kind.lower()} {name}"
            findings.append(fault(resource.kind, f"{sentence}.", remedy))
    return findings or [ok(resource.kind, f"Every {resource.kind} is Ready ({len(objects)}).")]


async def _claims(kube: Kube, now: datetime) -> list[DoctorFinding]:
    claims = [claim for claim in await kube.list(NODECLAIMS) if managed.manages_claim(claim)]
    late = {claim["metadata"]["name"]: condition(claim, "Registered") for claim in claims if _joins_late(claim, now)}
    refused = {
        claim["metadata"]["name"]: condition(claim, "Launched").get("message", "")
        for claim in claims
        if condition(claim, "Launched").get("status") in ("False", "Unknown")
        and condition(claim, "Launched").get("reason") not in (None, "AwaitingReconciliation")
    }
    findings = []
    if late:
        remedy = (
            "check that the node role has an access entry (docs/eks.md), and the console output of the instance "
            "(aws ec2 get-console-output)"
        )
        nodeclaims = first_few(sorted(late), SHOWN)
        read = min((name for name in late if late[name].get("reason") == NOT_JOINED), default="")
        why = f" {read}: {late[read].get('message', '').rstrip('.')}." if read else ""
        findings.append(
            fault("registration", f"The nodes of {nodeclaims} run, but do not join the cluster.{why}", remedy)
        )
    if refused:
        name, why = min(refused.items())
        sentence = f"{len(refused)} NodeClaims are not launched, such as {name}: {why.rstrip('.')}."
        findings.append(fault("launches", sentence, "see: tenon node list --blocked"))
    return findings or [ok("NodeClaims", f"Every NodeClaim is launched and has joined in time ({len(claims)}).")]


def _joins_late(claim: JsonObject, now: datetime) -> bool:
    since = true_since(claim, "Launched")
    waits = since is not None and now - since > JOINS_WITHIN
    return waits and not is_true(claim, "Registered") and not object_json.is_deleting(claim)
