"""``tenon doctor``: checks what Tenon needs, and says what to do about each fault."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from activities import loggers
from activities.clock import utc_now
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS
from cli.application import create_app, examples
from cli.console import output_console
from cli.context import resolve_if_known, worker_of_sandbox
from cli.diagnosis.aws import check_aws, unusable_credentials
from cli.diagnosis.finding import DoctorFinding, FindingState, fault, ok
from cli.diagnosis.kubernetes import check_kubernetes
from cli.diagnosis.table import findings_table
from cli.diagnosis.temporal import check_temporal, check_worker_versions
from cli.options import Output
from cli.setting_flags import FAULTS, SettingsCommand, refuse, with_setting_flags
from cli.simulating.progress import show_progress
from cli.switching import before_migrating
from cli.switching.command import KarpenterName
from tenon.apis.json_object import field_at
from tenon.apis.purchase_goals import goals_of
from tenon.kube import object_json
from worker.own_namespace import own_namespace
from worker.runtime.assembly import region_of_environment
from worker.settings import Settings, SettingsError, load_all
from worker.settings.configmaps import read_cluster

app = create_app()


@app.command(
    cls=SettingsCommand,
    epilog=examples(
        "tenon doctor",
        "kubectl -n tenon exec deployment/tenon -- tenon doctor -o json",
        "tenon doctor --before-migrating    # from Karpenter to Tenon",
    ),
)
@partial(with_setting_flags, hidden=True)
def doctor(
    ctx: typer.Context,
    flags: dict[str, object],
    output: Output = "table",
    kubeconfig: Annotated[str | None, typer.Option(metavar="FILE", help="The cluster to check.")] = None,
    is_before_migrating: Annotated[
        bool,
        typer.Option(
            "--before-migrating",
            help="Show which objects of a Karpenter's cluster would behave otherwise under Tenon, with their rows of "
            "docs/parity.md, and Karpenter's settings as values of Tenon's chart.",
        ),
    ] = False,
    karpenter: KarpenterName = None,
) -> None:
    """Check settings, Temporal, Kubernetes and AWS with the worker's environment, and say what to do. Changes nothing.

    Run it where the worker runs: kubectl -n tenon exec deployment/tenon -- tenon doctor. If no cluster is named, it
    checks the sandbox running in this folder. It takes every flag of `tenon worker`, whose settings it then checks. The
    exit status is 1 if there is a fault, and 2 if --before-migrating cannot read the cluster.
    """
    if is_before_migrating:
        if ctx.meta[FAULTS]:
            raise refuse("\n".join(ctx.meta[FAULTS]))
        _show_migration(kubeconfig, karpenter, output)
        return
    if "cluster_name" not in flags and not os.environ.get("CLUSTER_NAME") and (sandbox := worker_of_sandbox()):
        os.environ.pop("CLUSTER_NAME", None)
        sandbox.apply()
        print("note: no cluster is named, so this checks the sandbox running in this folder", file=sys.stderr)
    with show_progress("Checking settings, Temporal, Kubernetes and AWS ..."):
        findings = asyncio.run(_examine(flags, ctx.meta[FAULTS], kubeconfig))
    if output == "json":
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _show(findings)
    if any(finding.state is FindingState.FAULT for finding in findings):
        raise typer.Exit(1)


def _show_migration(kubeconfig: str | None, karpenter: str | None, output: str) -> None:
    try:
        with show_progress("Looking at the objects ..."):
            result = asyncio.run(_look(kubeconfig, karpenter))
    except (ApiError, ConfigError) as error:
        raise refuse(str(error)) from None
    if output == "json":
        print(before_migrating.as_json(result))
    else:
        before_migrating.show(result)


async def _look(kubeconfig: str | None, karpenter: str | None) -> before_migrating.Migration:
    if (context := resolve_if_known(None)) is not None:
        context.apply()
    kube = await Kube.connect(kubeconfig=kubeconfig)
    try:
        return await before_migrating.examine(kube, karpenter)
    finally:
        await kube.close()


async def _examine(flags: dict[str, object], flag_faults: list[str], kubeconfig: str | None) -> list[DoctorFinding]:
    now = utc_now()
    loggers.library("").addHandler(logging.NullHandler())  # the findings say what the checks would log
    findings: list[DoctorFinding] = []
    kube: Kube | None = None
    settings: Settings | None = None
    try:
        kube = await Kube.connect(kubeconfig=kubeconfig)
    except (ApiError, ConfigError) as error:
        findings.append(fault("API server", f"{str(error).rstrip('.')}.", "check KUBECONFIG"))
    try:
        try:
            settings = await _settings(flags, flag_faults, kubeconfig)
            findings.append(ok("settings", f"The settings of the cluster {settings.cluster_name} can be used."))
        except SettingsError as error:
            findings.append(fault("settings", str(error), "see: tenon settings"))
        findings += await check_temporal()
        if settings is not None:
            findings += await check_worker_versions(settings)
        roles: list[str] = []
        follows_scores = False
        if kube is not None:
            findings += await check_kubernetes(kube, now, settings)
            roles, follows_scores = await _roles(kube), await _follows_scores(kube)
        if settings is not None:
            findings += await _check_aws(settings, roles, follows_scores=follows_scores)
    finally:
        if kube is not None:
            await kube.close()
    return findings


async def _settings(flags: dict[str, object], flag_faults: list[str], kubeconfig: str | None) -> Settings:
    old = None
    with suppress(ApiError):  # the check of the API server says why
        old = (await read_cluster(own_namespace(), kubeconfig)).settings
    return load_all(flags, os.environ, old, flag_faults).settings


async def _roles(kube: Kube) -> list[str]:
    try:
        classes = await kube.list(EC2NODECLASSES)
    except ApiError:
        return []  # the check of Kubernetes says why
    return [role for node_class in classes if isinstance(role := field_at(node_class, "spec", "role"), str) and role]


async def _follows_scores(kube: Kube) -> bool:
    """Whether a NodePool follows Spot placement scores."""
    try:
        pools = await kube.list(NODEPOOLS)
    except ApiError:
        return False  # the check of Kubernetes says why
    goals = [goals_of(object_json.annotations(pool)) for pool in pools]
    return any(goal is not None and goal.placement_scores is not None for goal in goals)


async def _check_aws(settings: Settings, roles: list[str], *, follows_scores: bool) -> list[DoctorFinding]:
    try:
        region = await asyncio.to_thread(region_of_environment)
    except SettingsError as error:
        return [fault("AWS", str(error), "set AWS_REGION")]
    try:
        aws = await asyncio.to_thread(Ec2, region)
    except EC2Error as error:
        return [unusable_credentials(region, error)]
    return await asyncio.to_thread(check_aws, aws, settings, roles, utc_now, follows_scores=follows_scores)


def _show(findings: list[DoctorFinding]) -> None:
    console = output_console()
    console.print(findings_table(findings))
    faults = sum(finding.state is FindingState.FAULT for finding in findings)
    if faults:
        print(f"{faults} of {len(findings)} checks found a fault.", file=sys.stderr)
