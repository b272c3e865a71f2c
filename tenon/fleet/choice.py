"""Which nodes an operator's command is about: names, a label selector, a NodePool, and at most how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tenon.fleet.order import FilterError
from tenon.fleet.rows import NodeRow
from tenon.kube.node_names import whole_name
from tenon.kube.selectors import LabelSelector

_NEWEST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Choice:
    """What an operator's command says about its nodes. Names and the other two exclude each other."""

    names: Sequence[str] = ()
    """NodeClaims, their Nodes, with or without their domain, or their instances."""
    selector: LabelSelector = field(default_factory=LabelSelector)
    pool: str = ""
    most: int | None = None
    """At most how many nodes; None for all."""
    selects_leaving: bool = False
    """Whether a selector and a NodePool also select nodes that leave already, which a force-drain overtakes."""

    @property
    def is_one_name(self) -> bool:
        """Whether it names one node and nothing else, which needs no list of all nodes."""
        return len(self.names) == 1 and not self.pool and not self.selector.expressions and self.most is None

    def selects(self, row: NodeRow) -> bool:
        """Whether the NodePool and the labels of a node are those that were asked for."""
        return (not self.pool or row.pool == self.pool) and self.selector.matches(row.labels)


def chosen_rows(choice: Choice, rows: Sequence[NodeRow]) -> list[NodeRow]:
    """Return the nodes of a command, each once: in the order of their names, or by age if a selector names them.

    Only nodes with a NodeClaim have a workflow. Nodes that are leaving already are not selected unless the choice says
    so: a command to drain three nodes of a NodePool means three that would stay.

    Raises:
        FilterError: the command says nothing, or too much, or a name is unknown.
        AmbiguousNameError: a name stands for several Nodes.
    """
    chooses = bool(choice.pool or choice.selector.expressions)
    if choice.names and chooses:
        raise FilterError("Name the nodes, or select them with --selector and --pool, and not both.")
    if not choice.names and not chooses:
        raise FilterError("Which nodes? Name them, or select them with --selector or --pool.")
    if choice.names:
        return _named(choice.names, rows)[: choice.most]
    stays_out = not choice.selects_leaving
    selected = [row for row in rows if row.claim and not (stays_out and row.stage.leaving) and choice.selects(row)]
    selected.sort(key=lambda row: (row.created or _NEWEST, row.name))
    return selected[: choice.most]


def _named(names: Sequence[str], rows: Sequence[NodeRow]) -> list[NodeRow]:
    by_name = {name: row for row in rows if row.claim for name in (row.instance, row.node, row.claim) if name}
    nodes = [row.node for row in rows if row.claim]
    names = [whole_name(name, nodes, by_name) for name in names]
    unknown = [name for name in dict.fromkeys(names) if name not in by_name]
    if unknown:
        raise FilterError(f"No NodeClaim, Node or instance of Tenon is named {', '.join(unknown)}.")
    return list({by_name[name].claim: by_name[name] for name in names}.values())
