"""Finds the Node that a name without its domain stands for: in a narrow terminal, lists print Nodes of EKS so."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.errors import TenonError
from tenon.sentences import first_few

MAX_CANDIDATES = 5
"""How many Nodes an error names."""


_DOMAIN = ".internal"
"""How the names of Nodes of EKS end, such as ip-10-0-0-7.us-west-2.compute.internal."""


class AmbiguousNameError(TenonError):
    """A name without its domain that stands for several Nodes. The message is one sentence."""

    def __init__(self, name: str, candidates: list[str]) -> None:
        self.problem = (
            f"stands for {len(candidates)} Nodes, {first_few(candidates, MAX_CANDIDATES)}: write the whole name of one"
        )
        """The sentence without its subject."""
        super().__init__(f"{name} {self.problem}.")


def without_domain(name: str) -> str:
    """Return the name of a Node of EKS without its domain, for lists in a terminal; other names as they are."""
    return name.partition(".")[0] if name.endswith(_DOMAIN) else name


def may_stand_for(name: str, node: str) -> bool:
    """Return whether the name is the start of a Node's name, up to a dot."""
    return bool(name) and node.startswith(f"{name}.")


def whole_name(name: str, nodes: Iterable[str], others: Iterable[str] = ()) -> str:
    """Return the name of the only Node that a name without its domain stands for; the name itself if there is none.

    Args:
        name: as a person writes it.
        nodes: the names of Nodes.
        others: more names that stand for themselves, such as those of NodeClaims and instances.

    Raises:
        AmbiguousNameError: it stands for several Nodes.
    """
    node_names = set(nodes)
    if name in node_names or name in set(others):
        return name
    candidates = sorted(node for node in node_names if may_stand_for(name, node))
    if len(candidates) > 1:
        raise AmbiguousNameError(name, candidates)
    return candidates[0] if candidates else name
