"""Leaves out what EC2 refuses now, as the provisioner of a live cluster does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from temporalio.client import Client

from activities.clock import utc_now
from cli.context import Context, ContextError, resolve
from cli.refusals import RefusalsUnknownError, purchase_pauses_of, refusals_of
from tenon.ec2.refusals.unavailable import by_offering, shortages
from tenon.kube.offerings import OfferingKey
from tenon.messages.provisioning import LaunchReport, PurchasePause
from tenon.node.launch_breaker import sentence, subject
from tenon.provisioning.purchase_pauses import list_sentence
from tenon.provisioning.shortage_sentences import waiting_sentence
from tenon.sentences import counted
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError, connect

ANSWERS_WITHIN = timedelta(seconds=5)
"""How long to wait for the workflow, which may have no worker. The plan does not depend on its answer."""


def read_unavailable(notes: list[str]) -> Mapping[OfferingKey, datetime]:
    """Return the offerings that are unavailable, each with the time when the cluster's provisioner asks EC2 again.

    Notes say what that is, or why it is not known.
    """
    try:
        cluster, report = asyncio.run(_ask())
    except (ContextError, RefusalsUnknownError, TemporalError, PayloadCodecError) as error:
        why = str(error).rstrip(".")
        notes.append(f"offerings that EC2 refuses now are part of the plan, because they are not known: {why}")
        return {}
    now = utc_now()
    unavailable = by_offering(report.unavailable, now)
    if unavailable:
        leaves_out = f"leaves out {counted(len(unavailable), 'offering')} that EC2 refused"
    else:
        leaves_out = "leaves out no offering"
    notes.append(f"the provisioner of cluster {cluster} {leaves_out}, and so does this plan")
    notes.extend(shortage.sentence for shortage in shortages(report.unavailable, now))
    notes.extend(
        f"{subject(breaker)}: {sentence(breaker)}; this plan uses it all the same" for breaker in report.breakers
    )
    return unavailable


def read_holds() -> list[str]:
    """Return which pods the provisioner holds back, why and until when; nothing if it does not answer."""

    async def ask() -> tuple[LaunchReport, Sequence[PurchasePause]]:
        async with asyncio.timeout(ANSWERS_WITHIN.total_seconds()):
            context, client = await connected()
            report = await refusals_of(client, context.cluster, ANSWERS_WITHIN)
            return report, await purchase_pauses_of(client, context.cluster)

    try:
        report, pauses = asyncio.run(ask())
    except (ContextError, RefusalsUnknownError, TemporalError, PayloadCodecError, TimeoutError):
        return []  # the plan's own question has said why
    return [*map(waiting_sentence, report.waits), *map(list_sentence, pauses)]


async def _ask() -> tuple[str, LaunchReport]:
    """Ask the cluster of the environment, or the sandbox in this folder if the kubeconfig is the sandbox's."""
    try:
        async with asyncio.timeout(ANSWERS_WITHIN.total_seconds()):
            context, client = await connected()
            return context.cluster, await refusals_of(client, context.cluster, ANSWERS_WITHIN)
    except TimeoutError:
        raise RefusalsUnknownError(f"Temporal gives no answer within {ANSWERS_WITHIN.total_seconds():.0f} s") from None


async def connected() -> tuple[Context, Client]:
    """Return the cluster of the environment and a client of its Temporal.

    Raises:
        ContextError, TemporalError: they are not known, or Temporal does not answer.
    """
    cluster_name = os.environ.get("CLUSTER_NAME")
    context = resolve(cluster_name)
    if not cluster_name and context.environment.get("KUBECONFIG") != os.environ.get("KUBECONFIG"):
        raise ContextError(
            "name the cluster of the kubeconfig with CLUSTER_NAME, and its Temporal with TEMPORAL_ADDRESS"
        )
    context.apply()
    return context, await connect()
