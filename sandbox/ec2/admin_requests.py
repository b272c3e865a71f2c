"""The request bodies of the admin API, validated."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.region import ZONES

Model = TypeVar("Model")


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ThrottleBody(Body):
    """POST /sandbox/throttle."""

    action: str
    rate: float
    burst: float


class BucketsBody(Body):
    """POST /sandbox/buckets: whether to enforce the account's request limits."""

    enforced: bool


class QuotaBody(Body):
    """POST /sandbox/quotas. ``type`` is any instance type that counts against the quota."""

    type: str
    capacity_type: str = "on-demand"
    vcpus: int = Field(default=0, ge=0)


class CapacityBody(Body):
    """POST /sandbox/capacity. An omitted field matches everything, and ``available: null`` removes the limit."""

    type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    available: int | None = Field(default=0, ge=0)


class BootBody(Body):
    """POST /sandbox/boot. Without ``type`` it applies to every instance."""

    type: str | None = None
    delay: float | None = None
    never: bool = False
    not_ready: bool = False
    dies: bool = False
    console: str = ""
    chance: float = 1.0
    seed: int = 0


class LifecycleBody(Body):
    """POST /sandbox/lifecycle: seconds that states last."""

    pending: float | None = Field(default=None, ge=0)
    shutting_down: float | None = Field(default=None, ge=0)
    purge: float | None = Field(default=None, ge=0)


class RightsBody(Body):
    """POST /sandbox/rights."""

    enforced: bool


class PolicyBody(Body):
    """POST /sandbox/policy. Without ``cluster`` it is the sandbox's own; without ``document`` the default returns."""

    cluster: str = ""
    document: dict[str, Any] | None = None


class SpotRoleBody(Body):
    """POST /sandbox/spot-role."""

    exists: bool


class InstanceBody(Body):
    """POST /sandbox/kill-instance, vanish-instance, stop-instance, recommend-rebalance and schedule-retirement."""

    id: str


class ImpairBody(Body):
    """POST /sandbox/impair-instance. The check fails since ``seconds`` ago; null: it passes again."""

    id: str
    check: Literal["system", "instance"] = "instance"
    seconds: float | None = Field(default=0.0, ge=0)


class SilenceBody(Body):
    """POST /sandbox/silence-kubelet."""

    id: str
    silent: bool = True


class EventBody(Body):
    """POST /sandbox/schedule-event."""

    id: str
    code: str = "instance-stop"
    description: str = "The instance is running on degraded hardware"


class InterruptBody(Body):
    """POST /sandbox/interrupt-instance."""

    id: str
    notice_seconds: float = Field(default=120.0, ge=0)


class PlantInstanceBody(Body):
    """POST /sandbox/plant-instance."""

    tags: dict[str, str]
    type: str = "m7g.large"
    zone: str = ZONES[0]
    capacity_type: Literal["on-demand", "spot"] = "on-demand"
    age_seconds: float = Field(default=0.0, ge=0)
    joins: bool = False
    reservation: str = ""
    """The capacity reservation that it takes a place in."""


class PlacementGroupBody(Body):
    """POST /sandbox/placement-group."""

    name: str
    strategy: Literal["cluster", "partition", "spread"]
    partitions: int = Field(default=0, ge=0, le=7)


class ShiftBody(Body):
    """POST /sandbox/shift-zone: start or end a zonal shift away from a zone, given by its ID."""

    zone: str
    away: bool = True
    auto: bool = False
    """Whether ARC does it by itself."""


class ReserveBody(Body):
    """POST /sandbox/reserve."""

    type: str
    zone: str
    count: int = Field(ge=1)
    tags: dict[str, str] = {}
    criteria: Literal["open", "targeted"] = "targeted"
    block: bool = False
    interruptible: bool = False
    owner: str = ACCOUNT
    end: datetime | None = None


class BuyReservedInstancesBody(Body):
    """POST /sandbox/reserved-instances. Without ``zone`` they are for the region."""

    type: str
    count: int = Field(ge=1)
    zone: str = ""


class BuySavingsPlanBody(Body):
    """POST /sandbox/savings-plan. Without ``family`` it covers all compute."""

    commitment: float = Field(gt=0)
    family: str = ""


class SpotScoresBody(Body):
    """POST /sandbox/spot-scores: the scores of zones, by zone ID. Those that are not named are computed."""

    scores: dict[str, Annotated[int, Field(ge=1, le=10)]]


class EndReservationBody(Body):
    """POST /sandbox/end-reservation. Without ``at`` it ends at once."""

    id: str
    at: datetime | None = None


class PlantTemplateBody(Body):
    """POST /sandbox/plant-launch-template."""

    name: str
    tags: dict[str, str] = {}
    age_seconds: float = Field(default=0.0, ge=0)


class ExhaustBody(Body):
    """POST /sandbox/exhaust-cheapest. Without ``capacity_type`` it covers both, without ``types`` all types."""

    count: int = Field(ge=1)
    capacity_type: Literal["on-demand", "spot"] | None = None
    types: list[str] = []


def read(model: type[Model], body: bytes) -> Model:
    """Parse a body.

    Raises:
        ValueError: the body is not valid (includes pydantic's ValidationError).
    """
    return TypeAdapter(model).validate_json(body or b"{}")
