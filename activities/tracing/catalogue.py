"""Every span and attribute, with what it means. `docs/tracing.md` lists them, and no other can be recorded.

An operation is what one trace is about. Its root span has no length: its start is when the operation began, and the
time until the end of the last span is how long it took. Only work has a length. An activity that mostly waits has a
span without length too, under which its requests are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenon.messages.base import ActivityName
from tenon.messages.garbage_collection import COLLECT_GARBAGE


class Operation(StrEnum):
    """What one trace is about. The value names its root span."""

    PROVISION = "provision pods"
    START = "start node"
    LEAVE = "remove node"
    REBOOT = "reboot node"
    SEARCH = "disruption search"
    COMMAND = "disruption command"
    INTERRUPTION = "interruption notice"
    UPKEEP = "keep node up to date"
    NODE_CLASS = "resolve EC2NodeClass"
    SWEEP = "sweep"
    TEARDOWN = "teardown"

    @property
    def meaning(self) -> str:
        """What the trace has, for the documents."""
        return _MEANINGS[self]


_MEANINGS = {
    Operation.PROVISION: "A batch of pending pods is planned and its NodeClaims are written. Starts when its oldest "
    "pod was created.",
    Operation.START: "A NodeClaim becomes a node that runs its pods: launch, registration, initialization, binding. "
    "Starts when the oldest pod that it was bought for was created. Links to the plan or the command that created it.",
    Operation.LEAVE: "A node is cordoned, drained and terminated. Links to what asked for it: a command, a notice.",
    Operation.REBOOT: "A node's machine is rebooted in place.",
    Operation.SEARCH: "A search for nodes to disrupt: a pass over nodes whose pods can move, or an evaluation of empty "
    "and expired nodes that found any.",
    Operation.COMMAND: "A disruption command: validation, taints, replacements, the request to leave. Links to the "
    "search that decided it.",
    Operation.INTERRUPTION: "A message of the interruption queue about one instance. Starts when AWS sent it.",
    Operation.UPKEEP: "One step on a node that stays, such as recording how long an operator wants to keep it.",
    Operation.NODE_CLASS: "What an EC2NodeClass selects is looked up in the account.",
    Operation.SWEEP: "Kubernetes, EC2 and Temporal are compared.",
    Operation.TEARDOWN: "One step of the end of a whole cluster.",
}


class Phase(StrEnum):
    """Work within an activity that has a span of its own."""

    TYPES = "read instance types"
    PROBLEM = "state problem"
    SOLVE = "solve"
    EXPLAIN = "explain plan"
    WRITE = "write NodeClaims"
    HANDLE = "handle notice"
    PASS = "search for moves"
    EVALUATE = "evaluate nodes"
    METHOD = "run method"
    COMMANDS = "state commands"

    @property
    def meaning(self) -> str:
        """What the span covers, for the documents."""
        return {
            Phase.TYPES: "The instance types and offerings that the NodePools allow.",
            Phase.PROBLEM: "The scheduling problem, from a snapshot of the cache; for a search, with all nodes.",
            Phase.SOLVE: "The scheduling engine.",
            Phase.EXPLAIN: "Why each NodeClaim is bought.",
            Phase.WRITE: "The NodeClaims of the batch are created.",
            Phase.HANDLE: "The Node is tainted and the NodeClaim deleted, if the notice ends the instance.",
            Phase.PASS: "A pass over the nodes whose pods can move: which nodes there are, what the methods decide.",
            Phase.EVALUATE: "The methods for empty and expired nodes. Only an evaluation that found nodes has a trace.",
            Phase.METHOD: "One disruption method: how many nodes it could choose from, and which it chose.",
            Phase.COMMANDS: "The commands of the pass, with the NodeClaims of their replacements.",
        }[self]

    @property
    def parents(self) -> tuple[str, ...]:
        """The spans that it is a part of, for the documents."""
        match self:
            case Phase.HANDLE:
                return (Operation.INTERRUPTION,)
            case Phase.PASS | Phase.EVALUATE:
                return (Operation.SEARCH,)
            case Phase.METHOD | Phase.COMMANDS:
                return (Phase.PASS,)
            case Phase.TYPES | Phase.PROBLEM:
                return (ActivityName.PLAN, Phase.PASS, ActivityName.VALIDATE_COMMAND)
            case _:
                return (ActivityName.PLAN,)


@dataclass(frozen=True, slots=True)
class Traced:
    """How an activity is recorded. ``waits``: it mostly waits, so its span has no length, and reads are left out.

    ``alone``: each call is an operation of its own.
    """

    operation: Operation | None
    """None if the activity is not recorded, because it does nothing but wait."""
    waits: bool = False
    alone: bool = False


_START, _LEAVE, _COMMAND = Traced(Operation.START), Traced(Operation.LEAVE), Traced(Operation.COMMAND)
_WAITING_START = Traced(Operation.START, waits=True)
_WAITING_LEAVE = Traced(Operation.LEAVE, waits=True)
_TEARDOWN = Traced(Operation.TEARDOWN, alone=True)
_REBOOT, _UPKEEP = Traced(Operation.REBOOT), Traced(Operation.UPKEEP, alone=True)
TRACED: dict[str, Traced] = {
    ActivityName.PREPARE_LAUNCH: _START,
    ActivityName.LAUNCH: _START,
    ActivityName.REGISTER: _START,
    ActivityName.INITIALIZE: _WAITING_START,
    ActivityName.BIND: _WAITING_START,
    ActivityName.CORDON: _LEAVE,
    ActivityName.DRAIN: _WAITING_LEAVE,
    ActivityName.DETACH_VOLUMES: _WAITING_LEAVE,
    ActivityName.TERMINATE: _WAITING_LEAVE,
    ActivityName.RELEASE: _LEAVE,
    ActivityName.KEEP: _UPKEEP,
    ActivityName.WITHDRAW: _UPKEEP,
    ActivityName.CHECK_EXPIRATION: _UPKEEP,
    ActivityName.FENCE: _REBOOT,
    ActivityName.DRAIN_FOR_REBOOT: Traced(Operation.REBOOT, waits=True),
    ActivityName.RECORD_BOOT: _REBOOT,
    ActivityName.REBOOT: _REBOOT,
    ActivityName.CHECK_REBOOT: _REBOOT,
    ActivityName.END_FAILED_REBOOT: _REBOOT,
    ActivityName.AWAIT_BATCH: Traced(None),
    ActivityName.PLAN: Traced(Operation.PROVISION, alone=True),
    ActivityName.AWAIT_DISRUPTION: Traced(None),
    ActivityName.VALIDATE_COMMAND: _COMMAND,
    ActivityName.TAINT_CANDIDATES: _COMMAND,
    ActivityName.CREATE_REPLACEMENTS: _COMMAND,
    ActivityName.AWAIT_REPLACEMENTS: _COMMAND,
    ActivityName.SURGE: _COMMAND,
    ActivityName.CHECK_CANDIDATES: _COMMAND,
    ActivityName.DISRUPT: _COMMAND,
    ActivityName.REQUEST_REBOOT: _COMMAND,
    ActivityName.FINISH_COMMAND: _COMMAND,
    ActivityName.FIND_REPLACEMENTS: _COMMAND,
    ActivityName.SETTLE_REPLACEMENTS: _COMMAND,
    ActivityName.MEASURE_SAVING: _COMMAND,
    ActivityName.RESOLVE_NODECLASS: Traced(Operation.NODE_CLASS, alone=True),
    ActivityName.SURVEY_CLUSTER: _TEARDOWN,
    ActivityName.STOP_BUYING: _TEARDOWN,
    ActivityName.DRAIN_CLUSTER: _TEARDOWN,
    ActivityName.REMOVE_FINALIZERS: _TEARDOWN,
    ActivityName.TERMINATE_CLUSTER: _TEARDOWN,
    ActivityName.REMOVE_RESOURCES: _TEARDOWN,
    ActivityName.END_WORKFLOWS: _TEARDOWN,
    ActivityName.ADVANCE_ROLLOUT: Traced(Operation.UPKEEP),
    ActivityName.WRITE_ROLLOUT: Traced(Operation.UPKEEP),
    ActivityName.APPLY_SCHEDULE: _UPKEEP,
    ActivityName.FORECAST: _UPKEEP,
    COLLECT_GARBAGE: Traced(Operation.SWEEP, alone=True),
}
if without := set(ActivityName) - set(TRACED):
    raise TypeError(f"the activity {min(without)} is in no operation: add a row to activities/tracing/catalogue.py")


class Attribute(StrEnum):
    """Attributes of spans. OpenTelemetry's semantic conventions name those without the prefix ``tenon.``."""

    NAMESPACE = "k8s.namespace.name"
    POD = "k8s.pod.name"
    NODE = "k8s.node.name"
    INSTANCE = "host.id"
    INSTANCE_TYPE = "host.type"
    IMAGE = "host.image.id"
    ZONE = "cloud.availability_zone"
    REGION = "cloud.region"
    RPC_SYSTEM = "rpc.system"
    RPC_SERVICE = "rpc.service"
    RPC_METHOD = "rpc.method"
    AWS_REQUEST = "aws.request_id"
    AWS_CODE = "aws.error_code"
    HTTP_METHOD = "http.request.method"
    HTTP_STATUS = "http.response.status_code"
    ERROR = "error.type"
    WORKFLOW = "tenon.workflow.id"
    RUN = "tenon.workflow.run_id"
    ATTEMPT = "tenon.attempt"
    NODECLAIM = "tenon.nodeclaim"
    NODEPOOL = "tenon.nodepool"
    NODECLASS = "tenon.nodeclass"
    CAPACITY_TYPE = "tenon.capacity_type"
    PRICE = "tenon.price"
    BATCH = "tenon.batch"
    COMMAND = "tenon.command"
    COMMANDS = "tenon.commands"
    METHOD = "tenon.method"
    REASON = "tenon.reason"
    SAVING = "tenon.saving"
    PODS = "tenon.pods"
    NODECLAIMS = "tenon.nodeclaims"
    NODES = "tenon.nodes"
    CANDIDATES = "tenon.candidates"
    BLOCKED = "tenon.blocked"
    UNSCHEDULABLE = "tenon.unschedulable"
    OUTCOME = "tenon.outcome"
    RESOURCE = "tenon.kubernetes.resource"
    OBJECT = "tenon.kubernetes.name"
    DROPPED = "tenon.spans_left_out"

    @property
    def meaning(self) -> str:
        """What the attribute says, for the documents."""
        return _ATTRIBUTES[self]


