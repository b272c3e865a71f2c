"""NodeRollout (tenon.sh/v1alpha1): how a new version of nodes reaches NodePools, and what stops it.

Without one, a change of a NodePool, of its EC2NodeClass or of an AMI replaces nodes as fast as budgets allow, as in
Karpenter. With one, nodes are replaced in waves, each wave must pass gates, and a version that fails goes no further.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

import json
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from tenon.apis.base import ApiModel, Rule
from tenon.apis.common import Conditions, ObjectMeta
from tenon.apis.disruption_windows import WindowError, read_windows
from tenon.apis.duration import BudgetDuration, Duration, PlainDuration
from tenon.apis.nodepool import BUDGET_NODES_PATTERN, SCHEDULE_PATTERN
from tenon.apis.noderepairpolicy import NodePoolSelector

Order = Literal["Fleet", "Zone", "NodePool"]
RolloutPhase = Literal["Settled", "Progressing", "Paused", "Halted", "RollingBack", "RolledBack"]

WAVE_PATTERN = r"^([1-9][0-9]{0,5}|(100|[1-9][0-9]?)%)$"
NUMBER_PATTERN = r"^-?[0-9]+(\.[0-9]+)?$"
ADDRESS_PATTERN = r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[^ ?#]*)?$"
ZONE_PATTERN = r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"
MAX_WAVES = 20
MAX_QUERIES = 10
MAX_WINDOWS = 50
MAX_WAVE_CLAIMS = 5000
WAVES = ["1", "10%", "50%", "100%"]


def _whole(value: Any) -> Any:
    """Return 5 for 5.0, as the API server stores it."""
    return int(value) if type(value) is float and value.is_integer() else value


WaveNumber = Annotated[int, Field(ge=1, le=MAX_WAVES), BeforeValidator(_whole)]


class RolloutStrategy(ApiModel):
    """How many nodes are replaced before the gates are asked again."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.waves) || self.waves.size() == 0 || self.waves[self.waves.size() - 1] == '100%'",
            "the last wave must be 100%: otherwise some nodes never get the new version",
        ),
    )

    waves: Annotated[list[Annotated[str, Field(pattern=WAVE_PATTERN)]], Field(min_length=1, max_length=MAX_WAVES)] = (
        WAVES
    )
    """How many nodes have the new version at the end of each wave: a number, or a percentage of all nodes."""
    order: Order = "Fleet"
    """Whether waves go over all nodes of each NodePool, or through one zone or one NodePool after another."""
    soak: PlainDuration = Duration("10m")
    """How long the gates must hold after the last node of a wave is replaced."""
    max_unavailable: Annotated[str, Field(pattern=BUDGET_NODES_PATTERN)] = "10%"
    """How many nodes may be replaced at one time, as a number or a percentage; budgets of the NodePool hold too."""


class PrometheusGate(ApiModel):
    """A query that must stay within its bounds while a wave runs."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.min) || has(self.max)", "a query needs min, max or both: nothing could fail otherwise"),
    )

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """What the evidence calls the query."""
    address: Annotated[str, Field(max_length=512, pattern=ADDRESS_PATTERN)]
    """The address of the Prometheus server, such as http://prometheus.monitoring:9090."""
    query: Annotated[str, Field(min_length=1, max_length=2048)]
    """The expression in PromQL, with one number as its result."""
    min: Annotated[str, Field(max_length=32, pattern=NUMBER_PATTERN)] | None = None
    """The least value that passes."""
    max: Annotated[str, Field(max_length=32, pattern=NUMBER_PATTERN)] | None = None
    """The greatest value that passes."""


