"""Messages of the teardown of a cluster. Lists are bounded, so that a result stays small; the counts are complete."""

from datetime import datetime

from pydantic import Field

from tenon.messages.base import Message, TimelineEntry, WorkflowInput

MAX_LISTED = 1000
"""The most things of a kind that a survey or a report names."""


class ClusterInstance(Message):
    """An instance whose tags name the cluster."""

    id: str
    state: str
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    pool: str = ""
    claim: str = ""
    price: float = 0.0
    """Dollars an hour; 0 if it is not known."""
    launched_at: datetime | None = None
    lasting_volumes: list[str] = Field(default_factory=list)
    """The volumes that stay when it is terminated, such as those of PersistentVolumes."""


class ClusterTemplate(Message):
    """A launch template whose tags name the cluster."""

    id: str
    name: str


class ClusterProfile(Message):
    """An instance profile that was created for an EC2NodeClass of the cluster."""

    name: str
    roles: list[str] = Field(default_factory=list)


class Leftover(Message):
    """Something that stays, and why."""

    kind: str
    name: str
    why: str


class Survey(Message):
    """What the cluster has in EC2 and IAM."""

    region: str = ""
    instances: list[ClusterInstance] = Field(default_factory=list)
    instance_count: int = 0
    price: float = 0.0
    """Dollars an hour of all instances whose price is known."""
    unpriced: int = 0
    """How many instances have no known price."""
    templates: list[ClusterTemplate] = Field(default_factory=list)
    template_count: int = 0
    profiles: list[ClusterProfile] = Field(default_factory=list)
    profile_count: int = 0
    stays: list[Leftover] = Field(default_factory=list)
    """What a teardown does not end, and why."""


class TerminateRoundInput(Message):
    """Asks for one round of terminations. ``refused``: instances that EC2 refused so often that none is asked again."""

    cluster: str
    refused: list[str] = Field(default_factory=list)


class TerminateRoundResult(Message):
    """What a round found and did."""

    alive: list[ClusterInstance] = Field(default_factory=list)
    """The instances that were alive when the round began, without those that are not asked again."""
    alive_count: int = 0
    """How many still cost money, or may do so again."""
    leaving_count: int = 0
    """How many shut down."""
    refusals: dict[str, str] = Field(default_factory=dict)
    """By instance, why EC2 refuses to terminate it."""


class RemoveResourcesInput(Message):
    """Asks to delete launch templates and, if no instance is left, instance profiles."""

    cluster: str
    has_instances: bool = False
    """An instance without its profile loses its rights, so profiles stay as long as an instance does."""


class RemovedThings(Message):
    """What was removed, by kind; and what stays."""

    removed: dict[str, list[str]] = Field(default_factory=dict)
    leftovers: list[Leftover] = Field(default_factory=list)


class DrainClusterInput(Message):
    """Asks all nodes of a cluster to leave. With ``force``, their pods are deleted, even protected ones."""

    cluster: str
    by: str = ""
    reason: str = ""
    ticket: str = ""
    force: bool = False


class MarkResult(Message):
    """Which objects have the mark of the teardown now, so that Tenon buys and makes nothing for them."""

    pools: list[str] = Field(default_factory=list)
    classes: list[str] = Field(default_factory=list)
    problems: list[Leftover] = Field(default_factory=list)
    """The objects that could not be marked, and why."""


class DrainClusterResult(Message):
    """Which NodeClaims are left."""

    claims: list[str] = Field(default_factory=list)
    claim_count: int = 0
    unmarked: list[Leftover] = Field(default_factory=list)
    """The NodePools and EC2NodeClasses that could not be marked, and why."""
    unasked: list[Leftover] = Field(default_factory=list)
    """The NodeClaims that could not be asked to leave, and why."""


class EndWorkflowsInput(Message):
    """Asks to end the open workflows of a cluster."""

    task_queue: str
    schedule: str
    """The Schedule of the sweeps."""
    schedules_prefix: str = ""
    """What the ids of the Schedules of NodeSchedules begin with; empty to leave them."""
    why: str


class EndedWorkflows(Message):
    """How many workflows were ended."""

    count: int = 0


class EndedThing(Message):
    """Something that the teardown ended."""

    kind: str
    name: str
    at: datetime
    detail: str = ""


class TeardownReport(Message):
    """The result: what ended, when, and what stays and why."""

    cluster: str
    region: str = ""
    by: str = ""
    reason: str = ""
    ticket: str = ""
    started_at: datetime
    ended_at: datetime | None = None
    """None as long as it runs."""
    dry_run: bool = False
    survey: Survey = Field(default_factory=Survey)
    """What the cluster had when the teardown began."""
    ended: list[EndedThing] = Field(default_factory=list)
    counts: dict[str, int] = Field(default_factory=dict)
    """By kind, how many ended."""
    price: float = 0.0
    """Dollars an hour that the ended instances cost."""
    leftovers: list[Leftover] = Field(default_factory=list)
    skipped: dict[str, str] = Field(default_factory=dict)
    """By step, why it was skipped."""
    timeline: list[TimelineEntry] = Field(default_factory=list)


class DrainProgress(Message):
    """How far a drain is that goes on in the next run of the workflow."""

    report: TeardownReport
    since: datetime
    """When the drain began."""
    rounds: int
    forced_at: datetime | None = None
    """When the first round by force succeeded."""
    failing_since: datetime | None = None
    must_repeat: bool = False
    """Whether the next round drains by force again, because some NodeClaims could not be asked."""
    has_answered: bool = False
    """Whether the API server has answered since the teardown began."""
    unmarked: list[Leftover] = Field(default_factory=list)
    """As the last round said."""


class TeardownInput(WorkflowInput):
    """Asks for the end of all that Tenon has bought and made for a cluster."""

    cluster: str
    by: str = ""
    reason: str = ""
    ticket: str = ""
    """Where the reason is written down, such as the key of an issue."""
    dry_run: bool = False
    """Only say what would end."""
    tags_only: bool = False
    """Work from EC2's tags alone, because the API server is gone."""
    drain_seconds: float = 900.0
    """How long nodes are drained within PodDisruptionBudgets. After that their pods are deleted."""
    drain: DrainProgress | None = None
    """Set if an earlier run has begun to drain the nodes."""
