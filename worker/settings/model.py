"""The operator's settings: names, defaults and bounds.

Names and defaults are Karpenter's where Karpenter has the setting. Temporal's own client settings (TEMPORAL_ADDRESS,
TEMPORAL_NAMESPACE, TLS, API key) come from Temporal's standard environment configuration, not from here.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tenon.apis.hourly_cost import MAX_DOLLARS
from tenon.kube.scheduler_config import DefaultSpread
from tenon.provisioning.gates import AwsFeatureGates, FeatureGates
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.scheduling.model import NODE_CHARGE
from worker.own_namespace import own_namespace
from worker.scheduler_document import default_spread
from worker.settings.kinds import (
    NEVER,
    AwsGates,
    CaBundle,
    Endpoint,
    Gates,
    LowerCase,
    Namespaces,
    Paths,
    RecordSinks,
    SchedulerDocument,
    SecureAddress,
    Tags,
    Wait,
    between,
    duration_text,
)

Port = Annotated[int, Field(ge=0, le=65535)]


class Settings(BaseModel):
    """The effective settings of a worker. Each field is the environment variable of the same name in upper case."""

    model_config = ConfigDict(extra="forbid")

    cluster_name: str = Field(min_length=1, max_length=100, description="Name of the cluster.")
    cluster_endpoint: Endpoint = Field(
        "", description="Address of the API server for nodes. Empty: Tenon reads it from EKS."
    )
    cluster_ca_bundle: CaBundle = Field(
        "", description="Certificate authority of the API server for nodes, base64. Empty: Tenon reads it from EKS."
    )
    eks_control_plane: bool = Field(False, description="Ask EKS, not the API server, for the version of Kubernetes.")
    isolated_vpc: bool = Field(False, description="For a VPC without internet: ask neither the price list nor IAM.")
    price_table: str = Field(
        "",
        description="Path of a file with list prices of the region, which `tenon prices` writes, for when the price "
        "list cannot be read; empty: the built-in prices.",
    )
    interruption_queue: str = Field(
        "", description="Name of the SQS queue with notices of interruptions; empty: none is read."
    )
    enable_commitments: bool = Field(
        False, description="Use what Reserved Instances and Savings Plans of the account cover before other offerings."
    )
    enable_zonal_shift: bool = Field(False, description="Avoid zones with an active zonal shift.")
    disable_dry_run: bool = Field(False, description="Do not validate EC2NodeClasses with dry runs of EC2 calls.")
    ami_refresh_interval: Annotated[timedelta, between("1m")] = Field(
        timedelta(minutes=10), description="Interval of resolving an EC2NodeClass's images, 1m or longer."
    )
    subnet_refresh_interval: Annotated[timedelta, between("1m")] = Field(
        timedelta(minutes=10), description="Interval of resolving an EC2NodeClass's subnets, 1m or longer."
    )
    security_group_refresh_interval: Annotated[timedelta, between("1m")] = Field(
        timedelta(minutes=10), description="Interval of resolving an EC2NodeClass's security groups, 1m or longer."
    )
    vm_memory_overhead_percent: float = Field(
        0.075,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Share of an instance's memory that the hypervisor uses, until a node of the type reports it.",
    )
    reserved_enis: int = Field(0, ge=0, description="Network interfaces of each instance that pods cannot use.")
    default_instance_profile: str = Field(
        "", description="Instance profile of AWSNodeTemplates that name none (aws.defaultInstanceProfile)."
    )
    default_tags: Tags = Field(
        "", description='Tags of AWSNodeTemplates that do not set them (aws.tags), as JSON: {"team": "a"}.'
    )

    # The activity that collects a batch times out after 660 s. A batch must close before that, or it starts again.
    batch_max_duration: Annotated[timedelta, between("0s", "5m")] = Field(
        timedelta(seconds=10), description="Maximum duration of a batch, up to 5m."
    )
    batch_idle_duration: Annotated[timedelta, between("0s", "5m")] = Field(
        timedelta(seconds=1), description="Idle time without a new pod that ends a batch, up to 5m."
    )
    preference_policy: Literal["Respect", "Ignore"] = Field(
        "Respect", description="Respect or Ignore preferred affinities and ScheduleAnyway spread."
    )
    min_values_policy: Literal["Strict", "BestEffort"] = Field(
        "Strict", description="minValues of NodePools: Strict, or BestEffort, which lowers them if necessary."
    )
    ignore_dra_requests: bool = Field(True, description="Ignore pods with dynamic resource claims.")
    insecure_calendars: bool = Field(
        False, description="Read calendars of DisruptionFreezes also by plain HTTP and from loopback addresses."
    )
    legacy_node_repair: bool = Field(False, description="Repair nodes as Karpenter 1.14 did.")
    scheduler_config: SchedulerDocument = Field(
        "", description="Topology spread of pods that state none: kube-scheduler's configuration, or the path of it."
    )
    node_charge: float = Field(
        NODE_CHARGE,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        description="Dollars an hour that plans add to the price of each node.",
    )
    max_workload_share_per_node: float = Field(
        1.0, gt=0, le=1, allow_inf_nan=False, description="Share of a workload's pods that one node may run."
    )
    max_hourly_cost: float = Field(
        0,
        ge=0,
        le=MAX_DOLLARS,
        allow_inf_nan=False,
        description="Dollars an hour that the nodes of all NodePools may cost together; 0: no limit.",
    )
    feature_gates: Gates = Field(FeatureGates(), description="Feature gates: Gate=true,Gate=false.")
    aws_feature_gates: AwsGates = Field(AwsFeatureGates(), description="Feature gates of the AWS provider.")

    cost_interval: Annotated[timedelta, between("1m", "24h")] = Field(
        timedelta(minutes=15), description="Interval of recording who causes the cost of nodes, 1m to 24h."
    )
    garbage_collection_interval: Annotated[timedelta, between("30s", "24h")] = Field(
        timedelta(minutes=10), description="Interval of searching for orphans, 30s to 24h."
    )
    initialization_timeout: Wait = Field(
        timedelta(hours=1), description="How long a registered node may take to initialize; 0 or Never: no limit."
    )
    watch_silence_limit: Annotated[timedelta, between("1s", "10m")] = Field(
        timedelta(seconds=75), description="Silence after which a watch is restarted, 1s to 10m."
    )
    payload_encryption_config: str = Field(
        "", description="Path of the file with the keys that encrypt payloads; empty: they are not encrypted."
    )
    worker_versioning: Literal["Disabled", "Automatic", "Manual"] = Field(
        "Disabled",
        description="Temporal's worker versioning: Disabled; Automatic: each new version makes itself Current; "
        "Manual: an operator or Temporal's Worker Controller does.",
    )
    worker_version_ramp: Annotated[timedelta, between("0s", "10m")] = Field(
        timedelta(), description="How long a new version gets 20 % of the workflows before it gets all, up to 10m."
    )
    kube_client_qps: float = Field(200, gt=0, allow_inf_nan=False, description="Requests to the API server per second.")
    kube_client_burst: int = Field(300, gt=0, description="Burst of requests to the API server.")
    cpu_requests: float = Field(
        1000,
        ge=0,
        allow_inf_nan=False,
        description="CPU of the container in millicores, which scales concurrency.",
    )
    memory_limit: int = Field(
        -1, ge=-1, description="Memory limit of the container in bytes; garbage is collected at 90 %. -1: none."
    )

    metrics_port: Port = Field(8080, description="Port of /metrics.")
    health_probe_port: Port = Field(8081, description="Port of /healthz and /readyz.")
    enable_profiling: bool = Field(False, description="Serve /debug/pprof on the metrics port.")
    disable_cluster_state_observability: bool = Field(
        False, description="Do not measure NodePools, cluster state and instance types."
    )
    log_level: Annotated[Literal["debug", "info", "warn", "error"], LowerCase] = Field(
        "info", description="debug, info, warn or error."
    )
    log_output_paths: Paths = Field(("stdout",), description="Where logs go: stdout, stderr, files, with commas.")
    log_error_output_paths: Paths = Field(("stderr",), description="Where errors of logging itself go.")
    record_sinks: RecordSinks = Field(
        "stdout",
        description="Where the record goes: stdout, file:///PATH, s3://BUCKET/PREFIX, otlp, with commas; or none.",
    )

    disable_leader_election: bool = Field(False, description="Plan without holding a Lease.")
    leader_election_name: str = Field(
        "karpenter-leader-election", min_length=1, max_length=253, description="Name of the Lease."
    )
    leader_election_namespace: str = Field("", description="Namespace of the Lease; empty: the worker's own.")
    stand_by_namespaces: Namespaces = Field(
        "kube-system,karpenter",
        description="Namespaces, with commas, in which every Lease of Karpenter's name makes Tenon stand by.",
    )
    disable_controller_warmup: bool = Field(True, description="Fill caches only when this replica leads.")
    karpenter_service: str = Field("", description="Name of the Service that reaches the conversion webhook.")
    disable_webhook: bool = Field(False, description="Do not serve the conversion of v1beta1 objects.")
    webhook_port: int = Field(8443, ge=1, le=65535, description="Port of the conversion webhook.")
    webhook_url: SecureAddress = Field(
        "", description="Address of the webhook for an API server that cannot use the Service; empty: the Service."
    )

    def plan_policy(self) -> PlanPolicy:
        """The settings that affect planning."""
        return PlanPolicy(
            ignore_preferences=self.preference_policy == "Ignore",
            min_values_best_effort=self.min_values_policy == "BestEffort",
            node_charge=self.node_charge,
            most_pods_share=self.max_workload_share_per_node,
            max_hourly_cost=self.max_hourly_cost,
        )

    def default_spread(self) -> DefaultSpread:
        """The default topology spread, for pods that state none."""
        return default_spread(self.scheduler_config)

    def as_environment(self) -> dict[str, str]:
        """The settings as environment variables for a child process."""
        return {name.upper(): text(getattr(self, name)) for name in type(self).model_fields}

    def namespace(self) -> str:
        """The namespace of the Lease: the setting, or else the pod's namespace, or else ``tenon``."""
        return self.leader_election_namespace or own_namespace()

    def namespaces_of_rivals(self) -> tuple[str, ...]:
        """The namespaces in which every Lease of Karpenter's name counts, in addition to that of Tenon's own Lease."""
        return (own_namespace(), *self.stand_by_namespaces.split(","))


def text(value: Any) -> str:
    """The value in the form in which an environment variable holds it."""
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return NEVER if value is None else str(value)


def is_switch(name: str) -> bool:
    """Whether a setting is a boolean, so that its flag alone means true."""
    return Settings.model_fields[name].annotation is bool