class RolloutGates(ApiModel):
    """What must hold for the next wave to begin."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.prometheus) || self.prometheus.all(gate, "
            "self.prometheus.filter(other, other.name == gate.name).size() == 1)",
            "two Prometheus queries have the same name: give each its own",
        ),
    )

    initialized_within: PlainDuration = Duration("15m")
    """How long a new node may take from its launch until it is initialized."""
    pods_ready_within: PlainDuration = Duration("10m")
    """How long a pod may take on a new node, from the time it gets the node, until it is Ready."""
    restarts: Literal["NotAboveOld", "Ignore"] = "NotAboveOld"
    """Whether restarts and crash loops of containers on new nodes may exceed those on old nodes."""
    node_conditions: Literal["NoneNew", "Ignore"] = "NoneNew"
    """Whether a condition that is a fault may appear on new nodes if no old node has it."""
    prometheus: Annotated[list[PrometheusGate], Field(max_length=MAX_QUERIES)] = []
    """Queries that must stay within their bounds."""
    approval: Annotated[list[WaveNumber], Field(max_length=MAX_WAVES)] = []
    """The numbers of waves, from 1, that wait until somebody runs `tenon rollout approve`."""


class RolloutWindow(ApiModel):
    """A time in which waves may begin."""

    schedule: Annotated[str, Field(json_schema_extra={"pattern": SCHEDULE_PATTERN})]
    """When the window opens: cron with five fields, or @daily and the like, on the clock of the time zone."""
    duration: BudgetDuration
    """How long the window stays open, in hours and minutes."""
    timezone: Annotated[str, Field(max_length=64, pattern=ZONE_PATTERN)] = "UTC"
    """The IANA name of the time zone, such as Europe/Berlin."""


class NodeRolloutSpec(ApiModel):
    """Which NodePools are meant, and how new versions reach them."""

    node_pool_selector: NodePoolSelector | None = None
    """The NodePools by their labels; unset: every NodePool that no other NodeRollout selects."""
    strategy: RolloutStrategy = Field(default_factory=RolloutStrategy)
    """How many nodes are replaced before the gates are asked again."""
    gates: RolloutGates = Field(default_factory=RolloutGates)
    """What must hold for the next wave to begin."""
    on_failure: Literal["Halt", "Rollback"] = "Halt"
    """What happens when a gate fails: nothing more is replaced, or the nodes of the wave get the last good version."""
    windows: Annotated[list[RolloutWindow], Field(max_length=MAX_WINDOWS)] = []
    """When nodes may be replaced for a new version; empty means always. A way back waits for no window."""


class NodePoolRollout(ApiModel):
    """How far the rollout of one NodePool is."""

    name: str
    """The NodePool."""
    current_revision: str = ""
    """The last version that passed. Launches that do not belong to the rollout use it."""
    target_revision: str = ""
    """The version that is being rolled out or that failed; empty when all nodes may have the current one."""
    phase: RolloutPhase = "Settled"
    """How far the rollout is."""
    wave: Annotated[int, Field(ge=0)] | None = None
    """The number of the current wave, from 1."""
    wave_claims: Annotated[list[str], Field(max_length=MAX_WAVE_CLAIMS)] = []
    """The NodeClaims that may be replaced now."""
    message: str = ""
    """What happens now, in a sentence."""
    cause: str = ""
    """Why the rollout of the version began, with the operator who asked for it and the reason."""


class NodeRolloutStatus(ApiModel):
    """The status of the rollout."""

    conditions: Conditions = []
    """Facts about the rollout."""
    node_pools: list[NodePoolRollout] = []
    """How far the rollout of each NodePool is."""


class NodeRollout(ApiModel):
    """How a new version of nodes reaches NodePools, and what stops it."""

    api_version: Literal["tenon.sh/v1alpha1"] = "tenon.sh/v1alpha1"
    kind: Literal["NodeRollout"] = "NodeRollout"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: NodeRolloutSpec
    status: NodeRolloutStatus = Field(default_factory=NodeRolloutStatus)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield its problems as `ApiModel.problems` does."""
        yield from rollout_problems(self.spec)


def rollout_problems(spec: NodeRolloutSpec) -> Iterator[tuple[str, str]]:
    """Yield the path and the sentence of each problem that no single field shows."""
    for index, window in enumerate(spec.windows):
        # The same reader as that of the annotation of NodePools, so that both accept the same windows.
        try:
            read_windows(json.dumps([window.to_dict()]))
        except WindowError as error:
            yield f"spec.windows[{index}].{error.field}", error.sentence
    for index, gate in enumerate(spec.gates.prometheus):
        path = f"spec.gates.prometheus[{index}]"
        if gate.min is not None and gate.max is not None and float(gate.min) > float(gate.max):
            yield path, f"min {gate.min} is above max {gate.max}, so no value passes: exchange them"
