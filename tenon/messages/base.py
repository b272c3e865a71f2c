"""What all messages share: their base class, and the names of activities and errors. None of them may be renamed."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from tenon.apis.reasons import Reason

POLL_SECONDS, QUIET_POLL_SECONDS = 600.0, 3600.0
"""How long a call of the planner may wait for something to do; the second if the workflow has nothing that ends with
time, so that no call is needed to hear of that. Temporal Cloud bills each call."""

REBOOT = "reboot"
"""The decision of a command that reboots a node, and removes and replaces nothing."""


class Message(BaseModel):
    """Base of all messages. Instances are immutable, and decoding ignores fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class WorkflowInput(Message):
    """Base of the inputs of workflows, with sentences for people first.

    Temporal's UI opens a workflow's page with its input. A run that continues as new begins with new sentences, because
    Temporal does not pass on the summary and the details that a workflow was started with.
    """

    headline: str = ""
    """What the workflow is about, and how that is when the run begins."""
    why: str = ""
    """The reason of that: why the node was bought or leaves, or why the workflow runs."""
    details: str = "What it does now, what blocks it and what you can send: tab User Metadata"


class TimelineEntry(Message):
    """What happened, and when: a line in the timeline of a node or of a teardown."""

    at: datetime
    text: str


class ActivityName(StrEnum):
    """Activity types as the Temporal UI shows them, so they read like a runbook."""

    PREPARE_LAUNCH = "prepare launch"
    LAUNCH = "launch instance"
    REGISTER = "register node"
    INITIALIZE = "initialize node"
    BIND = "bind pods"
    CORDON = "cordon node"
    DRAIN = "drain node"
    DETACH_VOLUMES = "await volume detachment"
    TERMINATE = "terminate instance"
    RELEASE = "release node"
    KEEP = "record keep"
    WITHDRAW = "remove disruption taint"
    CHECK_EXPIRATION = "check expiration"
    FENCE = "fence node"
    DRAIN_FOR_REBOOT = "drain for reboot"
    RECORD_BOOT = "record boot ID"
    REBOOT = "reboot instance"
    CHECK_REBOOT = "check reboot"
    END_FAILED_REBOOT = "end failed reboot"
    AWAIT_BATCH = "await pending pods"
    PLAN = "plan batch"
    AWAIT_DISRUPTION = "await disruption candidates"
    VALIDATE_COMMAND = "validate command"
    TAINT_CANDIDATES = "taint candidates"
    CREATE_REPLACEMENTS = "create replacements"
    AWAIT_REPLACEMENTS = "await replacements"
    SURGE = "start new pods first"
    CHECK_CANDIDATES = "check candidates"
    DISRUPT = "disrupt nodes"
    REQUEST_REBOOT = "request reboot"
    FINISH_COMMAND = "finish command"
    FIND_REPLACEMENTS = "find replacements"
    SETTLE_REPLACEMENTS = "settle replacements"
    MEASURE_SAVING = "measure saving"
    RESOLVE_NODECLASS = "resolve node class"
    SURVEY_CLUSTER = "survey cluster"
    STOP_BUYING = "stop buying"
    DRAIN_CLUSTER = "drain nodes of cluster"
    REMOVE_FINALIZERS = "remove finalizers of cluster"
    TERMINATE_CLUSTER = "terminate instances of cluster"
    REMOVE_RESOURCES = "delete launch templates and profiles"
    END_WORKFLOWS = "end workflows of cluster"
    ADVANCE_ROLLOUT = "advance rollout"
    WRITE_ROLLOUT = "write rollout status"
    APPLY_SCHEDULE = "apply schedule"
    FORECAST = "forecast consolidation"


class ErrorType(StrEnum):
    """All types of non-retryable errors that activities raise."""

    INSUFFICIENT_CAPACITY = Reason.INSUFFICIENT_CAPACITY.camel_case
    NODECLASS_NOT_READY = "NodeClassNotReady"
    CLAIM_GONE = "NodeClaimGone"
    INVALID = "InvalidObject"
    NOT_MANAGED = "NodeClaimNotManaged"
    """The NodeClaim belongs to another controller."""
    NO_API_SERVER = "NoApiServer"
    """The process that carries the step out works without the cluster's API server."""


API_SERVER_UNREACHABLE = "ApiServerUnreachable"
"""The type of a failure because the API server did not answer. A step that has it is tried again."""


class ClaimRef(Message):
    """Identifies a NodeClaim in messages. A name may be reused after a deletion, a UID never is."""

    cluster: str
    name: str
    uid: str
