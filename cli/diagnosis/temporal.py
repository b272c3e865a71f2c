"""Checks that Temporal answers, has the namespace, and knows Tenon's search attributes."""

from __future__ import annotations

from temporalio.service import RPCError, RPCStatusCode

from cli.diagnosis.finding import Finding, fault, ok, unknown
from worker.runtime.search_attributes import create_command, missing_search_attributes
from worker.runtime.temporal_client import EncryptionKeysError, TemporalError, connect

CHECK = "Temporal"


async def check_temporal() -> list[Finding]:
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
            mend = f"run: temporal operator namespace create --namespace {namespace} --retention 72h"
            return [fault(CHECK, f"Temporal at {address} has no namespace {namespace}.", mend)]
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
        mend = f"start a worker that may add them, or run: {create_command(missing, namespace)}"
        return [*findings, fault("search attributes", f"The namespace {namespace} lacks {names}.", mend)]
    return [*findings, ok("search attributes", f"The namespace {namespace} has all of Tenon's search attributes.")]
