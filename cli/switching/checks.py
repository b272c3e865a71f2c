"""What a guide checks before it begins: what would keep the successor from leading, or from reading the objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import NotFoundError
from activities.kubernetes.resources import (
    AWSNODETEMPLATES,
    DISRUPTIONFREEZES,
    EC2NODECLASSES,
    EVENTS,
    MACHINES,
    NODECLAIMS,
    NODEPOOLS,
    NODEROLLOUTS,
    NODESCHEDULES,
    PROVISIONERS,
    Resource,
)
from cli.diagnosis.finding import DoctorFinding, fault, ok, warning
from cli.diagnosis.kubernetes import check_definitions
from cli.switching.conversion import as_v1, expiry_by_pool
from cli.switching.deployments import Version, Workload, replicas_of, version_of
from cli.switching.observing import served
from tenon.apis import labels
from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.managed import manages_claim
from tenon.kube import object_json
from tenon.kube.event_reasons import EventReason
from tenon.manifests.checking import check
from tenon.migration.behavior import overdue
from tenon.sentences import counted, first_few
from worker.runtime.election.lease import LEASE_NAME
from worker.settings.container_variables import Variables, source_name

SHOWN = 5
MIGRATE = "see docs/migrate.md"
TRUE = ("1", "t", "true", "yes")
FALSE = ("0", "f", "false", "no")
FIRST_V1: Version = (1, 0)
FIRST_PANIC: Version = (1, 1)
"""Of Karpenter: from here on it does not start while a NodePool has the annotation `V1BETA1_KUBELET`."""
FIRST_WITHOUT_KUBELET: Version = (1, 6)
"""Of Karpenter: from here on it does not read that annotation."""
OF_ELECTION = ("DISABLE_LEADER_ELECTION", "LEADER_ELECT", "LEADER_ELECTION_NAME", "LEADER_ELECTION_NAMESPACE")


async def before_takeover(kube: Kube, karpenter: Workload, tenon: Workload, *, stop_first: bool) -> list[DoctorFinding]:
    """Check what a takeover needs. The findings that are faults forbid it."""
    findings = await _election(kube, karpenter, tenon)
    if stop_first:
        sentence = "Karpenter stores objects as v1beta1. It stops first, then Tenon's CRDs replace its own."
        remedy = "there is no way back to it once they do; Karpenter 1.0 with its webhooks can lead again"
        findings.append(warning("stored objects", sentence, remedy))
        findings += await _overdue(kube)
    else:
        findings += await check_definitions(kube)
    findings += await _objects(kube)
    findings += await _leftovers(kube)
    return findings


async def _overdue(kube: Kube) -> list[DoctorFinding]:
    """Warn of nodes that wait for a budget under Karpenter, and that Tenon drains at once, as Karpenter 1.0 does."""
    pools = [as_v1(pool) for pool in await _list(kube, await served(kube, NODEPOOLS))]
    expiry = expiry_by_pool(pools)
    claims = [as_v1(claim, expiry) for claim in await _list(kube, await served(kube, NODECLAIMS))]
    nodes = overdue(pools, claims, utc_now())
    if not nodes:
        return []
    names = first_few(sorted({node.pool for node in nodes}), SHOWN)
    are, its = ("is", "its") if len(nodes) == 1 else ("are", "their")
    sentence = (
        f"{counted(len(nodes), 'node')} {are} older than the expireAfter of {its} NodePool ({names}), and Tenon drains "
        "such nodes within a minute, without waiting for budgets."
    )
    remedy = f'raise expireAfter before, or annotate the NodePool with {labels.EXPIRE_WITHIN_BUDGETS}: "true"'
    return [warning("expiry", sentence, remedy)]


async def before_handback(kube: Kube, karpenter: Workload) -> list[DoctorFinding]:
    """Check what a handback needs. The findings that are faults forbid it."""
    findings = [ok("Karpenter", f"The Deployment {karpenter} is there.")]
    variables = await karpenter.variables(kube)
    findings += _without_election(karpenter, variables.values) or _unread(karpenter, variables)
    findings += await warm_nodes(kube)
    pools = await _list(kube, NODEPOOLS)
    findings += _version(karpenter, version_of(await karpenter.read(kube)), pools)
    own: dict[str, int] = {}
    for resource in (NODESCHEDULES, NODEROLLOUTS, DISRUPTIONFREEZES):
        if objects := await _list(kube, resource):
            own[resource.kind] = len(objects)
    if own:
        kinds = ", ".join(counted(count, kind) for kind, count in sorted(own.items()))
        findings.append(warning("objects of Tenon's", f"{kinds} have no effect under Karpenter.", "they stay"))
    made_pools = [pool for pool in pools if _is_made(pool)]
    if made_pools:
        names = first_few([str(pool["metadata"]["name"]) for pool in made_pools], SHOWN)
        remedy = "run: kubectl delete provisioners,awsnodetemplates --all --cascade=orphan"
        sentence = f"NodePools made from Provisioners ({names}) are deleted, with their nodes, if their Provisioner is."
        findings.append(warning("Provisioners", sentence, remedy))
    return findings


async def warm_nodes(kube: Kube) -> list[DoctorFinding]:
    """Find warm nodes, which would stay stopped. Those that are being deleted end under either controller."""
    claims = [
        claim
        for claim in await _list(kube, NODECLAIMS)
        if manages_claim(claim) and labels.WARM in object_json.annotations(claim) and not object_json.is_deleting(claim)
    ]
    if not claims:
        return []
    names = first_few(sorted(str(claim["metadata"]["name"]) for claim in claims), SHOWN)
    count = len(claims)
    have = "has a stopped instance or will have one" if count == 1 else "have stopped instances or will have them"
    pools = sorted({str(object_json.labels(claim).get(labels.NODEPOOL)) for claim in claims})
    remedy = f"run: kubectl annotate nodepool {' '.join(pools)} {labels.WARM}-, and wait until no node is warm"
    sentence = f"{counted(count, 'warm node')} ({names}) {have}, which Karpenter never starts."
    return [fault("warm nodes", sentence, remedy)]


def _version(karpenter: Workload, version: Version | None, pools: Sequence[JsonObject]) -> list[DoctorFinding]:
    """Check that this version of Karpenter reads what Tenon's CRDs store. A version that is not known may."""
    title = f"Karpenter {_spoken(version)}" if version else f"Karpenter {_spoken(FIRST_PANIC)} to 1.5"
    if version is not None and version < FIRST_V1:
        sentence = f"Karpenter ({karpenter}) is {_spoken(version)}, which cannot read objects of v1."
        return [fault("version", sentence, f"install Karpenter 1.0 or newer; {MIGRATE}")]
    old_pools = [pool for pool in pools if labels.V1BETA1_KUBELET in object_json.annotations(pool)]
    if not old_pools or (version is not None and version < FIRST_PANIC):
        return []
    names = first_few([str(pool["metadata"]["name"]) for pool in old_pools], SHOWN)
    where = f"annotation {labels.V1BETA1_KUBELET} of NodePools ({names})"
    classes = {str(field_at(pool, "spec", "template", "spec", "nodeClassRef", "name")) for pool in old_pools}
    remedy = f"move them into spec.kubelet of EC2NodeClass {', '.join(sorted(classes))}, then remove the annotation"
    if version is None:
        sentence = f"{title} does not start because of the kubelet settings in {where}, and later ones ignore them."
        return [warning("kubelet settings", sentence, remedy)]
    if version < FIRST_WITHOUT_KUBELET:
        sentence = f"{title} does not start while there are kubelet settings in {where}."
        return [fault("kubelet settings", sentence, remedy)]
    return [warning("kubelet settings", f"{title} ignores the kubelet settings in {where}.", remedy)]


