"""The exact names that Tenon shares with Karpenter: labels, annotations, taints, finalizers, tags.

Do not change them: users' manifests, dashboards and admission policies depend on the exact text.
"""

from __future__ import annotations

GROUP = "karpenter.sh"
AWS_GROUP = "karpenter.k8s.aws"
TENON_GROUP = "tenon.sh"

# Labels
NODEPOOL = "karpenter.sh/nodepool"
PROVISIONER = "karpenter.sh/provisioner-name"
"""The name of `NODEPOOL` before v1beta1. The nodes of a NodePool with this label carry it too, for pods that use it."""
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
EC2NODECLASS = "karpenter.k8s.aws/ec2nodeclass"
ZONE = "topology.kubernetes.io/zone"
ZONE_ID = "topology.k8s.aws/zone-id"
REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
HOSTNAME = "kubernetes.io/hostname"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"
TENANCY = "karpenter.k8s.aws/instance-tenancy"
RESERVATION_ID = "karpenter.k8s.aws/capacity-reservation-id"
RESERVATION_TYPE = "karpenter.k8s.aws/capacity-reservation-type"
PLACEMENT_GROUP_ID = "karpenter.k8s.aws/placement-group-id"
PLACEMENT_GROUP_PARTITION = "karpenter.k8s.aws/placement-group-partition"
RESERVATION_INTERRUPTIBLE = "karpenter.k8s.aws/capacity-reservation-interruptible"
EXCLUDE_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"

ALIASES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "topology.ebs.csi.aws.com/zone": ZONE,
}
"""Older names of labels. Requirements treat them as the same label."""

AWS_INSTANCE_LABELS = frozenset(
    f"{AWS_GROUP}/{name}"
    for name in (
        "instance-category",
        "instance-generation",
        "instance-family",
        "instance-size",
        "instance-capability-flex",
        "instance-hypervisor",
        "instance-encryption-in-transit-supported",
        "nitro-sandbox",
        "instance-cpu",
        "instance-cpu-manufacturer",
        "instance-cpu-sustained-clock-speed-mhz",
        "instance-memory",
        "instance-ebs-bandwidth",
        "instance-network-bandwidth",
        "instance-local-nvme",
        "instance-gpu-name",
        "instance-gpu-manufacturer",
        "instance-gpu-count",
        "instance-gpu-memory",
        "instance-accelerator-name",
        "instance-accelerator-manufacturer",
        "instance-accelerator-count",
        "instance-tenancy",
        "capacity-reservation-id",
        "capacity-reservation-type",
        "capacity-reservation-interruptible",
        "placement-group-id",
        "placement-group-partition",
    )
)
WELL_KNOWN = AWS_INSTANCE_LABELS | frozenset(
    {NODEPOOL, CAPACITY_TYPE, ZONE, ZONE_ID, REGION, INSTANCE_TYPE, ARCH, OS, WINDOWS_BUILD}
)
"""Labels that a pod may require even if the NodePool does not define them."""

COPIED_TO_PODS = frozenset({ZONE, REGION})
"""What the API server copies from a Node to the pods that are bound to it (its admission plugin PodTopologyLabels).

A pod that takes the place of a bound one does not have these labels yet, or has others.
"""

REMOVED_LABELS = frozenset({f"{AWS_GROUP}/instance-pods", f"{AWS_GROUP}/instance-ami-id"})
"""Labels that nodes carried before v1beta1 and no longer carry."""

# Tenancies: whether an instance shares its hardware with instances of other accounts
DEFAULT_TENANCY = "default"
DEDICATED = "dedicated"

# Types of capacity reservations: on-demand capacity reservations, and capacity blocks
DEFAULT_RESERVATION = "default"
CAPACITY_BLOCK = "capacity-block"

# Capacity types, in order of preference
RESERVED = "reserved"
SPOT = "spot"
ON_DEMAND = "on-demand"

