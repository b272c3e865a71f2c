"""Which nodes a command of an operator is about."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tenon.fleet.choice import Choice, chosen_rows
from tenon.fleet.order import FilterError
from tenon.fleet.rows import NodeRow
from tenon.kube.node_names import AmbiguousNameError
from tenon.kube.selector_text import parse_selector
from tenon.node.state import Stage
from tests.tenon.fleet.cluster import NOW, a_row


def named(name: str, hours: int, **changes: object) -> NodeRow:
    labels = changes.pop("labels", {})
    return replace(a_row(name), created=NOW - timedelta(hours=hours), labels=labels, **changes)  # type: ignore[arg-type]


ROWS = [
    named("young", 1, pool="web", labels={"team": "shop"}),
    named("old", 9, pool="web"),
    named("middle", 5, pool="batch", labels={"team": "shop"}),
    named("leaving", 20, pool="web", stage=Stage.DRAINING),
    named("foreign", 30, pool="web", claim=""),
]


def names_of(choice: Choice) -> list[str]:
    return [row.node for row in chosen_rows(choice, ROWS)]


def test_names_are_those_of_claims_nodes_and_instances_and_count_once() -> None:
    assert names_of(Choice(("claim-old", "young", "old"))) == ["old", "young"]


def test_the_name_that_a_narrow_list_prints_for_a_node_chooses_it() -> None:
    """`tenon top` leaves out the domain."""
    rows = [replace(a_row("n1"), node=f"ip-10-0-0-8.{domain}", claim=f"claim-{domain}") for domain in ("x", "y")]
    assert chosen_rows(Choice(("ip-10-0-0-8",)), rows[:1]) == rows[:1]
    with pytest.raises(AmbiguousNameError, match=r"2 Nodes, ip-10-0-0-8\.x, ip-10-0-0-8\.y"):
        chosen_rows(Choice(("ip-10-0-0-8",)), rows)


def test_a_nodepool_and_a_selector_select_nodes_that_stay_the_oldest_first() -> None:
    assert names_of(Choice(pool="web")) == ["old", "young"]
    assert names_of(Choice(pool="web", most=1)) == ["old"]
    assert names_of(Choice(selector=parse_selector("team=shop"))) == ["middle", "young"]
    assert names_of(Choice(selector=parse_selector("team=shop"), pool="batch")) == ["middle"]


def test_a_force_drain_selects_nodes_that_drain_already() -> None:
    assert names_of(Choice(pool="web", selects_leaving=True)) == ["leaving", "old", "young"]


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (Choice(), "Which nodes?"),
        (Choice(("old",), pool="web"), "and not both"),
        (Choice(("old", "nope", "foreign")), "is named nope, foreign"),
    ],
)
def test_a_command_that_names_no_nodes_is_refused(choice: Choice, text: str) -> None:
    with pytest.raises(FilterError, match=text):
        chosen_rows(choice, ROWS)