def _spoken(version: Version) -> str:
    return ".".join(map(str, version))


async def _election(kube: Kube, karpenter: Workload, tenon: Workload) -> list[DoctorFinding]:
    variables = await karpenter.variables(kube)
    tenons = (await tenon.variables(kube)).values
    name = variables.values.get("LEADER_ELECTION_NAME") or LEASE_NAME
    findings = _without_election(karpenter, variables.values)
    if not findings and name != (tenons.get("LEADER_ELECTION_NAME") or LEASE_NAME):
        sentence = f"Karpenter's Lease is {name}, for which Tenon does not stand by."
        findings.append(fault("leader election", sentence, f"set LEADER_ELECTION_NAME={name} for Tenon; {MIGRATE}"))
    ignored = [
        event
        for event in await kube.list(
            EVENTS, namespace=karpenter.namespace, field_selector=f"reason={EventReason.LEASE_IGNORED.value}"
        )
        if (event.get("involvedObject") or {}).get("name") == name
    ]
    if ignored:
        sentence = f"Tenon ignores the Lease {karpenter.namespace}/{name}, and acts while Karpenter leads."
        remedy = f"add {karpenter.namespace} to STAND_BY_NAMESPACES (settings.standByNamespaces in the chart)"
        findings.append(fault("leader election", sentence, remedy))
    findings = findings or [ok("leader election", f"Karpenter ({karpenter}) and Tenon see each other's Lease {name}.")]
    return [*findings, *_unread(karpenter, variables)]


