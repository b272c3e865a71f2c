"""Checks that Temporal answers, has the namespace, and knows Tenon's search attributes."""

from __future__ import annotations

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from cli.diagnosis.finding import DoctorFinding, fault, ok, unknown
from worker.runtime.temporal.search_attributes import create_command, missing_search_attributes
from worker.runtime.temporal.temporal_client import EncryptionKeysError, TemporalError, connect
from worker.runtime.temporal.temporal_cloud import is_cloud
from worker.runtime.temporal.version_routing import UNVERSIONED, Routing, VersionRouting, own_version
from worker.runtime.temporal.worker_versions import DISABLED
from worker.settings import Settings
from workflows import names

CHECK = "Temporal"
VERSIONS = "worker versions"


async def check_temporal() -> list[DoctorFinding]:
    """Check the server of the environment."""
    try:
        client = await connect()
    except EncryptionKeysError as error:
        return [fault(CHECK, str(error), "correct the file that PAYLOAD_ENCRYPTION_CONFIG names")]
    except TemporalError as error:
        return [
            fault(CHECK, str(error), "correct TEMPORAL_ADDRESS and the other TEMPORAL_ variables, or start the server")
        ]
    address, namespace = client.service_client.config.target_host, client.namespace
    try:
        await client.count_workflows("")
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            remedy = f"run: temporal operator namespace create --namespace {namespace} --retention 72h"
            if is_cloud(client):
                remedy = "correct TEMPORAL_NAMESPACE, whose form is NAME.ACCOUNT, or run: tcld namespace create"
            return [fault(CHECK, f"Temporal at {address} has no namespace {namespace}.", remedy)]
        return [
            fault(CHECK, f"Temporal at {address} refuses to list workflows: {error.message}.", "check the credentials")
        ]
    findings = [ok(CHECK, f"Temporal at {address} answers and has the namespace {namespace}.")]
    try:
        missing = await missing_search_attributes(client)
    except TemporalError as error:
        return [*findings, unknown("search attributes", str(error))]
    if missing:
        names = ", ".join(key.name for key in missing)
        remedy = f"run: {create_command(missing, client)}"
        if not is_cloud(client):
            remedy = f"start a worker that may add them, or {remedy}"
        return [*findings, fault("search attributes", f"The namespace {namespace} lacks {names}.", remedy)]
    return [*findings, ok("search attributes", f"The namespace {namespace} has all of Tenon's search attributes.")]


async def check_worker_versions(settings: Settings) -> list[DoctorFinding]:
    """Check that a worker runs of the version to which Temporal sends workflows. Empty if Temporal does not answer."""
    try:
        client = await connect()
        return [await _version_finding(client, settings)]
    except TemporalError:
        return []  # the check of Temporal says why
    except RPCError as error:
        return [unknown(VERSIONS, f"Temporal does not describe the versions of the worker: {error.message}.")]


async def _version_finding(client: Client, settings: Settings) -> DoctorFinding:
    own = own_version(settings.cluster_name)
    routing = VersionRouting(client, own.deployment_name, names.task_queue(settings.cluster_name))
    observed = await routing.read() or Routing()
    command = f"temporal worker deployment set-current-version --deployment-name {own.deployment_name}"
    if settings.worker_versioning == DISABLED:
        if observed.current == UNVERSIONED:
            return ok(VERSIONS, "Worker versioning is off, and Temporal sends workflows to any worker.")
        sentence = (
            f"Temporal sends workflows to version {observed.current} of the worker, but WORKER_VERSIONING is Disabled."
        )
        return fault(VERSIONS, sentence, f"run: {command} --unversioned")
    if observed.current == UNVERSIONED:
        sentence = f"No version of the Worker Deployment {own.deployment_name} is Current, so no worker gets workflows."
        return fault(VERSIONS, sentence, f"start a worker, then run: {command} --build-id {own.build_id}")
    if not await routing.has_worker(observed.current):
        sentence = (
            f"Temporal sends workflows to version {observed.current} of the worker, and none of its workers runs."
        )
        return fault(VERSIONS, sentence, f"start one, or run: {command} --build-id {own.build_id}")
    return ok(VERSIONS, f"Version {observed.current} of the worker is Current, and its workers run.")
