"""What Temporal's UI says of disruption commands, and of the workflow that decides them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from tenon.apis.reasons import Reason
from tenon.disruption.commands import command_page, overview_page
from tenon.evolve import evolve
from tenon.messages.base import REBOOT
from tenon.messages.command_approval import AwaitsApproval
from tenon.messages.disruption import (
    DisruptionCandidate,
    DisruptionCommand,
    DisruptResult,
    MeasuredSaving,
    OpenCommand,
    PoolSavings,
    RecentCommand,
    Replacement,
)
from tenon.messages.forecast import ConsolidationForecast, ForecastCommand, LeavingNode

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CANDIDATE = DisruptionCandidate(claim="web-1", uid="u1", pool="web", since=NOW, price=0.2, node="n1")
MOVE = DisruptionCommand(
    id="underutilized-1",
    reason=Reason.UNDERUTILIZED,
    candidates=[CANDIDATE],
    moves_pods=True,
    replacements=[Replacement(name="web-2", pool="web", body={})],
    predicted=0.1,
    explanation=["Saves $0.1000 an hour"],
)
EMPTY = DisruptionCommand(id="empty-1", reason=Reason.EMPTY, candidates=[CANDIDATE], only_if_empty=True)
OPEN = OpenCommand(command="underutilized-1", reason=Reason.UNDERUTILIZED, pool="web", until=NOW, since=NOW)


@pytest.mark.parametrize(
    ("command", "headline"),
    [
        (MOVE, "Underutilized: replaces 1 node of NodePool web: n1, with web-2; is to save 0.1000 USD/h"),
        (evolve(MOVE, replacements=[], predicted=0.0), "Underutilized: removes 1 node of NodePool web: n1"),
        (EMPTY, "Empty: removes 1 node of NodePool web: n1"),
        (evolve(MOVE, decision=REBOOT, predicted=0.0), "Underutilized: reboots 1 node of NodePool web: n1"),
    ],
)
def test_a_command_says_in_one_line_what_it_does(command: DisruptionCommand, headline: str) -> None:
    begin = command_page.first_input("c", command, "queue")
    assert begin.headline == headline
    assert (begin.cluster, begin.command, begin.plan_queue) == ("c", command, "queue")
    assert command_page.current_details(command, [], "").startswith(f"### {headline}\n")


def test_the_page_of_a_command_says_why_and_what_it_waits_for_without_formulas() -> None:
    shown = command_page.current_details(MOVE, ["`2026-11-21 12:00:00` created web-2"], "waits for its replacements")
    assert "**Now:** it waits for its replacements" in shown
    assert "- NodeClaim web-1 of NodePool web, Node n1, 0.2000 USD/h, since 2026-11-21 12:00:00 UTC" in shown
    assert "- NodeClaim web-2 of NodePool web" in shown
    assert "- Saves 0.1000 USD/h" in shown
    assert "- `2026-11-21 12:00:00` created web-2" in shown
    assert "Request Cancellation" in shown
    assert "$" not in shown


def test_a_page_says_that_nothing_needs_to_be_sent_unless_the_command_waits_for_a_person() -> None:
    waiting = evolve(MOVE, approval=AwaitsApproval(seconds=86_400.0))
    shown = command_page.current_details(waiting, [], "waits for approval", NOW + timedelta(days=1))
    assert "the update `approve`" in shown
    assert "needs nothing" not in shown
    assert "Request Cancellation undoes the command" in shown
    details = command_page.static_details(waiting)
    assert "It waits for approval before it begins" in details
    assert "needs nothing" not in details
    approved_page = command_page.current_details(waiting, [], "")
    assert "It needs nothing from you: its signals come from Tenon. Request Cancellation undoes" in approved_page
    assert "It needs nothing from you" in command_page.static_details(MOVE)


def test_the_page_of_an_ended_command_says_what_it_saves_in_fact() -> None:
    """Not what it was to save: a command that was undone saves nothing."""
    undone = command_page.current_details(MOVE, [], "", undone="a pod came or went")
    assert undone.startswith("### Underutilized: replaces 1 node of NodePool web: n1, with web-2; undone\n")
    assert "**Undone:** a pod came or went" in undone
    assert "save 0.1000" not in undone
    measured = command_page.current_details(MOVE, [], "", saving=0.05)
    assert measured.startswith("### Underutilized: replaces 1 node of NodePool web: n1, with web-2; saves 0.0500 USD/h")
    assert "; saves nothing\n" in command_page.current_details(MOVE, [], "", saving=0.0)
    assert "Request Cancellation" in command_page.current_details(MOVE, [], "")
    ended = command_page.current_details(MOVE, [], "", ended=True)
    assert not any("Request Cancellation" in shown for shown in (undone, measured, ended)), (
        "it can undo nothing any more"
    )


def test_the_last_commands_say_how_they_ended_in_place_of_what_they_were_to_save() -> None:
    lines: list[RecentCommand] = []
    for number in (1, 11):
        action = "Underutilized: removes " + "a-long-name " * 30
        lines = overview_page.remembered(lines, NOW, action, f"disruption-command/c/{number}", "is to save 0.1 USD/h")
    lines = overview_page.with_end(lines, "disruption-command/c/1", "undone: a pod came or went")
    shown = overview_page.current_details("c", {}, {}, lines)
    assert [line.partition("(workflow ")[2] for line in shown.splitlines() if "(workflow " in line] == [
        "disruption-command/c/11): is to save 0.1 USD/h",
        "disruption-command/c/1): undone: a pod came or went",
    ]


def test_a_removal_of_empty_nodes_saves_their_price_and_one_of_expired_nodes_claims_nothing() -> None:
    """Nodes are bought for the pods of expired ones, by another workflow."""
    result = DisruptResult(accepted=["web-1"], prices={"web-1": 0.2})
    assert command_page.end_of(EMPTY, result) == "saves 0.2000 USD/h"
    expired = evolve(EMPTY, reason=Reason.EXPIRED, only_if_empty=False)
    assert command_page.end_of(expired, result) == "asked 1 node to leave"


def test_a_command_for_an_empty_node_says_since_when_it_is_empty() -> None:
    assert command_page.why(EMPTY) == "It has no pods that need another node, since 2026-11-21 12:00:00 UTC"


def test_a_command_is_found_by_its_nodes_and_claims_within_the_size_of_an_attribute() -> None:
    assert command_page.searched_names(MOVE) == ["web-1", "n1", "web-2"]
    many = [evolve(CANDIDATE, claim=f"web-{number:056}", node="") for number in range(100)]
    names = command_page.searched_names(evolve(MOVE, candidates=many))
    assert len(names) > 20
    assert sum(map(len, names)) <= command_page.MAX_SEARCHED


def test_the_page_of_a_large_command_fits_into_a_url() -> None:
    many = [evolve(CANDIDATE, claim=f"web-{number:056}") for number in range(100)]
    shown = command_page.current_details(evolve(MOVE, candidates=many), [], "")
    assert "- and 80 more" in shown
    assert len(quote(shown)) < 8000


def test_the_page_with_a_large_forecast_fits_into_a_url() -> None:
    """Proxies refuse longer URLs, and the UI passes the page on in one."""
    names = [f"ip-10-0-10-{number}.us-west-2.compute.internal" for number in range(5)]
    leaving = {
        name: LeavingNode(
            instance_type="c6a.xlarge", zone="us-west-2a", capacity_type="on-demand", price=0.153, pods=12
        )
        for name in names
    }
    command = ForecastCommand(
        reason=Reason.UNDERUTILIZED, nodes=names, leaving=leaving, more_nodes=2, pools=["web"], saving=0.3
    )
    frozen = {
        f"pool-{number}": f"frozen by DisruptionFreeze release ({'r' * 256}) until Monday" for number in range(20)
    }
    forecast = ConsolidationForecast(asked_at=NOW, at=NOW, commands=[command] * 10, frozen=frozen)
    shown = overview_page.current_details("c", {"web-1": OPEN}, {}, [], forecast)
    assert len(quote(shown)) < 8000
    assert "- Underutilized: removes 7 nodes of NodePool web: ip-10-0-10-0.us-west-2.compute.internal (" in shown
    assert " more commands" in shown
    assert " more NodePools are frozen" in shown


def test_the_disruption_workflow_lists_commands_budgets_failures_and_slow_pools() -> None:
    open_commands = {
        "web-1": OPEN,
        "web-3": OPEN,
        "api-1": evolve(OPEN, command="drifted-1", pool="api", postponed=True, until=NOW + timedelta(minutes=5)),
    }
    savings = {"web": PoolSavings(short=2, predicted=0.3, reached=0.1, at=NOW)}
    last = overview_page.remembered([], NOW, "Empty: removes n1", "disruption-command/c/empty-1")
    shown = overview_page.current_details("c", open_commands, savings, last)
    assert shown.startswith("### Decides which nodes of cluster c leave: 1 command for 2 nodes under way")
    assert "- `underutilized-1`: Underutilized, web-1, web-3, since 2026-11-21 12:00:00 UTC" in shown
    assert "- NodePool web: 2 nodes, Underutilized" in shown
    assert "- api-1 until 2026-11-21 12:05:00 UTC: command `drifted-1`" in shown
    assert "- web: the last 2 commands saved 0.1000 USD/h instead of 0.3000 USD/h" in shown
    assert "Empty: removes n1 (workflow disruption-command/c/empty-1)" in shown


def test_a_command_that_has_ended_is_not_under_way_and_its_nodes_use_the_budget() -> None:
    ended = evolve(OPEN, command="empty-1", reason=Reason.EMPTY, ended=True)
    shown = overview_page.current_details("c", {"web-1": OPEN, "web-3": ended}, {}, [])
    assert shown.startswith("### Decides which nodes of cluster c leave: 1 command for 1 node under way")
    _, _, after = shown.partition("#### Commands that have ended, whose nodes count until they are gone\n\n")
    assert after.startswith("- `empty-1`: Empty, web-3, since 2026-11-21 12:00:00 UTC\n")
    assert "- NodePool web: 1 node, Empty\n- NodePool web: 1 node, Underutilized" in shown
    assert "No command is under way." in overview_page.current_details("c", {"web-3": ended}, {}, [])


@pytest.mark.parametrize(
    ("command", "result", "end"),
    [
        (MOVE, DisruptResult(refused={"web-1": "x"}, failure="a pod came or went"), "undone: a pod came or went"),
        (
            MOVE,
            DisruptResult(accepted=["web-1"], saving=MeasuredSaving(predicted=1, reached=0.5)),
            "saves 0.5000 USD/h",
        ),
        (EMPTY, DisruptResult(accepted=["web-1"], prices={"web-1": 0.2}), "saves 0.2000 USD/h"),
        (EMPTY, DisruptResult(accepted=["web-1"]), "asked 1 node to leave"),
        (evolve(MOVE, decision=REBOOT), DisruptResult(accepted=["web-1"]), "asked 1 node to reboot"),
        (MOVE, DisruptResult(accepted=["web-1"], replacement="web-2 replaced it"), "web-2 replaced it"),
    ],
)
def test_a_command_says_how_it_ended(command: DisruptionCommand, result: DisruptResult, end: str) -> None:
    assert command_page.end_of(command, result) == end


def test_the_disruption_workflow_says_how_a_person_answers_commands_that_wait() -> None:
    """They are not under way, and all the same the page does not say that nothing happens."""
    shown = overview_page.current_details("c", {"web-1": evolve(OPEN, awaits_approval=True)}, {}, [])
    assert shown.startswith("### Decides which nodes of cluster c leave: 1 command waits for approval\n")
    assert "- `underutilized-1`: Underutilized, web-1, since 2026-11-21 12:00:00 UTC" in shown
    assert "`tenon approve ID --reason TEXT` or `tenon refuse ID --reason TEXT`" in shown
    assert "`disruption-command/c/ID`" in shown
    assert "No command is under way" not in shown
    assert "tenon approve" not in overview_page.current_details("c", {"web-1": OPEN}, {}, [])


def test_the_disruption_workflow_says_that_nothing_is_under_way_and_remembers_the_last_commands_only() -> None:
    lines: list[RecentCommand] = []
    for number in range(30):
        lines = overview_page.remembered(lines, NOW, f"command {number}", "x" * 400)
    assert len(lines) == overview_page.REMEMBERED
    shown = overview_page.current_details("c", {}, {}, lines)
    assert "No command is under way." in shown
    assert "command 29" in shown
    assert len(quote(shown)) < 8000