def _unread(karpenter: Workload, variables: Variables) -> list[DoctorFinding]:
    """Warn of variables that may turn leader election off or rename its Lease, unseen."""
    sources = [source_name(source) for source in variables.unread_sources]
    sources += [str(entry["name"]) for entry in variables.unread_variables if entry["name"] in OF_ELECTION]
    if not sources:
        return []
    sentence = f"Karpenter ({karpenter}) takes variables from {first_few(sources, SHOWN)}, which were not read."
    remedy = f"make sure that they set none of {', '.join(OF_ELECTION)}"
    return [warning("variables", sentence, remedy)]


def _without_election(karpenter: Workload, variables: Mapping[str, str]) -> list[DoctorFinding]:
    is_disabled = variables.get("DISABLE_LEADER_ELECTION", "").lower() in TRUE
    if not is_disabled and variables.get("LEADER_ELECT", "").lower() not in FALSE:
        return []
    sentence = f"Karpenter ({karpenter}) runs without leader election, so nothing shows whether it leads."
    remedy = "remove DISABLE_LEADER_ELECTION (LEADER_ELECT=false) from its Deployment, and wait for its rollout"
    return [fault("leader election", sentence, remedy)]


async def _objects(kube: Kube) -> list[DoctorFinding]:
    """Check NodePools, EC2NodeClasses and NodeClaims as `tenon validate` does."""
    bodies: list[JsonObject] = []
    for resource in (NODEPOOLS, EC2NODECLASSES, NODECLAIMS):
        bodies += await _list(kube, await served(kube, resource))
    texts = [(f"{body['kind']} {body['metadata']['name']}", json.dumps(body)) for body in bodies]
    checked = check(texts)
    if checked.faults:
        first = checked.faults[0]
        sentence = f"Tenon refuses {first.subject}: {first.path}: {first.sentence}"
        more = f" ({counted(len(checked.faults), 'fault')} in all)" if len(checked.faults) > 1 else ""
        remedy = "correct it; kubectl get nodepools,ec2nodeclasses,nodeclaims -o yaml | tenon validate -f - shows all"
        return [fault("objects", f"{sentence.rstrip('.')}{more}.", remedy)]
    return [ok("objects", f"Tenon accepts all {counted(checked.checked, 'object')} of Karpenter's kinds.")]


async def _leftovers(kube: Kube) -> list[DoctorFinding]:
    kinds = []
    for resource in (PROVISIONERS, AWSNODETEMPLATES, MACHINES):
        if objects := await _list(kube, resource):
            kinds.append(counted(len(objects), resource.kind))
    if not kinds:
        return []
    sentence = f"The cluster has {', '.join(kinds)}. Karpenter since 0.33 ignores them, but under Tenon they act."
    return [warning("old objects", sentence, f"delete those that no one uses; {MIGRATE}")]


def _is_made(pool: JsonObject) -> bool:
    owners: Sequence[JsonObject] = pool["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") == "Provisioner" for owner in owners)


async def _list(kube: Kube, resource: Resource) -> list[JsonObject]:
    """All objects; none if the API server does not have their kind."""
    try:
        return await kube.list(resource)
    except NotFoundError:
        return []


def available(deployment: JsonObject) -> str:
    """How many pods of a Deployment are available, for the plan: '2 of 2 available'."""
    count = int((deployment.get("status") or {}).get("availableReplicas") or 0)
    return f"{count} of {replicas_of(deployment)} available"
