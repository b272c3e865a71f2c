"""When the model looks for moves."""

from __future__ import annotations

from tenon.disruption.pass_pauses import MAX_SETTLE
from tenon.disruption.pool_policy import policies_of
from tenon.shadow.pace import ShadowPace
from tests.tenon.shadow.models import BOOT, Steps, live


def begins(pace: ShadowPace, steps: Steps) -> bool:
    return pace.begins(steps.view, policies_of(steps.around.pools))


def quiet_model(count: int = 1, cpu: str = "1500m") -> Steps:
    steps = Steps()
    steps.feed(*(live(f"web-{number}", cpu=cpu) for number in range(count)))
    steps.pass_time(2)
    steps.pass_time(BOOT)
    return steps


def test_a_look_begins_once_a_node_is_due() -> None:
    steps, pace = quiet_model(), ShadowPace()
    assert not begins(pace, steps)
    steps.pass_time(30)
    assert begins(pace, steps)


def test_a_look_that_does_not_begin_yet_says_when_it_may() -> None:
    """The worker looks at that moment. A model that looked at fixed times would look later, and find other moves."""
    steps, pace = quiet_model(), ShadowPace()
    (node,) = steps.cluster.nodes.values()
    due = max(node.quiet, node.ready) + 30
    steps.now = due - 7
    assert not begins(pace, steps)
    assert pace.due == due
    steps.now = due
    assert begins(pace, steps)


def test_a_look_waits_while_other_nodes_become_due_but_not_for_ever() -> None:
    steps, pace = quiet_model(12), ShadowPace()
    first = next(iter(steps.cluster.nodes.values()))
    steps.feed(live("huge", cpu="60"))
    steps.pass_time(2)
    other = next(node for node in steps.cluster.nodes.values() if node is not first)
    steps.pass_time(60)
    waited = 0.0
    while True:
        other.quiet = steps.now  # a pod comes and goes on it all the time
        if begins(pace, steps):
            break
        steps.now += 2
        waited += 2
    assert waited == MAX_SETTLE


def test_pods_that_wait_come_first_but_not_those_that_fit_nowhere() -> None:
    steps, pace = quiet_model(), ShadowPace()
    steps.pass_time(30)
    steps.feed(live("huge", cpu="500"))
    assert not begins(pace, steps)
    steps.pass_time(2)
    assert "uid-huge" in steps.cluster.unplaced
    assert begins(pace, steps)


def test_a_look_that_took_long_is_followed_by_a_long_pause() -> None:
    steps, pace = quiet_model(), ShadowPace()
    steps.pass_time(30)
    pace.ended(steps.now, computed=5.0, cursor=None)
    steps.pass_time(48)
    assert not begins(pace, steps)
    steps.pass_time(2)
    assert begins(pace, steps)
