"""All reasons of the events that Tenon publishes, each with its type and its meaning.

`docs/events.md` is generated from this module, so that users find every event there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

EventType = Literal["Normal", "Warning"]


class EventReason(StrEnum):
    """The reason of an event. A member without a type, objects or a meaning fails at import."""

    type: EventType
    """Normal for what Tenon does as asked, Warning for what somebody should know or correct."""
    objects: str
    """The kinds of the objects that have the event."""
    meaning: str

    def __new__(cls, value: str, type_: EventType, objects: str, meaning: str) -> EventReason:
        """Create the member of a value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.type = type_
        member.objects = objects
        member.meaning = meaning
        return member

    # Pods and plans.
    FAILED_SCHEDULING = (
        "FailedScheduling",
        "Warning",
        "Pod",
        "no node suits the pod, or EC2 has none",
    )
    NOMINATED = ("Nominated", "Normal", "Pod", "a node or a NodeClaim has room for the pod, which should run there")
    INSUFFICIENT_CAPACITY = (
        "InsufficientCapacityError",
        "Warning",
        "NodeClaim, Pod",
        "EC2 has no capacity for any instance type that the NodeClaim allows, and the NodeClaim is deleted",
    )
    NO_COMPATIBLE_INSTANCE_TYPES = (
        "NoCompatibleInstanceTypes",
        "Warning",
        "NodePool",
        "no instance type meets the requirements of the NodePool",
    )
    SPOT_SCORES_UNKNOWN = (
        "SpotPlacementScoresUnknown",
        "Warning",
        "NodePool",
        "the NodePool follows Spot placement scores, and AWS does not give them, so plans choose zones without them",
    )
    FAILED_CREATE = ("FailedCreate", "Warning", "NodePool", "the API server refused NodeClaims of the NodePool")
    NODES_NOT_USED = (
        "NodesNotUsed",
        "Warning",
        "NodePool",
        "kube-scheduler did not place the pods on new nodes that were launched for them",
    )
    # Launch and registration.
    LAUNCH_FAILED = (
        "LaunchFailed",
        "Warning",
        "NodeClaim",
        "the launch failed, and is retried or given up",
    )
    LAUNCHES_HELD_BACK = (
        "LaunchesHeldBack",
        "Warning",
        "NodePool",
        "EC2 refuses the launches of the NodePool, so only some are sent as probes",
    )
    NODE_CLASS_NOT_READY = (
        "NodeClassNotReady",
        "Warning",
        "NodeClaim",
        "the EC2NodeClass is not ready, and the NodeClaim is deleted",
    )
    SPOT_ROLE_MISSING = (
        "SpotSLRCreationFailed",
        "Warning",
        "NodeClaim",
        "the account lacks the service-linked role for spot instances",
    )
    BOUGHT_IN_SHORTAGE = (
        "BoughtInShortage",
        "Warning",
        "NodeClaim",
        "the instance costs far more than usual, because EC2 has no capacity of the cheaper types",
    )
    INSTANCE_ENDED = ("InstanceEnded", "Warning", "NodeClaim", "EC2 ended the instance before its Node joined")
    INSTANCE_UNKNOWN = (
        "InstanceUnknown",
        "Warning",
        "NodeClaim",
        "Tenon cannot find out whether the instance of the NodeClaim still exists",
    )
    SURPLUS_INSTANCE = (
        "SurplusInstance",
        "Warning",
        "NodeClaim",
        "a second instance was launched for the NodeClaim, and Tenon terminates it",
    )
    NODE_NOT_JOINED = ("NodeNotJoined", "Warning", "NodeClaim", "the instance runs, but its Node does not join in time")
    UNREGISTERED_TAINT_MISSING = (
        "UnregisteredTaintMissing",
        "Warning",
        "NodeClaim, Node",
        "the Node joined without the taint karpenter.sh/unregistered, so pods may have started too early",
    )
    FAILED_CONSISTENCY_CHECK = (
        "FailedConsistencyCheck",
        "Warning",
        "NodeClaim",
        "the Node has clearly less of a resource than was planned with",
    )
    # Leaving nodes.
    DISRUPTED = (
        "Disrupted",
        "Normal",
        "NodeClaim, Node, Pod",
        "the node leaves: why, by whom, and what it was; on a pod, with type Warning: it was deleted, not evicted",
    )
    EVICTED = ("Evicted", "Normal", "Pod", "the pod was evicted, because its node leaves or reboots")
    FAILED_DRAINING = ("FailedDraining", "Warning", "Node, Pod", "something keeps the pod, and with it the drain")
    TERMINATION_GRACE_PERIOD_EXPIRING = (
        "TerminationGracePeriodExpiring",
        "Warning",
        "Node, NodeClaim",
        "all pods are deleted at this time, whatever protects them",
    )
    INVALID_DO_NOT_DISRUPT = (
        "InvalidDoNotDisruptAnnotation",
        "Warning",
        "Pod",
        "the value of the annotation karpenter.sh/do-not-disrupt is neither true nor a duration, so it is ignored",
    )
    INVALID_DISRUPTION_COST = (
        "InvalidDisruptionCost",
        "Warning",
        "Pod",
        "the annotation karpenter.sh/disruption-cost, or pod-deletion-cost, is no whole number, and counts as 0",
    )
    AWAITING_VOLUME_DETACHMENT = (
        "AwaitingVolumeDetachment",
        "Normal",
        "Node",
        "the instance is terminated when these volumes are detached",
    )
    REPLACEMENT_IDLE = (
        "ReplacementIdle",
        "Warning",
        "Node",
        "pods block the drain, and meanwhile a replacement of the node costs money without pods",
    )
    HELD_BY_FINALIZER = (
        "HeldByFinalizer",
        "Warning",
        "NodeClaim, Node",
        "the node is gone, but finalizers of other controllers keep its object",
    )
    REBOOT_OBSERVED = ("RebootObserved", "Normal", "NodeClaim", "the machine has booted again, as was requested")
    REBOOT_FAILED = ("RebootFailed", "Warning", "NodeClaim", "a requested reboot failed")
    # Disruption.
    DISRUPTION_BLOCKED = (
        "DisruptionBlocked",
        "Normal",
        "NodeClaim, Node, NodePool",
        "what keeps the node, or which budget or disruption window of the NodePool allows no disruption",
    )
    DISRUPTION_AWAITS_APPROVAL = (
        "DisruptionAwaitsApproval",
        "Warning",
        "NodeClaim, NodePool",
        "a disruption command waits until somebody approves it with the command that the event names",
    )
    DISRUPTION_LAUNCHING = ("DisruptionLaunching", "Normal", "NodeClaim", "the NodeClaim replaces others")
    DISRUPTION_WAITING_READINESS = (
        "DisruptionWaitingReadiness",
        "Normal",
        "NodeClaim, Node",
        "a disruption command waits until its replacements are initialized",
    )
    DISRUPTION_TERMINATING = (
        "DisruptionTerminating",
        "Normal",
        "NodeClaim, Node",
        "a disruption command removes the node",
    )
    TERMINATING_FIRST = (
        "TerminatingFirst",
        "Normal",
        "NodeClaim, Node",
        "the node leaves before its replacement can start",
    )
    AWAITING_REPLACEMENT = (
        "AwaitingReplacement",
        "Normal",
        "NodePool",
        "a node left before its replacement, which does not run yet",
    )
    REPLACEMENT_RUNNING = ("ReplacementRunning", "Normal", "NodePool", "that replacement runs")
    REPLACEMENT_NOT_NEEDED = ("ReplacementNotNeeded", "Normal", "NodePool", "the pods of that node run elsewhere")
    REPLACEMENT_MISSING = ("ReplacementMissing", "Warning", "NodePool", "that replacement did not run in time")
    REPLACEMENT_NOT_AWAITED = ("ReplacementNotAwaited", "Normal", "NodePool", "an operator ended the wait for it")
    UNCONSOLIDATABLE = ("Unconsolidatable", "Normal", "NodeClaim, Node", "why consolidation cannot remove the node")
    CONSOLIDATION_REJECTED = (
        "ConsolidationRejected",
        "Normal",
        "NodeClaim, Node",
        "a consolidation was decided and does not hold any more",
    )
    CONSOLIDATION_APPROVED = (
        "ConsolidationApproved",
        "Normal",
        "NodeClaim, Node, NodePool",
        "the score of a consolidation reaches the threshold of the policy Balanced",
    )
    CONSOLIDATION_MEASURED = (
        "ConsolidationMeasured",
        "Normal",
        "NodePool",
        "what a consolidation saves, and what was predicted",
    )
    CONSOLIDATION_SLOWED = (
        "ConsolidationSlowed",
        "Warning",
        "NodePool",
        "consolidations saved less than predicted, so there are fewer of them",
    )
    NODE_REPAIR_BLOCKED = (
        "NodeRepairBlocked",
        "Warning",
        "NodeClaim, Node, NodePool",
        "an unhealthy node is not replaced: too many are unhealthy, or an annotation says so",
    )
    # Rollouts of new versions.
    ROLLOUT_WAVE_BEGAN = ("RolloutWaveBegan", "Normal", "NodeRollout, NodePool", "a wave of a new version began")
    ROLLOUT_WAVE_PASSED = ("RolloutWavePassed", "Normal", "NodeRollout, NodePool", "all gates of a wave held")
    ROLLOUT_AWAITS_APPROVAL = (
        "RolloutAwaitsApproval",
        "Warning",
        "NodeRollout, NodePool",
        "the next wave waits until somebody approves it",
    )
    ROLLOUT_HALTED = (
        "RolloutHalted",
        "Warning",
        "NodeRollout, NodePool",
        "a gate failed, which the event names, or an operator aborted the rollout; nothing more is replaced",
    )
    ROLLOUT_ROLLING_BACK = (
        "RolloutRollingBack",
        "Warning",
        "NodeRollout, NodePool",
        "a gate failed, which the event names, or an operator asked for it; the last good version comes back",
    )
    ROLLOUT_ROLLED_BACK = (
        "RolloutRolledBack",
        "Warning",
        "NodeRollout, NodePool",
        "no node has the version any more that failed, and no launch gets it",
    )
    ROLLOUT_PASSED = ("RolloutPassed", "Normal", "NodeRollout, NodePool", "a version passed all waves")
    ROLLOUT_NODE_HELD = (
        "RolloutNodeHeld",
        "Warning",
        "NodeRollout, NodePool",
        "a node cannot leave for a wave, which the event explains, and other nodes are tried in its place",
    )
    # Interruption.
    SPOT_INTERRUPTED = ("SpotInterrupted", "Warning", "NodeClaim, Node", "EC2 interrupts the spot instance")
    SPOT_REBALANCE_RECOMMENDATION = (
        "SpotRebalanceRecommendation",
        "Normal",
        "NodeClaim, Node",
        "EC2 recommends to replace the spot instance",
    )
    INSTANCE_STOPPING = ("InstanceStopping", "Warning", "NodeClaim, Node", "the instance stops or has stopped")
    INSTANCE_TERMINATING = (
        "InstanceTerminating",
        "Warning",
        "NodeClaim, Node",
        "the instance terminates or has terminated, and Tenon did not do it",
    )
    RESERVATION_INTERRUPTED = (
        "CapacityReservationInstanceInterrupted",
        "Warning",
        "NodeClaim, Node",
        "the owner of the capacity reservation takes the instance back",
    )
    INSTANCE_UNHEALTHY = ("InstanceUnhealthy", "Warning", "NodeClaim, Node", "the instance fails a status check of EC2")
    TERMINATING_ON_INTERRUPTION = (
        "TerminatingOnInterruption",
        "Warning",
        "NodeClaim, Node",
        "Tenon drains the node and replaces it because of one of these",
    )
    SCHEDULED_CHANGE_DELAYED = (
        "ScheduledChangeDelayed",
        "Warning",
        "NodeClaim, Node",
        "EC2 has scheduled a change of the instance, and the node leaves later, because too many leave already",
    )
    INTERRUPTION_NOT_CONFIRMED = (
        "InterruptionNotConfirmed",
        "Warning",
        "NodeClaim, Node",
        "EC2 does not confirm a message in the interruption queue, and the node stays",
    )
    CAPACITY_RESERVATION_EXPIRING = (
        "CapacityReservationExpiring",
        "Warning",
        "NodeClaim",
        "the capacity reservation of the instance ends soon, and Tenon replaces the node",
    )
    # EC2NodeClasses and NodePools.
    NODE_POOL_VALIDATION_FAILED = ("NodePoolValidationFailed", "Warning", "NodePool", "the NodePool cannot be read")
    SAME_PODS_SAME_WEIGHT = (
        "SamePodsSameWeight",
        "Warning",
        "NodePool",
        "other NodePools take the same pods with the same weight",
    )
    FAILED_TERMINATION = (
        "FailedTermination",
        "Warning",
        "EC2NodeClass",
        "EC2 refuses to delete objects of the class",
    )
    WAITING_ON_NODE_CLAIMS = (
        "WaitingOnNodeClaimTermination",
        "Normal",
        "EC2NodeClass",
        "the class is deleted when no NodeClaim uses it",
    )
    PRICES_UNKNOWN = ("PricesUnknown", "Warning", "EC2NodeClass", "prices are missing or old")
    USER_DATA_NEAR_LIMIT = (
        "UserDataNearLimit",
        "Warning",
        "EC2NodeClass",
        "the user data is almost as long as EC2 allows",
    )
    ZONAL_SHIFT_ACTIVE = (
        "ZonalShiftActive",
        "Warning",
        "EC2NodeClass",
        "ARC shifts the cluster away from a zone, and no node is launched there",
    )
    ZONAL_SHIFT_CLEARED = ("ZonalShiftCleared", "Normal", "EC2NodeClass", "that shift has ended")
    ZONAL_SHIFT_UNKNOWN = ("ZonalShiftUnknown", "Warning", "EC2NodeClass", "AWS does not tell Tenon the zonal shifts")
    # Garbage collection.
    INSTANCE_WITHOUT_NODE_CLAIM = (
        "InstanceWithoutNodeClaim",
        "Warning",
        "NodePool, NodeClaim",
        "Tenon terminated an instance that no NodeClaim refers to",
    )
    NODE_CLAIM_WITHOUT_INSTANCE = (
        "NodeClaimWithoutInstance",
        "Warning",
        "NodeClaim",
        "the instance is gone although Tenon did not terminate it, and the node leaves",
    )
    NODE_CLAIM_WITHOUT_NODE = (
        "NodeClaimWithoutNode",
        "Warning",
        "NodeClaim",
        "the Node was deleted although its instance runs, and the node leaves",
    )
    NODE_CLAIM_WITHOUT_WORKFLOW = (
        "NodeClaimWithoutWorkflow",
        "Warning",
        "NodeClaim",
        "no workflow managed the node, and Tenon started one",
    )
    WORKFLOW_WITHOUT_NODE_CLAIM = (
        "WorkflowWithoutNodeClaim",
        "Warning",
        "NodeClaim",
        "the NodeClaim is gone, and its workflow terminates the instance",
    )
    NODE_WITHOUT_NODE_CLAIM = (
        "NodeWithoutNodeClaim",
        "Warning",
        "Node",
        "NodeClaim and instance are gone, and Tenon deleted the Node",
    )
    LAUNCH_TEMPLATE_UNUSED = (
        "LaunchTemplateUnused",
        "Warning",
        "EC2NodeClass",
        "Tenon deleted a launch template that nothing uses",
    )
    GARBAGE_COLLECTION_HELD_BACK = (
        "GarbageCollectionHeldBack",
        "Warning",
        "the object in question",
        "garbage collection found so many objects of a kind that a person must confirm it",
    )
    # Other controllers, and older APIs.
    STANDING_BY = ("StandingBy", "Normal", "Lease", "another controller leads, and Tenon changes nothing meanwhile")
    LEASE_IGNORED = (
        "LeaseIgnored",
        "Warning",
        "Lease",
        "the holder of the Lease is no controller of nodes, and Tenon does not stand by for it",
    )
    WARM_NODE_STOPPED = (
        "WarmNodeStopped",
        "Normal",
        "NodeClaim",
        "the node is initialized, and its instance is stopped until a plan needs it",
    )
    WARM_NODE_STARTED = (
        "WarmNodeStarted",
        "Normal",
        "NodeClaim",
        "the stopped instance was started for pods, has booted and takes them",
    )
    WARM_NODE_USED = (
        "WarmNodeUsed",
        "Normal",
        "NodeClaim",
        "pods that tolerate its taint have run on the warm node for ten minutes, so it becomes an ordinary node",
    )
    WARM_NODE_NOT_STARTED = (
        "WarmNodeNotStarted",
        "Warning",
        "NodeClaim",
        "EC2 does not start the stopped instance, or it did not come back, so the NodeClaim is deleted",
    )
    SCHEDULED_OFF = (
        "ScheduledOff",
        "Normal",
        "NodePool",
        "a NodeSchedule has the NodePool off from now on, and its nodes leave",
    )
    WARM_NODES_LACKING = (
        "WarmNodesLacking",
        "Warning",
        "NodePool",
        "the NodePool has fewer warm nodes than it keeps: none can be bought now, or EC2 does not stop or start one",
    )
    NOT_IN_STEP = (
        "NotInStep",
        "Warning",
        "NodePool, EC2NodeClass",
        "it differs from the object of an older API that it comes from",
    )
    KEPT_IN_STEP = (
        "KeptInStep",
        "Normal",
        "NodePool, EC2NodeClass",
        "Tenon reset it to match the object of an older API that it comes from",
    )


class ConditionEvent(str):
    """The reason of an event that says what a condition says: the condition's reason, or its type if it changed."""

    __slots__ = ("type",)

    type: EventType

    def __new__(cls, text: str, type_: EventType = "Warning") -> ConditionEvent:
        """Take the text from the condition."""
        event = str.__new__(cls, text)
        event.type = type_
        return event


Published = EventReason | ConditionEvent
"""What an event may have as its reason."""
