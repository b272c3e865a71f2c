"""Which commands of a pass wait for each other before their pods are evicted, and until when."""

from __future__ import annotations

from tenon.disruption.commands.leaving_together import FOR_EACH, MARGIN, VALIDATION_DELAY, leaving_together
from tenon.messages.disruption import DisruptionCommand, Replacement
from tests.tenon.disruption.clusters import NOW


def command(ident: str, *, graceful: bool = True, replacements: int = 0) -> DisruptionCommand:
    return DisruptionCommand(
        id=ident,
        reason="Underutilized",
        candidates=[],
        moves_pods=True,
        graceful=graceful,
        replacements=[Replacement(name="new", pool="default", body={})] * replacements,
    )


def test_commands_that_launch_nothing_leave_when_the_last_of_them_has_been_validated() -> None:
    disruption_commands = leaving_together([command("a"), command("b"), command("c")], NOW)
    assert [disruption_command.id for disruption_command in disruption_commands] == ["a", "b", "c"]
    assert {disruption_command.leaves_from for disruption_command in disruption_commands} == {
        NOW + VALIDATION_DELAY + MARGIN + 3 * FOR_EACH
    }


def test_a_command_that_waits_for_new_nodes_waits_for_no_other() -> None:
    disruption_commands = leaving_together([command("a"), command("new", replacements=1), command("b")], NOW)
    assert [disruption_command.leaves_from is None for disruption_command in disruption_commands] == [
        False,
        True,
        False,
    ]


def test_a_command_that_does_not_give_way_waits_for_no_other() -> None:
    """It is not validated after a delay either."""
    disruption_commands = leaving_together([command("a"), command("old", graceful=False), command("b")], NOW)
    assert [disruption_command.leaves_from is None for disruption_command in disruption_commands] == [
        False,
        True,
        False,
    ]


def test_a_command_alone_does_not_wait() -> None:
    assert leaving_together([command("a"), command("new", replacements=1)], NOW)[0].leaves_from is None
    assert leaving_together([], NOW) == []
