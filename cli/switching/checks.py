"""What a guide checks before it begins: what would keep the successor from leading, or from reading the objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

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
from cli.switching.deployments import Workload, replicas_of
from cli.switching.observing import served
from tenon.apis.json_object import JsonObject
from tenon.kube.event_reasons import EventReason
from tenon.manifests.checking import check
from tenon.sentences import counted, first_few
from worker.runtime.election.lease import LEASE_NAME
from worker.settings.container_variables import Variables, source_name

SHOWN = 5
MIGRATE = "see docs/migrate.md"
TRUE = ("1", "t", "true", "yes")
FALSE = ("0", "f", "false", "no")
OF_ELECTION = ("DISABLE_LEADER_ELECTION", "LEADER_ELECT", "LEADER_ELECTION_NAME", "LEADER_ELECTION_NAMESPACE")


async def before_takeover(kube: Kube, karpenter: Workload, tenon: Workload, *, stop_first: bool) -> list[DoctorFinding]:
    """Check what a takeover needs. The findings that are faults forbid it."""
    findings = await _election(kube, karpenter, tenon)
    if stop_first:
        sentence = "Karpenter stores objects as v1beta1. It stops first, then Tenon's CRDs replace its own."
        remedy = "there is no way back to it once they do; Karpenter 1.0 with its webhooks can lead again"
        findings.append(warning("stored objects", sentence, remedy))
    else:
        findings += await check_definitions(kube)
    findings += await _objects(kube)
    findings += await _leftovers(kube)
    return findings


async def before_handback(kube: Kube, karpenter: Workload) -> list[DoctorFinding]:
    """Check what a handback needs. The findings that are faults forbid it."""
    findings = [ok("Karpenter", f"The Deployment {karpenter} is there.")]
    variables = await karpenter.variables(kube)
    findings += _without_election(karpenter, variables.values) or _unread(karpenter, variables)
    own: dict[str, int] = {}
    for resource in (NODESCHEDULES, NODEROLLOUTS, DISRUPTIONFREEZES):
        if objects := await _list(kube, resource):
            own[resource.kind] = len(objects)
    if own:
        kinds = ", ".join(counted(count, kind) for kind, count in sorted(own.items()))
        findings.append(warning("objects of Tenon's", f"{kinds} have no effect under Karpenter.", "they stay"))
    made_pools = [pool for pool in await _list(kube, NODEPOOLS) if _is_made(pool)]
    if made_pools:
        names = first_few([str(pool["metadata"]["name"]) for pool in made_pools], SHOWN)
        remedy = "run: kubectl delete provisioners,awsnodetemplates --all --cascade=orphan"
        sentence = f"NodePools made from Provisioners ({names}) are deleted, with their nodes, if their Provisioner is."
        findings.append(warning("Provisioners", sentence, remedy))
    return findings


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
