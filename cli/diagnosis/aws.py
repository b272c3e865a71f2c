"""Checks AWS: credentials, rights to read, the cluster, the clock, prices, the queue and the nodes' access entries.

The rights to write are not checked here: EC2 judges them by the tags and resources of a real launch. The worker tries
them out by dry runs of each EC2NodeClass, whose conditions name what is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from activities.ec2.catalogue import Catalogue
from activities.ec2.client import Ec2
from activities.ec2.cluster import arn_of
from activities.ec2.dry_runs import ALLOWED
from activities.ec2.errors import INVALID_REGION, EC2Error, translated
from activities.ec2.price_tables import PriceTableError
from activities.ec2.pricing import Pricing, why_no_price_list
from cli.diagnosis.finding import DoctorFinding, fault, ok, unknown, warning
from tenon.apis import labels
from tenon.ec2.refusals.errors import BAD_CREDENTIALS
from worker.settings import Settings

CLOCK_LATE = timedelta(seconds=30)
"""Leases and expiry suffer from a clock that is more wrong than this."""
CLOCK_WRONG = timedelta(minutes=4)
"""AWS refuses requests whose time is wrong by five minutes."""
ATTACH = "attach deploy/iam/controller-policy.json to the worker's role (docs/eks.md)"
ATTACH_COMMITMENTS = (
    "attach deploy/iam/commitments-policy.json to the worker's role too, or turn ENABLE_COMMITMENTS off"
)
ATTACH_SCORES = (
    "attach deploy/iam/spot-scores-policy.json to the worker's role too, or remove the annotation "
    f"{labels.SPOT_PLACEMENT_SCORES} from the NodePools"
)
OF_COMMITMENTS = ("DescribeReservedInstances", "DescribeSavingsPlans", "DescribeSavingsPlanRates")
NO_SAVINGS_PLAN = "00000000-0000-0000-0000-000000000000"
"""The ID of a Savings Plan that does not exist: what its rates are does not matter, only whether they may be read."""
GIVE = "give Tenon a table of list prices (docs/settings.md)"
REMEDY = f"allow the call, {GIVE}, or state the prices in a NodeOverlay: instance types are chosen by them"
STATE = f"{GIVE}, or state the prices in a NodeOverlay, if you want nodes of these types"


def check_aws(
    aws: Ec2, settings: Settings, roles: Iterable[str], now: Callable[[], datetime], *, follows_scores: bool = False
) -> list[DoctorFinding]:
    """Check the account and region of ``aws``. Blocks.

    Args:
        aws: the clients.
        settings: those of the worker.
        roles: names of the roles of nodes.
        now: the clock.
        follows_scores: whether a NodePool follows Spot placement scores.
    """
    try:
        with translated("DescribeSubnets"):
            answer = aws.ec2.describe_subnets(MaxResults=5)
    except EC2Error as error:
        if error.code in BAD_CREDENTIALS or not error.operation:
            return [unusable_credentials(aws.region, error)]
        return [fault("AWS", f"{error.explained.rstrip('.')}.", ATTACH)]
    findings = [ok("AWS", f"AWS answers in {aws.region}."), *_clock(answer, now())]
    findings += _rights(aws, settings)
    findings += _scores(aws) if follows_scores else []
    findings += _on_instances(aws, settings.cluster_name)
    findings.append(check_prices(aws, settings, now))
    findings += _queue(aws, settings.interruption_queue)
    return [*findings, *(_access(aws, settings.cluster_name, role) for role in sorted(set(roles)))]


def unusable_credentials(region: str, error: EC2Error) -> DoctorFinding:
    """The finding for a call that was not sent, or whose credentials AWS does not accept."""
    if error.code == INVALID_REGION:
        return fault("AWS", f"AWS cannot be asked: {error}.", "correct AWS_REGION")
    remedy = "check the Pod Identity association or the role annotation of the ServiceAccount (docs/eks.md)"
    return fault("AWS", f"AWS does not answer in {region}: {error.explained.rstrip('.')}.", remedy)


def _clock(answer: Any, now: datetime) -> list[DoctorFinding]:
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        difference = now - parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return [unknown("clock", "AWS did not say what time it is.")]
    seconds = round(abs(difference.total_seconds()))
    sentence = f"The clock is {seconds} s {'ahead of' if difference > timedelta() else 'behind'} AWS's."
    if abs(difference) > CLOCK_WRONG:
        return [fault("clock", sentence, "set the clock: AWS refuses requests that are five minutes off")]
    if abs(difference) > CLOCK_LATE:
        return [warning("clock", sentence, "synchronize the clock, as with chrony")]
    return [ok("clock", sentence)]


def _on_instances(aws: Ec2, cluster: str) -> list[DoctorFinding]:
    """Try out what the worker does with one instance of the cluster, besides terminating it.

    Node repair and `tenon node reboot` need the first right, and warm nodes the others.
    """
    filters: Any = [
        {"Name": f"tag:{labels.TAG_CLUSTER}", "Values": [cluster]},
        {"Name": "tag-key", "Values": [labels.TAG_NODEPOOL]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    try:
        with translated("DescribeInstances"):
            answer = aws.ec2.describe_instances(Filters=filters, MaxResults=5)
    except EC2Error as error:
        return [unknown("reboots", f"AWS did not say which instances the cluster has: {error.explained}")]
    ids = [instance["InstanceId"] for group in answer["Reservations"] for instance in group["Instances"]]
    if not ids:
        return []
    attempts: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
        ("reboots", "rebooted", "RebootInstances", aws.ec2.reboot_instances),
        ("stops", "stopped", "StopInstances", aws.ec2.stop_instances),
        ("starts", "started", "StartInstances", aws.ec2.start_instances),
    )
    return [
        _may(check, verb, name, partial(call, InstanceIds=ids[:1], DryRun=True)) for check, verb, name, call in attempts
    ]


def _scores(aws: Ec2) -> list[DoctorFinding]:
    """Try out reading Spot placement scores. A dry run is no new configuration, which AWS limits."""
    check = "spot placement scores"
    try:
        with translated("GetSpotPlacementScores"):
            aws.ec2.get_spot_placement_scores(
                InstanceTypes=["m5.large", "m5.xlarge", "m5.2xlarge"], TargetCapacity=1, DryRun=True
            )
    except EC2Error as error:
        if error.code == ALLOWED:
            return [ok(check, "The worker may read Spot placement scores.")]
        if error.unauthorized:
            sentence = f"NodePools do not follow Spot placement scores: {error.explained}"
            return [warning(check, f"{sentence.rstrip('.')}.", ATTACH_SCORES)]
        return [unknown(check, f"AWS did not say whether Spot placement scores may be read: {error.explained}")]
    return [unknown(check, "AWS did not say whether Spot placement scores may be read: it answered a dry run")]


def _may(check: str, verb: str, operation: str, dry_run: Callable[[], Any]) -> DoctorFinding:
    try:
        with translated(operation):
            dry_run()
    except EC2Error as error:
        if error.code == ALLOWED:
            return ok(check, f"The instances of the cluster may be {verb} by the worker.")
        if error.unauthorized:
            return warning(check, f"{error.explained.rstrip('.')}.", ATTACH)
        return unknown(check, f"AWS did not say whether instances may be {verb}: {error.explained}")
    return unknown(check, f"AWS did not say whether instances may be {verb}: it answered a dry run with success")


def _rights(aws: Ec2, settings: Settings) -> list[DoctorFinding]:
    image = "/aws/service/eks/optimized-ami/1.30/amazon-linux-2023/x86_64/standard/recommended/image_id"
    calls: dict[str, Callable[[], Any]] = {
        "DescribeCluster": lambda: aws.eks.describe_cluster(name=settings.cluster_name),
        "DescribeSecurityGroups": lambda: aws.ec2.describe_security_groups(MaxResults=5),
        "DescribeInstances": lambda: aws.ec2.describe_instances(MaxResults=5),
        "DescribeImages": lambda: aws.ec2.describe_images(Owners=["self"]),
        "DescribeInstanceTypes": lambda: aws.ec2.describe_instance_types(MaxResults=5),
        "DescribeInstanceTypeOfferings": lambda: aws.ec2.describe_instance_type_offerings(MaxResults=5),
        "DescribeSpotPriceHistory": lambda: aws.ec2.describe_spot_price_history(MaxResults=5),
        "DescribeLaunchTemplates": lambda: aws.ec2.describe_launch_templates(MaxResults=5),
        "GetParameter": lambda: aws.ssm.get_parameter(Name=image),
    }
    if settings.enable_zonal_shift:
        calls["GetManagedResource"] = lambda: aws.zonal_shift.get_managed_resource(
            resourceIdentifier=arn_of(aws, settings.cluster_name)
        )
    if settings.enable_commitments and not settings.isolated_vpc:
        calls["DescribeReservedInstances"] = lambda: aws.ec2.describe_reserved_instances(
            Filters=[{"Name": "state", "Values": ["active"]}]
        )
        calls["DescribeSavingsPlans"] = lambda: aws.savingsplans.describe_savings_plans(maxResults=1)
        calls["DescribeSavingsPlanRates"] = lambda: aws.savingsplans.describe_savings_plan_rates(
            savingsPlanId=NO_SAVINGS_PLAN, maxResults=1
        )
    if not settings.isolated_vpc:
        calls["ListServiceQuotas"] = lambda: aws.service_quotas.list_service_quotas(ServiceCode="ec2", MaxResults=5)
    if not why_no_price_list(aws.region, isolated=settings.isolated_vpc):
        calls["GetProducts"] = lambda: aws.pricing.get_products(ServiceCode="AmazonEC2", MaxResults=1)
    findings = []
    for operation, call in calls.items():
        try:
            with translated(operation):
                call()
        except EC2Error as error:
            if operation == "DescribeCluster" and not error.unauthorized:
                remedy = "correct CLUSTER_NAME and AWS_REGION, or set CLUSTER_ENDPOINT and CLUSTER_CA_BUNDLE"
                findings.append(warning("EKS cluster", f"{error.explained.rstrip('.')}.", remedy))
            elif error.operation == "GetManagedResource" and error.code == "ResourceNotFoundException":
                remedy = "register the cluster with ARC zonal shift, or set ENABLE_ZONAL_SHIFT=false"
                findings.append(warning("zonal shift", f"{error.explained.rstrip('.')}.", remedy))
            elif error.operation in OF_COMMITMENTS:
                if error.unauthorized:
                    sentence = f"Plans do not use Reserved Instances and Savings Plans: {error.explained}"
                    findings.append(warning("commitments", f"{sentence.rstrip('.')}.", ATTACH_COMMITMENTS))
            elif error.operation == "ListServiceQuotas":
                sentence = (
                    f"Tenon cannot read the account's vCPU quotas, so EC2 is asked and may refuse: {error.explained}"
                )
                findings.append(warning("vCPU quotas", f"{sentence.rstrip('.')}.", ATTACH))
            elif error.unauthorized:
                findings.append(fault("rights in AWS", f"{error.explained.rstrip('.')}.", ATTACH))
            elif not error.not_found:
                findings.append(unknown("rights in AWS", f"{error.explained.rstrip('.')}."))
    if not any(finding.check == "rights in AWS" for finding in findings):
        findings.append(ok("rights in AWS", f"The {len(calls)} calls that Tenon reads with are allowed."))
    return findings


def _queue(aws: Ec2, name: str) -> list[DoctorFinding]:
    if not name:
        remedy = "create the queue (docs/interruption.md) and set INTERRUPTION_QUEUE"
        sentence = "INTERRUPTION_QUEUE is not set, so nodes get no notice before a spot instance is taken back."
        return [warning("interruption queue", sentence, remedy)]
    try:
        with translated("GetQueueUrl"):
            aws.sqs.get_queue_url(QueueName=name)
    except EC2Error as error:
        if error.not_found:
            remedy = "create it (docs/interruption.md), or correct INTERRUPTION_QUEUE"
            return [fault("interruption queue", f"The queue {name} does not exist in {aws.region}.", remedy)]
        return [fault("interruption queue", f"{error.explained.rstrip('.')}.", ATTACH)]
    return [ok("interruption queue", f"The queue {name} exists.")]


def _access(aws: Ec2, cluster: str, role: str) -> DoctorFinding:
    try:
        with translated("GetRole"):
            arn = aws.iam.get_role(RoleName=role.rpartition("/")[2])["Role"]["Arn"]
        with translated("DescribeAccessEntry"):
            aws.eks.describe_access_entry(clusterName=cluster, principalArn=arn)
    except EC2Error as error:
        if error.not_found or error.code == "ResourceNotFoundException":
            sentence = f"The role {role} of the nodes does not exist, or has no access entry in the cluster {cluster}."
            remedy = f"create it (docs/eks.md), or add the role to the ConfigMap aws-auth: nodes of {role} cannot join"
            return fault("access entry", sentence, remedy)
        if error.code == "InvalidRequestException":
            sentence = f"The cluster {cluster} may have no access entries: {error.message.rstrip('.')}."
            remedy = f"if it uses the ConfigMap aws-auth, check that this names the role {role}"
            return unknown("access entry", sentence, remedy)
        how = f"aws eks describe-access-entry --cluster-name {cluster} --principal-arn ARN_OF_THE_ROLE"
        sentence = f"These credentials may not read whether nodes of the role {role} may join."
        return unknown("access entry", sentence, f"run as an administrator: {how}")
    return ok("access entry", f"Nodes of the role {role} may join the cluster.")


def check_prices(aws: Ec2, settings: Settings, now: Callable[[], datetime]) -> DoctorFinding:
    """Read the prices as a worker does when it starts. Blocks."""
    try:
        pricing = Pricing(aws, isolated=settings.isolated_vpc, table_path=settings.price_table, now=now)
    except PriceTableError as error:
        remedy = "the worker does not start with this file: correct it, or leave PRICE_TABLE out"
        return fault("prices", f"PRICE_TABLE cannot be used: {error}", remedy)
    _, prices = pricing.current()
    catalogue = Catalogue(aws, pricing)
    with contextlib.suppress(EC2Error):  # the check of rights names the refused call
        catalogue.warm()
    lacking = catalogue.unpriced_types()
    if unknown := pricing.warnings():
        sentences = [*unknown, lacking] if lacking and not pricing.is_listed else unknown
        return warning("prices", " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences), REMEDY)
    zones = len({zone for _, zone in prices.spot})
    sentence = (
        f"On-demand prices of {len(prices.on_demand)} instance types are from {pricing.list_source}, spot prices from "
        f"EC2 for {zones} zones; the worker reads them again every 12 hours."
    )
    sentence = f"{sentence} {lacking}." if lacking else sentence
    return ok("prices", sentence) if pricing.is_listed or not lacking else warning("prices", sentence, STATE)