_ATTRIBUTES = {
    Attribute.NAMESPACE: "The namespace of the object that a request is about.",
    Attribute.POD: "The pod that a request is about.",
    Attribute.NODE: "The Node.",
    Attribute.INSTANCE: "The EC2 instance.",
    Attribute.INSTANCE_TYPE: "Its instance type.",
    Attribute.IMAGE: "Its AMI.",
    Attribute.ZONE: "Its zone.",
    Attribute.REGION: "The region that AWS was called in.",
    Attribute.RPC_SYSTEM: "`aws-api`.",
    Attribute.RPC_SERVICE: "The AWS service, such as `EC2`.",
    Attribute.RPC_METHOD: "The action, such as `CreateFleet`.",
    Attribute.AWS_REQUEST: "The request ID, by which AWS finds the request.",
    Attribute.AWS_CODE: "The error code of AWS's answer.",
    Attribute.HTTP_METHOD: "The HTTP method of a request to the API server.",
    Attribute.HTTP_STATUS: "The status of the answer.",
    Attribute.ERROR: "The status or the class of the error, on spans that failed.",
    Attribute.WORKFLOW: "The workflow in Temporal.",
    Attribute.RUN: "Its run.",
    Attribute.ATTEMPT: "Which attempt of the activity it is; the first is 1.",
    Attribute.NODECLAIM: "The NodeClaim.",
    Attribute.NODEPOOL: "The NodePool.",
    Attribute.NODECLASS: "The EC2NodeClass.",
    Attribute.CAPACITY_TYPE: "`spot`, `on-demand` or `reserved`.",
    Attribute.PRICE: "Dollars an hour: of the instance, or of all NodeClaims of a plan.",
    Attribute.BATCH: "The number of the batch.",
    Attribute.COMMAND: "The disruption command.",
    Attribute.COMMANDS: "The IDs of the commands that a search decided, separated by commas.",
    Attribute.METHOD: "The disruption method, as `tenon simulate` names it.",
    Attribute.REASON: "Why: of the command, of the method, of the removal, or the kind of the notice.",
    Attribute.SAVING: "Dollars an hour that the command, or all commands of a search, save as predicted.",
    Attribute.PODS: "How many pods: of the batch, of the command, evicted, or bound.",
    Attribute.NODECLAIMS: "How many NodeClaims: of the plan, or candidates of the command or of all that were decided.",
    Attribute.NODES: "How many nodes the search looked at.",
    Attribute.CANDIDATES: "How many nodes a method, or all methods of a search, could choose from, without budgets.",
    Attribute.BLOCKED: "How many nodes cannot leave although a method has a reason to disrupt them.",
    Attribute.UNSCHEDULABLE: "How many pods the plan has no place for.",
    Attribute.OUTCOME: "What became of the step, if it did not do what its name says: a reason in words.",
    Attribute.RESOURCE: "The resource and subresource that a request is about, such as `pods/eviction`.",
    Attribute.OBJECT: "The name of the object that a request is about.",
    Attribute.DROPPED: "How many requests of the activity have no span, because it sent too many.",
}
