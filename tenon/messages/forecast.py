"""Messages with what consolidation would do next, which an operator asks the disruption workflow for."""

from datetime import datetime

from pydantic import Field

from tenon.messages.base import Message
from tenon.messages.disruption import OpenCommand


class ForecastInput(Message):
    """The commands that the disruption workflow knows, by NodeClaim."""

    cluster: str
    ledger: dict[str, OpenCommand] = Field(default_factory=dict)


class LeavingNode(Message):
    """A node that would leave."""

    instance_type: str
    zone: str
    capacity_type: str
    price: float
    """Dollars an hour; 0 if it is not known."""
    pods: int
    """How many pods need another node then."""


class ForecastNode(Message):
    """A new node, as the cheapest type that its NodeClaim would allow."""

    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float
    """Dollars an hour."""


class ForecastCommand(Message):
    """A command that consolidation would give."""

    reason: str
    nodes: list[str]
    """The first Nodes that would leave."""
    leaving: dict[str, LeavingNode] = Field(default_factory=dict)
    """By the name of one of these Nodes, what it is, if that is known."""
    more_nodes: int = 0
    pools: list[str]
    replacements: list[ForecastNode] = Field(default_factory=list)
    saving: float | None
    """Dollars an hour; None if a price is not known."""
    awaits_approval: bool = False
    """Whether it would wait for a person."""


class ConsolidationForecast(Message):
    """When consolidation would act next if nothing changes until then, and what it would do."""

    asked_at: datetime
    at: datetime | None = None
    """When it would act, or when all waits are over without a command; None if no wait ends with time."""
    commands: list[ForecastCommand] = Field(default_factory=list)
    """The first commands; empty for none."""
    more_commands: int = 0
    at_the_latest: bool = False
    """Whether earlier times were left out, at which consolidation may act already."""
    is_cut: bool = False
    """Whether the search used up its time, so that there may be more commands."""
    frozen: dict[str, str] = Field(default_factory=dict)
    """The first NodePools that a DisruptionFreeze stops, and by whom, why and until when, each in a clause."""
    more_frozen: int = 0


class ForecastAnswer(Message):
    """What the operator hears."""

    forecast: list[str]
    """Lines of text, as the workflow's page has them."""
