"""What people read of why consolidation moved a node: on the node's page, in its record, and on the command's page."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.commands.command_page import first_input
from tenon.disruption.commands.disrupt_request import disrupt_request
from tenon.disruption.deciding import decide
from tenon.disruption.methods.consolidation import Consolidation
from tenon.evolve import evolve
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand, Replacement
from tenon.node.leave_text import MAX_DETAIL
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, situation

NOW = datetime(2026, 11, 28, 23, 0, tzinfo=UTC)
NODES = [DisruptionCandidate(claim=f"web-{number}", uid="u", pool="web", since=NOW) for number in range(3)]
NEW = [
    Replacement(name=f"web-new{number}", pool="web", body={}, instance_type="c5.large", price=0.085)
    for number in range(3)
]
DELETES = DisruptionCommand(
    id="underutilized-1",
    reason=Reason.UNDERUTILIZED,
    candidates=NODES[:1],
    moves_pods=True,
    existing_nodes=2,
    predicted=0.0765,
    explanation=["Removes 1 node: n0 (c6a.xlarge, on-demand, us-west-2a, $0.1530 an hour, 1 pod)"],
)


@pytest.mark.parametrize(
    ("command", "of_the_node", "of_the_command"),
    [
        (
            DELETES,
            "its pods fit on 2 existing nodes; the command is to save $0.0765 an hour",
            "Its pods fit on 2 existing nodes",
        ),
        (
            evolve(DELETES, existing_nodes=0, replacements=NEW[:1]),
            "its pods run cheaper on web-new0 (planned as c5.large); the command is to save $0.0765 an hour",
            "Its pods run cheaper on web-new0 (planned as c5.large)",
        ),
        (
            evolve(DELETES, candidates=NODES, existing_nodes=1, replacements=NEW),
            "its pods and those of 2 other nodes run cheaper on web-new0 (planned as c5.large), web-new1 (planned as "
            "c5.large) and 1 more, and 1 existing node; the command is to save $0.0765 an hour",
            "Their pods run cheaper on web-new0 (planned as c5.large), web-new1 (planned as c5.large) and 1 more, and "
            "1 existing node",
        ),
        (
            evolve(DELETES, existing_nodes=0, predicted=0.0),  # by a worker that did not count them yet
            "its pods fit on existing nodes",
            "Its pods fit on existing nodes",
        ),
    ],
    ids=["delete", "replace", "several", "older"],
)
def test_a_node_that_is_moved_says_where_its_pods_run_cheaper(
    command: DisruptionCommand, of_the_node: str, of_the_command: str
) -> None:
    detail = disrupt_request(command, command.candidates[0]).detail
    assert detail == of_the_node
    assert len(detail) <= MAX_DETAIL
    assert first_input("c", command, "queue").why == of_the_command


def test_a_decided_command_counts_the_existing_nodes_that_get_its_pods() -> None:
    small = PodSpec(cpu="500m", memory="512Mi")
    nodes = {"large": NodeSpec(type="m5.4xlarge", pods=[small]), "host": NodeSpec(type="c5.large", pods=[small])}
    (command,) = decide(situation(Cluster(nodes=nodes)), [Consolidation()]).commands
    message = to_message(command)
    assert [candidate.claim for candidate in message.candidates] == ["large"]
    assert disrupt_request(message, message.candidates[0]).detail.startswith("its pods fit on 1 existing node; ")