# Annotations
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DO_NOT_REPAIR = "karpenter.sh/do-not-repair"
"""On a Node or its NodeClaim, ``true`` keeps node repair away from it. Karpenter knows it since 1.15."""
DISRUPTION_COST = "karpenter.sh/disruption-cost"
"""On a Pod: the cost of evicting it, for disruption alone. Karpenter knows it since 1.15."""
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""On a Pod: which one a ReplicaSet removes first. The cost of evicting it too, without `DISRUPTION_COST`."""
DO_NOT_EVICT = "karpenter.sh/do-not-evict"
"""The name of `DO_NOT_DISRUPT` on a Pod before v1."""
DO_NOT_CONSOLIDATE = "karpenter.sh/do-not-consolidate"
"""The name of `DO_NOT_DISRUPT` on a Node before v1."""
NODEPOOL_HASH = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION = "karpenter.sh/nodepool-hash-version"
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
"""On a NodeClaim: whether Tenon lowered a ``minValues`` of its NodePool for it (MIN_VALUES_POLICY=BestEffort)."""
PRICE_OVERLAY_APPLIED = "karpenter.sh/price-overlay-applied"
"""On a NodeClaim, as ``true``: a NodeOverlay changed the price of one of its candidate instance types."""
CAPACITY_OVERLAY_APPLIED = "karpenter.sh/capacity-overlay-applied"
"""On a NodeClaim, as ``true``: a NodeOverlay changed the capacity of one of its candidate instance types."""
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
REBOOT_PRE_BOOT_ID = "karpenter.sh/reboot-pre-boot-id"
"""On a NodeClaim: the boot ID of its Node before its machine was asked to reboot. It goes when the reboot ends."""
REBOOT_GRACE_PERIOD = "karpenter.sh/reboot-termination-grace-period"
"""On a NodeClaim: how long a reboot drains at most, as a Go duration. ``0s`` is no drain; without it, no limit."""
REBOOTS = "tenon.sh/reboots"
"""On a NodeClaim: when its last reboots were requested, as RFC 3339 times separated by commas."""
EC2NODECLASS_HASH = "karpenter.k8s.aws/ec2nodeclass-hash"
EC2NODECLASS_HASH_VERSION = "karpenter.k8s.aws/ec2nodeclass-hash-version"
TAGGED = "karpenter.k8s.aws/tagged"
"""On a NodeClaim, as ``true``: its instance has the NodeClaim tag and the Name tag."""
CLUSTER_TAGGED = "compatibility.karpenter.k8s.aws/cluster-name-tagged"
"""On a NodeClaim, as ``true``: its instance has the tag `TAG_CLUSTER`, which Karpenter before 1.0 did not set."""
INSTANCE_PROFILE = "karpenter.k8s.aws/instance-profile-name"
"""On a NodeClaim: the instance profile of its instance, which shows that the profile is in use."""
CLOSED_BY_SCHEDULE = "tenon.sh/closed-by-schedule"
"""On a NodePool as plans read it, never in the cluster: why it launches nothing now, as NodeSchedules say."""
TEARDOWN = "tenon.sh/teardown"
"""On a NodePool or an EC2NodeClass: Tenon buys nothing for it, because this workflow tears the cluster down."""
PLANNED_PODS = "tenon.sh/planned-pods"
"""On a NodeClaim: the pods that it was launched for, as ``namespace/name=uid`` separated by commas."""
PLANNED_POD_GROUPS = "tenon.sh/planned-pod-groups"
"""On a NodeClaim: a number for each of those pods, in the same order. Pods with the same number are alike."""
PLANNED_REQUESTS = "tenon.sh/planned-requests"
"""On a NodeClaim: the total requests of those pods without DaemonSets, as JSON: quantities by resource name."""
EXPLANATION = "tenon.sh/explanation"
"""On a NodeClaim: why it was launched, as JSON with a sentence for each thing that is to say."""
LARGEST_CAPACITY = "tenon.sh/largest-capacity"
"""On a NodeClaim: the most that any of its candidate types counts against the limits of its NodePool, as JSON."""
UNAVAILABLE_OFFERINGS = "tenon.sh/unavailable-offerings"
"""On a NodeClaim: offerings of its types that its launch must avoid, as ``capacity type/type/zone`` with commas."""
SUBNET_ID = "tenon.sh/subnet-id"
"""On a NodeClaim: the subnet of its instance, for drift."""
SECURITY_GROUP_IDS = "tenon.sh/security-group-ids"
"""On a NodeClaim: the security groups of its instance, sorted and separated by commas, for drift."""
MADE_FROM = "tenon.sh/made-from"
"""On a NodePool or EC2NodeClass: ``Kind name`` of the older object that Tenon generates it from, and a short hint."""
ACT = "tenon.sh/act"
"""On a Provisioner, as ``true``: it is active although it looks like a leftover."""
NEXT_ORDINAL = "tenon.sh/next-ordinal"
"""On a static NodePool: the ordinal for the name of its next NodeClaim."""
STARTUP_CORDON = "tenon.sh/closed"
"""On a Node, as ``true``: Tenon has cordoned it until the pods that it was launched for are bound."""
LAUNCH_GROUP = "tenon.sh/launch-group"
"""On a NodeClaim: the claims that one request launches together, as ``group/place/size``."""
LAUNCH_ATTEMPT = "tenon.sh/launch-attempt"
"""On a NodeClaim: the number of its next or current launch, once it launches again or apart from its launch group."""
REVISION = "tenon.sh/revision"
"""On a NodeClaim of a NodePool under a rollout: the version of the NodePool and its EC2NodeClass that it launches."""
BATCH = "tenon.sh/batch"
"""On a NodeClaim (label): the provisioning batch that created it."""
KEEP_UNTIL = "tenon.sh/keep-until"
"""On a NodeClaim: an operator asks to keep the node at least until this RFC 3339 time."""
NO_PLACE = "tenon.sh/no-place"
"""On an Event about a pod for which no node is bought: why, as JSON, with what each NodePool lacks."""
DELETED_BECAUSE = "tenon.sh/deleted-because"
"""On a NodeClaim: why Tenon deleted it, in what detail, and which part did, as JSON; the first reason first."""
CREATED_IN_TRACE = "tenon.sh/created-in-trace"
"""On a NodeClaim, if tracing is on: the span that created it, as a traceparent, and since when its oldest pod waits."""
DISRUPTED_BY = "tenon.sh/disrupted-by"
"""On a NodeClaim: the open disruption command that prepares to remove its node. The taint belongs to that command."""
REPLACEMENT_FOR = "tenon.sh/replacement-for"
"""On a NodeClaim: the open disruption command that it was created for. No other command removes its node meanwhile."""
CREATED_FOR = "tenon.sh/created-for"
"""On a NodeClaim: the reason of the disruption command that it was created for. It stays when the command has ended."""
MOVED_HERE = "tenon.sh/moved-here"
"""On a NodeClaim: which pods commands moved to its node in the last day, as JSON: time, workload, how often."""
LEAST_SAVING = "tenon.sh/least-saving"
"""On a NodePool: what a consolidation must save at least: dollars an hour, a percentage of the cost, or both."""
TAKES_PODS_EARLY = "tenon.sh/takes-pods-within-consolidate-after"
"""On a NodePool, as ``true``: consolidation moves pods to its nodes although consolidateAfter is not over for them."""
REST_AFTER_MOVE = "tenon.sh/rest-after-move"
"""On a NodePool: how long consolidation leaves alone a node that was created for a consolidation, as 2h30m."""
SHORTAGE_PRICE_FACTOR = "tenon.sh/shortage-price-factor"
"""On a NodePool: how many times the price of refused offerings makes a node one that was bought in a shortage. Its
NodeClaims copy it."""
SHORTAGE_POLICY = "tenon.sh/shortage-policy"
"""On a NodePool, ``Wait``: pods wait while EC2 refuses all but far dearer nodes; the other value is ``Buy``. On a pod,
``Buy``: it does not wait."""
MAX_HOURLY_COST = "tenon.sh/max-hourly-cost"
"""On a NodePool: what its nodes may cost together, in dollars an hour."""
SPOT_SHARE = "tenon.sh/spot-share"
"""On a NodePool: the percentage of its vCPUs that should be on spot capacity."""
SPOT_PLACEMENT_SCORES = "tenon.sh/spot-placement-scores"
"""On a NodePool: how much dearer a spot node may be in a zone with a higher Spot placement score, as a percentage."""
ZONE_BALANCE = "tenon.sh/zone-balance"
"""On a NodePool: how much dearer a node may be in a zone where the NodePool has fewer vCPUs, as a percentage."""
NEWER_GENERATIONS = "tenon.sh/newer-generations"
"""On a NodePool: how much dearer a node of a newer generation of instance types may be, as a percentage."""
BOUGHT_IN_SHORTAGE = "tenon.sh/bought-in-shortage"
"""On a NodeClaim: what the cheapest nodes cost that EC2 refused and that would do, in dollars an hour."""
LAUNCH_PRICE = "tenon.sh/launch-price"
"""On a NodeClaim: what its instance cost when it was launched, in dollars an hour with all digits, for sums."""
SURGE = "tenon.sh/surge"
"""On a pod of a Deployment, ``true``: a disruption command starts its new pod before the old one stops."""
SURGED_FOR = "tenon.sh/surged-for"
"""On a Deployment: the disruption command that restarted it last, so that a repetition does not restart it again."""
LEARNED_MEMORY = "tenon.sh/learned-memory"
"""On an EC2NodeClass: the memory that its nodes reported, as JSON: KiB by image and instance type."""
LEARNED_STORAGE = "tenon.sh/learned-storage"
"""On an EC2NodeClass: the allocatable ephemeral storage that its nodes reported, as JSON: bytes by image and planned
bytes."""
LEARNED_AMOUNTS = "tenon.sh/learned-amounts"
"""On an EC2NodeClass: CPU, pods and huge pages that its nodes reported, as JSON: planned and reported amount by image,
instance type and resource."""
DISRUPTION_WINDOWS = "tenon.sh/disruption-windows"
"""On a NodePool: the only times at which its nodes may be disrupted, as JSON."""
APPROVE = "tenon.sh/approve"
"""On a NodePool: the reasons for which its disruption commands wait until a person approves them, such as ``Drifted,
Underutilized above 3 nodes``."""
APPROVE_WITHIN = "tenon.sh/approve-within"
"""On a NodePool: how long such a command waits before it counts as refused, as 48h."""
PAUSE = "tenon.sh/pause"
"""On a DisruptionFreeze, as ``true``: `tenon pause` wrote it, so `tenon resume` deletes it."""
EXPIRE_WITHIN_BUDGETS = "tenon.sh/expire-within-budgets"
"""On a NodePool, as ``true``: its disruption budgets limit how many expired nodes leave at once."""
WARM = "tenon.sh/warm"
"""On a NodePool: how many stopped instances to keep for pods to come. On a NodeClaim: the state of its warm node."""
WARM_SINCE = "tenon.sh/warm-since"
"""On a NodeClaim: since when its warm node is in that state, as an RFC 3339 time."""
WARM_BOOT_ID = "tenon.sh/warm-boot-id"
"""On a NodeClaim: the boot ID of its Node before its instance was stopped. The next boot has another one."""
STOPPED_TIMES = "tenon.sh/stopped-times"
"""On a NodeClaim: when its instance was stopped (`tenon.kube.stopped_times`), for which EC2 charges only its disks."""
REPLACE_ON_REBALANCE = "tenon.sh/replace-on-rebalance-recommendation"
"""On a NodePool, as ``true``: a spot node leaves when EC2 recommends to replace it, before its interruption."""
NVIDIA_CONSUMABLE_CAPACITY = "karpenter.k8s.aws/nvidia-consumable-capacity"
"""On an EC2NodeClass: how pods share its NVIDIA GPUs by dynamic resources. Checked, and without another effect here."""
V1BETA1_KUBELET = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
"""On a NodePool or NodeClaim from v1beta1: its kubelet settings as JSON, until they move to its class."""
V1BETA1_REFERENCE = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"
"""On a NodePool or NodeClaim from v1beta1: its nodeClassRef as JSON."""
V1BETA1_UBUNTU = f"compatibility.{AWS_GROUP}/v1beta1-ubuntu"
"""On an EC2NodeClass from v1beta1 with amiFamily Ubuntu: which of its fields the conversion derived from Ubuntu."""
ALIAS_VERSION = f"compatibility.{AWS_GROUP}/v1-alias-version"
"""On an EC2NodeClass of v1beta1: the version of its AMI alias in v1."""
KEPT_OF_V1 = "tenon.sh/v1"
"""On an object read as v1beta1: the parts of v1 that v1beta1 cannot express, as JSON."""
KEPT_OF_V1BETA1 = "tenon.sh/v1beta1"
"""On an object written as v1beta1: the parts of v1beta1 that v1 cannot express, as JSON."""

# Taints: (key, effect)
DISRUPTED_TAINT = ("karpenter.sh/disrupted", "NoSchedule")
DISRUPTION_TAINT = ("karpenter.sh/disruption", "NoSchedule")
"""The taint that Karpenter used before v1 instead of `DISRUPTED_TAINT`."""
WARM_TAINT = (WARM, "NoSchedule")
"""On the Node of a warm node: keeps pods away until its instance was started and has booted."""
REBOOTING_TAINT = ("karpenter.sh/rebooting", "NoSchedule")
"""The taint of a node from the start of its reboot until its new boot is seen."""
UNREGISTERED_TAINT = ("karpenter.sh/unregistered", "NoExecute")
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
EPHEMERAL_TAINTS = frozenset(
    {
        (NOT_READY_TAINT, "NoSchedule"),
        (NOT_READY_TAINT, "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        UNREGISTERED_TAINT,
    }
)
READINESS_TAINT_PREFIX = "readiness.k8s.io/"

# Finalizers
TERMINATION_FINALIZER = "karpenter.sh/termination"
NODECLASS_FINALIZER = "karpenter.k8s.aws/termination"

# EC2 tags
TAG_CLUSTER = "eks:eks-cluster-name"
TAG_OWNED_PREFIX = "kubernetes.io/cluster/"
"""The rest of the key is the name of a cluster. The value says whether the cluster owns the object."""
TAG_NODEPOOL = NODEPOOL
TAG_NODECLAIM = "karpenter.sh/nodeclaim"
TAG_NODECLASS = EC2NODECLASS
TAG_TOKEN = "tenon.sh/client-token"
TAG_GROUP = LAUNCH_GROUP
TAG_FLEET = "aws:ec2:fleet-id"
TAG_TEMPLATE = "aws:ec2launchtemplate:id"


def is_ephemeral_taint(key: str, effect: str) -> bool:
    """Whether a starting node carries the taint only temporarily, so that planning ignores it."""
    return (key, effect) in EPHEMERAL_TAINTS or key.startswith(READINESS_TAINT_PREFIX)


def is_reboot_taint(key: str, effect: str) -> bool:
    """Whether the taint of a node that reboots goes once it has booted: the fence, and that of a silent kubelet."""
    return (key, effect) == REBOOTING_TAINT or key == "node.kubernetes.io/unreachable"


def owned_tag(cluster: str) -> str:
    """Return the key of the tag of what belongs to a cluster."""
    return f"{TAG_OWNED_PREFIX}{cluster}"
