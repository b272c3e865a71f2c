"""Prometheus metrics. Those that Karpenter also has keep its names, so that existing dashboards and alerts work."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import Counter, Gauge, Histogram

from tenon import __version__

_DURATIONS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600,
)  # fmt: skip
_STEPS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75,
    2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60, 120, 150, 300, 450, 600,
)  # fmt: skip
"""Karpenter's buckets of durations, because users' queries and recording rules name them."""
_HOUR, _DAY = 3600, 86400
_LIFETIMES = (
    *(900, 1800, 2700, *(_HOUR * hours for hours in (1, 2, 4, 6, 8, 10, 12, 16, 20))),
    *(_DAY * days for days in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
)
_POWERS = tuple(2**power for power in range(13))
_CONDITIONS = tuple(2.0**power for power in range(-1, 14))

TEXT_SUFFIX = ".prom"
"""Of the files in the folder of the metrics that hold metrics as text."""


TEXT_SOCKET_SUFFIX = ".text.sock"
"""Of the sockets in that folder on which processes answer a scrape with metrics as text."""


class TextGauge(NamedTuple):
    """A gauge of so many series that a process writes them as text: into one file, or at each scrape."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    of_nodes: bool = False
    """It also has each well-known label that its node has, as the last part of the label's name in snake case."""


class TextSummary(NamedTuple):
    """A summary with quantiles, which the Prometheus client does not have. A process writes it as text."""

    name: str
    documentation: str
    labels: tuple[str, ...]


SCHEDULING_SECONDS = Histogram(
    "karpenter_scheduler_scheduling_duration_seconds",
    "Duration of the decision for one batch.",
    ["controller"],
    buckets=_STEPS,
)
PLAN_PHASE_SECONDS = Histogram(
    "tenon_plan_phase_duration_seconds",
    "Duration of a phase of a plan: types, problem, solve, explain or write.",
    ["phase"],
    buckets=_DURATIONS,
)
SCHEDULING_TIMEOUTS = Counter(
    "tenon_scheduler_timeouts_total",
    "Decisions that reached their time limit and did not reach all pods.",
    ["controller"],
)
SCHEDULING_FAILURES = Counter(
    "tenon_scheduler_failures_total", "Decisions for which the scheduling engine failed on some pods.", ["controller"]
)
QUEUE_DEPTH = Gauge(
    "karpenter_scheduler_queue_depth",
    "Pods of the current batch that wait for a decision.",
    ["controller"],
    multiprocess_mode="mostrecent",
)
UNSCHEDULABLE_PODS = Gauge(
    "karpenter_scheduler_unschedulable_pods_count",
    "Pending pods that fitted nowhere in the last plan for them.",
    ["controller"],
    multiprocess_mode="mostrecent",
)
LAUNCHES_POSTPONED = Counter(
    "tenon_launches_postponed_total",
    "Pods whose planned node waits in a plan until EC2 has launched other nodes of the NodePool.",
    ["nodepool"],
)
IGNORED_PODS = Gauge(
    "karpenter_scheduler_ignored_pods_count",
    "Pending pods that Tenon leaves out.",
    multiprocess_mode="mostrecent",
)
CLAIMS_CREATED = Counter(
    "karpenter_nodeclaims_created_total", "NodeClaims created.", ["reason", "nodepool", "min_values_relaxed"]
)
CLAIMS_REFUSED = Counter(
    "tenon_nodeclaims_refused_total",
    "NodeClaims that the API server refused to create.",
    ["nodepool", "reason"],
)
CLAIMS_TERMINATED = Counter(
    "karpenter_nodeclaims_terminated_total", "NodeClaims terminated.", ["nodepool", "capacity_type", "zone"]
)
CLAIMS_DISRUPTED = Counter(
    "karpenter_nodeclaims_disrupted_total",
    "NodeClaims disrupted.",
    ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
)
CLAIMS_UNHEALTHY = Counter(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    "NodeClaims deleted because their node was unhealthy.",
    ["condition", "nodepool", "capacity_type", "image_id", "termination_mode"],
)
CLAIM_TERMINATION_SECONDS = Histogram(
    "karpenter_nodeclaims_termination_duration_seconds",
    "Time from a NodeClaim's deletion request until it is gone.",
    ["nodepool"],
    buckets=_POWERS[:12],
)
INSTANCE_TERMINATION_SECONDS = Histogram(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    "Time from the request to terminate an instance until its node is released.",
    ["nodepool"],
    buckets=_POWERS[:11],
)
PODS_DISRUPTED = Counter(
    "karpenter_pods_disruption_initiated_total",
    "Pods on nodes that Tenon began to remove.",
    ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
)
NODES_CREATED = Counter("karpenter_nodes_created_total", "Nodes registered.", ["nodepool", "zone"])
NODES_TERMINATED = Counter("karpenter_nodes_terminated_total", "Nodes terminated.", ["nodepool", "zone"])
_REBOOTS = (10, 20, 40, 80, 160, 320, 640, 1280)
REBOOTS = Counter("karpenter_nodes_reboots_total", "Reboots of nodes that ended, by result.", ["result"])
REBOOT_SECONDS = Histogram(
    "karpenter_nodes_reboot_duration_seconds",
    "Time from the request of a reboot to its end.",
    ["result"],
    buckets=_REBOOTS,
)
REBOOT_RECOVERY_SECONDS = Histogram(
    "karpenter_nodes_reboot_recovery_duration_seconds",
    "Time from the moment that EC2 accepted a reboot until the Node was Ready with another boot ID.",
    buckets=_REBOOTS,
)
NODES_DRAINED = Counter("karpenter_nodes_drained_total", "Nodes drained.", ["nodepool"])
NODE_LIFETIME_SECONDS = Histogram(
    "karpenter_nodes_lifetime_duration_seconds",
    "Time from a NodeClaim's creation until it is gone.",
    ["nodepool"],
    buckets=_LIFETIMES,
)
POD_EVICTIONS = Counter("karpenter_pods_eviction_requests_total", "Eviction requests by answer.", ["code"])
PODS_DRAINED = Counter("karpenter_pods_drained_total", "Pods drained from nodes that are being removed.", ["reason"])
POOL_LIMIT = Gauge(
    "karpenter_nodepools_limit", "Limits of a NodePool.", ["resource_type", "nodepool"], multiprocess_mode="mostrecent"
)
POOL_USAGE = Gauge(
    "karpenter_nodepools_usage",
    "Resources that a NodePool's nodes use, to compare with its limits.",
    ["resource_type", "nodepool"],
    multiprocess_mode="mostrecent",
)
POOL_ALLOWED_DISRUPTIONS = Gauge(
    "karpenter_nodepools_allowed_disruptions",
    "Nodes of a NodePool that its budgets allow to be disrupted at once.",
    ["nodepool", "reason"],
    multiprocess_mode="mostrecent",
)
POOLS_OFF = Gauge(
    "tenon_nodepools_off",
    "1 for a NodePool that is off by a NodeSchedule now, 0 afterwards.",
    ["nodepool"],
    multiprocess_mode="mostrecent",
)
FROZEN_POOLS = Gauge(
    "tenon_nodepools_frozen",
    "1 for a NodePool whose nodes a DisruptionFreeze keeps from disruption now, 0 afterwards.",
    ["nodepool", "disruptionfreeze"],
    multiprocess_mode="mostrecent",
)
POOL_NODES_CONSUMING_BUDGETS = Gauge(
    "karpenter_nodepools_nodes_consuming_budgets",
    "Nodes of a NodePool that use up its budgets: they are not ready or leaving.",
    ["nodepool", "reason"],
    multiprocess_mode="mostrecent",
)
NODE = ("node_name", "managed")
NODES_ALLOCATABLE = TextGauge(
    "karpenter_nodes_allocatable", "Resources of a Node that pods may request.", (*NODE, "resource_type"), True
)
NODES_POD_REQUESTS = TextGauge(
    "karpenter_nodes_total_pod_requests",
    "Requests of all pods of a Node, with those of DaemonSets.",
    (*NODE, "resource_type"),
    True,
)
NODES_POD_LIMITS = TextGauge(
    "karpenter_nodes_total_pod_limits",
    "Limits of all pods of a Node, with those of DaemonSets.",
    (*NODE, "resource_type"),
    True,
)
NODES_DAEMON_REQUESTS = TextGauge(
    "karpenter_nodes_total_daemon_requests",
    "Requests of the DaemonSets' pods of a Node.",
    (*NODE, "resource_type"),
    True,
)
NODES_DAEMON_LIMITS = TextGauge(
    "karpenter_nodes_total_daemon_limits", "Limits of the DaemonSets' pods of a Node.", (*NODE, "resource_type"), True
)
NODES_OVERHEAD = TextGauge(
    "karpenter_nodes_system_overhead",
    "Resources of a Node that its system keeps: the capacity without the allocatable.",
    (*NODE, "resource_type"),
    True,
)
NODES_AGE = TextGauge("karpenter_nodes_current_lifetime_seconds", "Age of a Node.", NODE, True)
CLUSTER_UTILIZATION = TextGauge(
    "karpenter_cluster_utilization_percent",
    "Requests of pods as a part of what all Nodes can allocate.",
    ("resource_type",),
)
POD_STATE = TextGauge(
    "karpenter_pods_state",
    "1 for each pod.",
    (
        *("name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type"),
        *("instance_type", "phase", "ready", "managed"),
    ),
)
POD_STARTUP_SECONDS = TextSummary(
    "karpenter_pods_startup_duration_seconds", "Time from a pod's creation until it is ready.", ()
)
NODE_TERMINATION_SECONDS = TextSummary(
    "karpenter_nodes_termination_duration_seconds",
    "Time from a Node's deletion request until it is gone.",
    ("nodepool",),
)
POD_BOUND_SECONDS = Histogram(
    "karpenter_pods_bound_duration_seconds",
    "Time from a pod's creation until it is bound.",
    ["dynamic_resources"],
    buckets=_STEPS,
)
POD_PROVISIONING_BOUND_SECONDS = Histogram(
    "karpenter_pods_provisioning_bound_duration_seconds",
    "Time from the first plan that has a place for a pod until it is bound.",
    ["dynamic_resources"],
    buckets=_STEPS,
)
POD_PROVISIONING_STARTUP_SECONDS = Histogram(
    "karpenter_pods_provisioning_startup_duration_seconds",
    "Time from the first plan that has a place for a pod until it is ready.",
    buckets=_STEPS,
)
POD_DECISION_SECONDS = Histogram(
    "karpenter_pods_scheduling_decision_duration_seconds",
    "Time from the moment that Tenon saw that a pod needs capacity until its first plan.",
    buckets=_STEPS,
)
POD = ("name", "namespace")
POD_UNSTARTED = TextGauge(
    "karpenter_pods_unstarted_time_seconds", "Time since a pod's creation, until it is ready.", POD
)
POD_UNBOUND = TextGauge(
    "karpenter_pods_unbound_time_seconds",
    "Time since a pod's creation, until it is bound.",
    (*POD, "dynamic_resources"),
)
POD_PROVISIONING_UNSTARTED = TextGauge(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "Time since the first plan that has a place for a pod, until it is ready.",
    POD,
)
POD_PROVISIONING_UNBOUND = TextGauge(
    "karpenter_pods_provisioning_unbound_time_seconds",
    "Time since the first plan that has a place for a pod, until it is bound.",
    (*POD, "dynamic_resources"),
)
POD_UNDECIDED = TextGauge(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "Time since Tenon saw that a pod needs capacity, until its first plan.",
    POD,
)
NODECLASS_LABEL, NODEPOOL_LABEL = "karpenter_k8s_aws_ec2nodeclass", "karpenter_sh_nodepool"
CONDITION_LABELS = {
    "nodeclaim": (NODECLASS_LABEL, NODEPOOL_LABEL),
    "nodepool": (),
    "node": (NODECLASS_LABEL, NODEPOOL_LABEL, "karpenter_sh_initialized"),
    "ec2nodeclass": (),
    "capacitybuffer": (),
}
"""The labels of objects that their condition metrics have too, by kind."""
_CONDITION = ("namespace", "name", "type", "status", "reason")
CONDITION_COUNT = {
    kind: TextGauge(f"operator_{kind}_status_condition_count", "1 for each condition.", (*_CONDITION, *own))
    for kind, own in CONDITION_LABELS.items()
}
CONDITION_SECONDS = {
    kind: TextGauge(
        f"operator_{kind}_status_condition_current_status_seconds",
        "How long a condition has had its status.",
        (*_CONDITION, *own),
    )
    for kind, own in CONDITION_LABELS.items()
}
TERMINATING_SECONDS = {
    kind: TextGauge(
        f"operator_{kind}_termination_current_time_seconds",
        "Time since the deletion of an object was requested.",
        ("namespace", "name", *own),
    )
    for kind, own in CONDITION_LABELS.items()
}
TERMINATION_SECONDS = {
    kind: Histogram(
        f"operator_{kind}_termination_duration_seconds",
        "Time from the request to delete an object until it was gone.",
        own,
        buckets=_CONDITIONS,
    )
    for kind, own in CONDITION_LABELS.items()
}
CONDITION_TRANSITIONS = {
    kind: Counter(
        f"operator_{kind}_status_condition_transitions_total",
        "Conditions that changed their status, or that are new.",
        ["type", "status", "reason", *CONDITION_LABELS[kind]],
    )
    for kind in ("nodeclaim", "nodepool", "node")
}
CONDITION_TRANSITION_SECONDS = {
    kind: Histogram(
        f"operator_{kind}_status_condition_transition_seconds",
        "How long a condition had its last status when that changed.",
        ["type", "status", "to_status", *CONDITION_LABELS[kind]],
        buckets=_CONDITIONS,
    )
    for kind in ("nodeclaim", "nodepool", "node")
}
CLUSTER_NODES = Gauge(
    "karpenter_cluster_state_node_count", "Nodes that the cache holds.", multiprocess_mode="mostrecent"
)
CLUSTER_UNSYNCED_SECONDS = Gauge(
    "karpenter_cluster_state_unsynced_time_seconds",
    "How long the cache has not held the whole cluster.",
    multiprocess_mode="mostrecent",
)
CLUSTER_SYNCED = Gauge(
    "karpenter_cluster_state_synced", "1 when the cache holds the whole cluster.", multiprocess_mode="mostrecent"
)
RECONCILES = Counter(
    "controller_runtime_reconcile_total", "Reconciles of a controller by result.", ["controller", "result"]
)
RECONCILE_ERRORS = Counter(
    "controller_runtime_reconcile_errors_total", "Objects and reconciles that failed.", ["controller"]
)
RECONCILE_SECONDS = Histogram(
    "controller_runtime_reconcile_time_seconds", "Duration of a reconcile.", ["controller"], buckets=_DURATIONS
)
ACTIVE_RECONCILES = Gauge(
    "controller_runtime_active_workers",
    "Whether a controller is reconciling.",
    ["controller"],
    multiprocess_mode="livesum",
)
MAX_RECONCILES = Gauge(
    "controller_runtime_max_concurrent_reconciles",
    "Objects that a controller reconciles at the same time.",
    ["controller"],
    multiprocess_mode="livemax",
)
RECONCILE_PANICS = Counter(
    "controller_runtime_reconcile_panics_total",
    "Objects and reconciles that failed on an error in the code of Tenon.",
    ["controller"],
)
QUEUE_SECONDS = Histogram(
    "workqueue_queue_duration_seconds",
    "How long the first change of a reconcile waited for it.",
    ["name", "controller"],
    buckets=_DURATIONS,
)
WORK_SECONDS = Histogram(
    "workqueue_work_duration_seconds", "Duration of a reconcile.", ["name", "controller"], buckets=_DURATIONS
)
UNFINISHED_WORK = TextGauge(
    "workqueue_unfinished_work_seconds", "How long the current reconcile has gone on.", ("name", "controller")
)
LONGEST_WORK = TextGauge(
    "workqueue_longest_running_processor_seconds",
    "How long the current reconcile has gone on.",
    ("name", "controller"),
)
UNFINISHED_SOLVE = TextGauge(
    "karpenter_scheduler_unfinished_work_seconds",
    "How long the current solve has gone on.",
    ("controller", "scheduling_id"),
)
QUEUED_CHANGES = Gauge(
    "workqueue_depth", "Changes in the last reconcile.", ["name", "controller"], multiprocess_mode="livesum"
)
QUEUE_ADDS = Counter("workqueue_adds_total", "Changes that a controller collected.", ["name", "controller"])
QUEUE_RETRIES = Counter("workqueue_retries_total", "Failures that a controller retries.", ["name", "controller"])
EVENT_LOOP_LAG = Gauge(
    "tenon_event_loop_lag_seconds",
    "The worst delay of a process's event loop in the last minute.",
    ["process"],
    multiprocess_mode="livemax",
)
EVENT_LOOP_COMPUTING = Gauge(
    "tenon_event_loop_computing_seconds",
    "The longest time in the last minute that a process's event loop computed without yielding.",
    ["process"],
    multiprocess_mode="livemax",
)
DECISIONS = Counter(
    "karpenter_voluntary_disruption_decisions_total",
    "Disruption decisions made.",
    ["decision", "reason", "consolidation_type"],
)
DECISIONS_BY_POOL = Counter(
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    "Disruption decisions made, once for each NodePool with a node in it.",
    ["nodepool", "decision", "reason", "consolidation_type"],
)
TERMINATE_FIRST_DECISIONS = Counter(
    "karpenter_voluntary_disruption_terminate_first_decisions_total",
    "Decisions to terminate a node before its replacement starts, because there is no room for both.",
    ["nodepool", "reason", "terminate_first_reason"],
)
NODES_AWAITING_REPLACEMENT = Gauge(
    "tenon_nodepools_nodes_awaiting_replacement",
    "Nodes of a NodePool that left before their replacement, which does not run yet. Budgets count them.",
    ["nodepool"],
    multiprocess_mode="mostrecent",
)
REPLACEMENT_WAIT_SECONDS = Histogram(
    "tenon_terminate_first_wait_seconds",
    "Time from the end of a node that left before its replacement until the replacement ran, or was given up.",
    ["nodepool", "reason", "result"],
    buckets=_POWERS,
)
APPROVALS_WAITING = Gauge(
    "tenon_disruption_approvals_waiting",
    "Disruption commands that wait until a person approves them, once for each NodePool with a node in it.",
    ["nodepool", "reason"],
    multiprocess_mode="mostrecent",
)
LONGEST_APPROVAL_WAIT = Gauge(
    "tenon_disruption_approvals_longest_wait_seconds",
    "How long the oldest of these commands has waited. 0 if none waits.",
    ["nodepool", "reason"],
    multiprocess_mode="mostrecent",
)
APPROVAL_WAIT_SECONDS = Histogram(
    "tenon_disruption_approval_wait_seconds",
    "How long a disruption command waited for a person, by how that ended. Observed when the command has ended.",
    ["nodepool", "reason", "answer"],
    buckets=(60, 300, 900, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 172800, 345600, 691200, 1382400, 2592000),
)
EVALUATION_SECONDS = Histogram(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    "Duration of one evaluation of a disruption method.",
    ["reason", "consolidation_type"],
    buckets=_STEPS,
)
PREDICTED_SAVINGS = Counter(
    "tenon_consolidation_predicted_savings_per_hour_total",
    "What consolidation commands were to save, in dollars an hour.",
    ["nodepool"],
)
REACHED_SAVINGS = Counter(
    "tenon_consolidation_reached_savings_per_hour_total",
    "What consolidation commands saved once their replacements were launched, in dollars an hour. A loss counts as 0.",
    ["nodepool"],
)
COMMAND_SAVINGS = Counter(
    "tenon_disruption_saved_dollars_per_hour_total",
    "What disruption commands saved once their replacements were launched, in dollars an hour. A loss counts as 0.",
    ["nodepool", "reason"],
)
CONSOLIDATION_TIMEOUTS = Counter(
    "karpenter_voluntary_disruption_consolidation_timeouts_total",
    "Evaluations of consolidation that reached their time limit.",
    ["consolidation_type"],
)
QUEUE_FAILURES = Counter(
    "karpenter_voluntary_disruption_queue_failures_total",
    "Disruption commands that failed and were undone.",
    ["decision", "reason", "consolidation_type"],
)
CONSOLIDATION_SCORE = Histogram(
    "karpenter_consolidation_score",
    "Scores of the moves that the policy Balanced judged.",
    ["decision", "nodepool", "policy"],
    buckets=(0.1, 0.25, 0.33, 0.5, 1, 2, 5, 10),
)
CONSOLIDATION_MOVES = Counter(
    "karpenter_consolidation_moves_total",
    "Moves of consolidation that were approved or rejected, once for each NodePool with a node in it.",
    ["decision", "nodepool", "policy"],
)
CLOSED_DESTINATIONS = Gauge(
    "tenon_consolidation_closed_destinations",
    "Nodes that took no pods in the last pass of consolidation, because consolidateAfter was not over for them.",
    ["nodepool"],
    multiprocess_mode="mostrecent",
)
DELETION_COST_PENDING = Gauge(
    "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes",
    "Nodes whose pods still need another pod-deletion-cost after the last cycle.",
    ["nodepool"],
    multiprocess_mode="mostrecent",
)
DELETION_COST_WRITES = Counter(
    "karpenter_pod_deletion_cost_pod_annotation_writes_total",
    "Pods whose pod-deletion-cost was set or removed, or why it was not.",
    ["result"],
)
FAILED_VALIDATIONS = Counter(
    "karpenter_voluntary_disruption_failed_validations_total",
    "Disruption commands that were no longer valid when they were checked.",
    ["consolidation_type"],
)
ELIGIBLE_NODES = Gauge(
    "karpenter_voluntary_disruption_eligible_nodes",
    "Nodes that may be disrupted for a reason, whatever the budgets allow.",
    ["reason"],
    multiprocess_mode="mostrecent",
)
NODECLASS_TRANSITIONS = Counter(
    "operator_ec2nodeclass_status_condition_transitions_total",
    "Conditions of EC2NodeClasses that changed their status, or that are new.",
    ["type", "status", "reason"],
)
NODECLASS_TRANSITION_SECONDS = Histogram(
    "operator_ec2nodeclass_status_condition_transition_seconds",
    "How long a condition of an EC2NodeClass had its last status when that changed.",
    ["type", "status", "to_status"],
    buckets=_CONDITIONS,
)
BUFFER_TRANSITIONS = Counter(
    "operator_capacitybuffer_status_condition_transitions_total",
    "Conditions of CapacityBuffers that changed their status, or that are new.",
    ["type", "status", "reason"],
)
BUFFER_TRANSITION_SECONDS = Histogram(
    "operator_capacitybuffer_status_condition_transition_seconds",
    "How long a condition of a CapacityBuffer had its last status when that changed.",
    ["type", "status", "to_status"],
    buckets=_CONDITIONS,
)
USER_DATA_BYTES = Gauge(
    "karpenter_ec2nodeclasses_userdata_bytes",
    "Size of the rendered user data of an EC2NodeClass in bytes, before base64.",
    ["nodeclass"],
    multiprocess_mode="mostrecent",
)
LAUNCH_FAILURES = Counter(
    "karpenter_cloudprovider_instance_launch_failures_total",
    "Offerings that EC2 refused.",
    ["zone", "zone_id", "capacity_type", "reason"],
)
TERMINATION_FAILURES = Counter(
    "karpenter_cloudprovider_instance_termination_failures_total",
    "Requests to terminate an instance that EC2 refused.",
    ["zone", "zone_id"],
)
CLOUD_SECONDS = Histogram(
    "karpenter_cloudprovider_duration_seconds",
    "Duration of calls to the cloud provider.",
    ["controller", "method", "provider"],
    buckets=_STEPS,
)
CLOUD_ERRORS = Counter(
    "karpenter_cloudprovider_errors_total",
    "Failed calls to the cloud provider.",
    ["controller", "method", "provider", "error"],
)
TYPE_CPU_CORES = TextGauge(
    "karpenter_cloudprovider_instance_type_cpu_cores", "vCPUs of an instance type.", ("instance_type",)
)
TYPE_MEMORY_BYTES = TextGauge(
    "karpenter_cloudprovider_instance_type_memory_bytes",
    "Memory of an instance type, as EC2 states it.",
    ("instance_type",),
)
OFFERING_AVAILABLE = TextGauge(
    "karpenter_cloudprovider_instance_type_offering_available",
    "1 if plans may use an offering; 0 if EC2 refused it recently, its price is not known, or no image boots its type.",
    ("instance_type", "capacity_type", "zone"),
)
OFFERINGS_REFUSED = TextGauge(
    "tenon_offerings_refused",
    "Offerings that are unavailable to plans because EC2 refused or interrupted them, or has no quota left for them.",
    ("capacity_type", "reason"),
)
OFFERING_PRICE = TextGauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "The hourly price that plans use.",
    ("instance_type", "capacity_type", "zone"),
)
PENDING_BY_ZONE = TextGauge(
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    "Pods that wait for capacity, by the only zone that they may run in: flexible for several, none for no zone.",
    ("controller", "zone"),
)
POOL_COST = TextGauge(
    "karpenter_nodepools_cost_total",
    "The hourly price of all instances of a NodePool, at the prices that plans use.",
    ("nodepool",),
)
POOL_PRICE = TextGauge(
    "tenon_nodepools_price_per_hour",
    "The hourly price of the instances of a NodePool, at the prices that plans use.",
    ("nodepool", "capacity_type"),
)
COST_BY_KIND = TextGauge(
    "tenon_nodepools_cost_per_hour",
    "What is paid for the instances of a NodePool, by what it is paid for, in dollars an hour.",
    ("nodepool", "kind"),
)
COST_LOWER_BOUND = TextGauge(
    "tenon_cost_lower_bound_per_hour",
    "The least that any nodes could cost for the pods that run on nodes of NodePools, in dollars an hour.",
    (),
)
COST_BY_NAMESPACE = TextGauge(
    "tenon_namespace_cost_per_hour",
    "What the pods of a namespace cost by their requests, in dollars an hour: the dearest 100, and the others.",
    ("pod_namespace",),
)
COST_BY_WORKLOAD = TextGauge(
    "tenon_workload_cost_per_hour",
    "What the pods of a workload cost by their requests, in dollars an hour: the dearest 50, and the others.",
    ("pod_namespace", "workload"),
)
INTERRUPTION_RECEIVED = Counter(
    "karpenter_interruption_received_messages_total", "Messages from the interruption queue.", ["message_type"]
)
INTERRUPTION_MALFORMED = Counter(
    "tenon_interruption_malformed_messages_total", "Messages that are not EventBridge events, and were dropped."
)
INTERRUPTION_DELETED = Counter(
    "karpenter_interruption_deleted_messages_total", "Messages that were deleted from the interruption queue."
)
INSTANCES_UNHEALTHY = Counter(
    "karpenter_interruption_instance_status_unhealthy_total",
    "Instances whose nodes left because of a status check or a scheduled event.",
    ["category"],
)
INTERRUPTION_SECONDS = Histogram(
    "karpenter_interruption_message_queue_duration_seconds",
    "Time from the event until its message was received.",
    buckets=_STEPS,
)
OPEN_BREAKERS = Gauge(
    "tenon_nodepools_launches_held_back",
    "1 while EC2 refuses a NodePool's launches, so that only one launch at a time is tried; otherwise 0.",
    ["nodepool"],
    multiprocess_mode="mostrecent",
)
GARBAGE_COLLECTION_FOUND = Counter(
    "tenon_garbage_collection_found_total", "Lost or inconsistent objects that sweeps found, by kind.", ["kind"]
)
GARBAGE_COLLECTION_ENDED = Counter(
    "tenon_garbage_collection_ended_total", "Findings of sweeps that were removed or repaired, by kind.", ["kind"]
)
GARBAGE_COLLECTION_FAILED = Counter(
    "tenon_garbage_collection_failed_total", "Findings of sweeps whose removal or repair failed, by kind.", ["kind"]
)
GARBAGE_COLLECTION_HELD_BACK = Gauge(
    "tenon_garbage_collection_held_back",
    "Findings that a person must confirm, because too many look lost at once, as of its last sweep, by kind.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
GARBAGE_COLLECTION_UNREAD = Counter(
    "tenon_garbage_collection_unread_total",
    "Sources that a sweep could not read, so that it skipped their objects.",
    ["source"],
)
GARBAGE_COLLECTION_SUCCESS = Gauge(
    "tenon_garbage_collection_last_success_timestamp_seconds",
    "Time of the last sweep that read everything; alert if it is older than a few intervals.",
    multiprocess_mode="max",
)
LIST_PRICES_TIME = Gauge(
    "tenon_list_prices_timestamp_seconds",
    "Time of the on-demand prices that plans use: when the price list was read, or the date of the table.",
    multiprocess_mode="mostrecent",
)
FOREIGN_FINALIZERS = Gauge(
    "tenon_nodeclaims_foreign_finalizers",
    "Deleted NodeClaims that only another controller's finalizer holds, as of this replica's last sweep.",
    ["finalizer"],
    multiprocess_mode="mostrecent",
)
BLOCKED_CLAIMS = Gauge(
    "tenon_nodeclaims_blocked",
    "NodeClaims whose workflow is blocked and needs an operator's attention, as the leader sees them each minute.",
    ["nodepool"],
    multiprocess_mode="mostrecent",
)
WORKFLOW_TASK_FAILURES = Counter(
    "tenon_workflow_task_failures_total",
    "Workflow tasks that failed on an error in the code of the workflow, and that Temporal retries.",
    ["workflow"],
)
WORKFLOW_RUNS_ENDED = Counter(
    "tenon_workflow_runs_ended_total",
    "Runs of workflows that ended because this version of the worker could not replay their history.",
    ["workflow"],
)
WORKER_VERSION_SERVES = Gauge(
    "tenon_worker_version_serves",
    "1 if Temporal sends tasks to this worker's version, which is Current or Ramping; 0 if not.",
    ["build_id"],
    multiprocess_mode="livemax",
)
PAYLOADS_UNREADABLE = Counter(
    "tenon_payloads_unreadable_total",
    "Encrypted payloads that could not be decrypted, for example because their key is not in the file.",
)
LEADER_STATUS = Gauge(
    "leader_election_master_status",
    "1 while this replica holds the Lease, 0 while it waits for it.",
    ["name"],
    multiprocess_mode="livemax",
)
STANDING_BY = Gauge(
    "tenon_standing_by",
    "1 while another controller, such as Karpenter, leads in this cluster and Tenon stands by.",
    multiprocess_mode="livemin",  # each process finds out by itself, and until all have, one of them may still act
)
INTERRUPTION_UNCONFIRMED = Counter(
    "tenon_interruption_unconfirmed_messages_total",
    "Messages in the interruption queue about an instance of the cluster that EC2 does not confirm.",
    ["message_type"],
)
SURPLUS_INSTANCES = Counter(
    "tenon_surplus_instances_total",
    "Instances that Tenon launched for a NodeClaim which another controller had launched meanwhile.",
    ["nodepool"],
)
STOPPED_CALLS = Counter(
    "tenon_stopped_calls_total",
    "Calls that would have changed something and were not sent, because Tenon stands by.",
    ["service"],
)
IGNORED_LEASES = Gauge(
    "tenon_ignored_leases",
    "Leases of Karpenter's name that are renewed by a holder that is no controller of nodes. Tenon does not stand by.",
    multiprocess_mode="livemax",
)
RECORD_ENTRIES = Counter(
    "tenon_record_entries_total",
    "Entries of the record that a sink has written, or that were lost because it did not keep up or failed.",
    ["sink", "result"],
)
AWS_LABELS = ["service", "action", "code"]
AWS_REQUESTS = Counter("aws_sdk_go_request_total", "Requests to AWS, each with its retries.", AWS_LABELS)
AWS_RETRIES = Histogram(
    "aws_sdk_go_request_retry_count", "Retries of a request to AWS.", AWS_LABELS, buckets=(0, 1, 2, 3, 5, 10)
)
AWS_REQUEST_SECONDS = Histogram(
    "aws_sdk_go_request_duration_seconds",
    "Duration of requests to AWS, with their retries.",
    AWS_LABELS,
    buckets=_DURATIONS,
)
AWS_ATTEMPTS = Counter("aws_sdk_go_request_attempt_total", "Attempts of requests to AWS.", AWS_LABELS)
AWS_ATTEMPT_SECONDS = Histogram(
    "aws_sdk_go_request_attempt_duration_seconds",
    "Duration of one attempt of a request to AWS.",
    AWS_LABELS,
    buckets=_DURATIONS,
)
KUBERNETES_REQUESTS = Counter(
    "client_go_request_total",
    "Requests to the API server. The code of one without an answer is <error>.",
    ["code", "method"],
)
KUBERNETES_SECONDS = Histogram(
    "client_go_request_duration_seconds",
    "Time until the API server begins to answer a request.",
    ["verb", "group", "version", "kind", "subresource"],
    buckets=tuple(round(0.001 * 1.5**power, 6) for power in range(20)),
)
BATCH_SECONDS = Histogram(
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    "How long the requests of a call to AWS gathered.",
    ["batcher"],
    buckets=_DURATIONS,
)
BATCH_SIZE = Histogram(
    "karpenter_cloudprovider_batcher_batch_size",
    "Requests that one call to AWS serves.",
    ["batcher"],
    buckets=(1, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 125, 150, 175, 200, 250, 300, 400, 500, 1000),
)
ROLLOUT_STATE = Gauge(
    "tenon_rollout_state",
    "1 for the state of the rollout of a NodePool, 0 for its other states.",
    ["noderollout", "nodepool", "state"],
    multiprocess_mode="mostrecent",
)
ROLLOUT_WAVE = Gauge(
    "tenon_rollout_wave",
    "The number of the wave that is under way or comes next, from 1; 0 without one.",
    ["noderollout", "nodepool"],
    multiprocess_mode="mostrecent",
)
ROLLOUT_WAVE_BEGAN = Gauge(
    "tenon_rollout_wave_began_timestamp_seconds",
    "When the wave began that is under way; 0 without one.",
    ["noderollout", "nodepool"],
    multiprocess_mode="mostrecent",
)
ROLLOUT_NODES = Gauge(
    "tenon_rollout_nodes",
    "Nodes of the rollout of a NodePool: replaced in the wave, chosen to leave now, or held because they cannot leave.",
    ["noderollout", "nodepool", "kind"],
    multiprocess_mode="mostrecent",
)
WARM_NODES = Gauge(
    "tenon_warm_nodes",
    "Warm nodes of a NodePool by state: filling (they start for the first time), stopped, or starting for pods.",
    ["nodepool", "state"],
    multiprocess_mode="livemax",
)
WARM_STARTS = Counter(
    "tenon_warm_starts_total",
    "Warm nodes that a plan used, by what became of them: joined, refused by EC2, or lost because they did not return.",
    ["nodepool", "result"],
)
BUILD_INFO = Gauge(
    "karpenter_build_info", "The version that runs; always 1.", ["version"], multiprocess_mode="mostrecent"
)
BUILD_INFO.labels(__version__).set(1)
