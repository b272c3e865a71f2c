"""DisruptionFreezes: times in which the nodes of some NodePools are not disrupted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.disruption_windows import DisruptionWindow
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.reasons import Reason
from tenon.apis.validation import check, parse
from tenon.disruption.deciding import decide, eligible
from tenon.disruption.freezes.freeze import (
    FROZEN_REASONS,
    MAX_CHAIN,
    NEVER,
    Freeze,
    freeze_of,
    freezes_for,
    frozen_expiry,
    frozen_now,
)
from tenon.disruption.freezes.status import freeze_status
from tenon.disruption.methods import moving_methods
from tenon.disruption.pool_policy import policy_of
from tenon.disruption.rules.blockers import holds, is_free
from tenon.disruption.situation import Situation
from tenon.disruption.why_stays import WhyStays
from tenon.kube.timestamps import spoken
from tenon.scheduling.deadline import never
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.disruption.clusters import NOW, Cluster, situation

HOUR = timedelta(hours=1)
BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = DisruptionWindow("0 22 * * *", 8 * HOUR, "Europe/Berlin")
SPARE = {"type": "m5.large", "pods": [{"cpu": "100m", "memory": "128Mi"}]}


def freeze(spec: dict[str, Any] | None = None, name: str = "release") -> DisruptionFreeze:
    model, _ = parse(
        DisruptionFreeze,
        {"apiVersion": "tenon.sh/v1alpha1", "kind": "DisruptionFreeze", "metadata": {"name": name}, "spec": spec or {}},
    )
    assert model is not None
    return model


def cluster(*freezes: Freeze, **spare: Any) -> Situation:
    """A node whose pod fits on another one, in a frozen NodePool."""
    host = {"type": "m5.large", "pods": [{"cpu": "900m", "memory": "2Gi"}], "protected": True}
    nodes = {"spare": {**SPARE, **spare}, "host": host, "empty": SPARE | {"pods": []}}
    state = situation(Cluster.model_validate({"nodes": nodes}))
    return replace(state, policies={name: replace(policy, freezes=freezes) for name, policy in state.policies.items()})


@pytest.mark.parametrize("drifted", ["", "AMIDrift"])
def test_a_frozen_node_stays_and_says_so_and_leaves_afterwards(drifted: str) -> None:
    reason = Reason.DRIFTED if drifted else Reason.UNDERUTILIZED
    frozen = cluster(Freeze("release", end=NOW + HOUR, reason="2.0 ships", by="anna"), drifted=drifted)
    assert eligible(frozen, reason) == []
    assert decide(frozen, moving_methods(never)).commands == ()
    (spare,) = (node for node in frozen.nodes if node.claim == "spare")
    (hold,) = holds(spare, frozen, reason)
    assert hold.why == "NodePool default is frozen by DisruptionFreeze release of anna (2.0 ships) until " + (
        f"{NOW + HOUR:%a %Y-%m-%d at %H:%M} UTC"
    )
    assert hold.until == NOW + HOUR
    assert any("frozen by DisruptionFreeze release" in sentence for sentence in WhyStays(frozen).sentences(spare))
    thawed = replace(frozen, now=NOW + HOUR)
    assert is_free(spare, thawed, reason)


def test_a_freeze_stops_neither_repair_nor_what_budgets_never_limit() -> None:
    """An unhealthy node is replaced, and an interrupted node leaves, whatever is frozen."""
    assert Reason.UNHEALTHY not in FROZEN_REASONS
    assert {Reason.UNDERUTILIZED, Reason.EMPTY, Reason.DRIFTED} <= FROZEN_REASONS
    assert not any(reason.traits.budgeted == "never" for reason in FROZEN_REASONS)


def test_a_node_is_looked_at_again_when_its_freeze_ends() -> None:
    state = cluster(Freeze("release", end=NOW + HOUR))
    assert decide(state).next_pass == NOW + HOUR


@pytest.mark.parametrize(
    ("spec", "selected"),
    [
        ({}, True),
        ({"nodePools": ["default"]}, True),
        ({"nodePools": ["other"]}, False),
        ({"nodePoolSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"nodePoolSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"nodePoolSelector": {"matchLabels": {"team": "b"}}, "nodePools": ["default"]}, True),
        ({"nodePoolSelector": {}}, True),
    ],
)
def test_which_node_pools_a_freeze_is_meant_for(spec: dict[str, Any], selected: bool) -> None:
    pool = node_pool("default")
    pool.metadata.labels["team"] = "a"
    assert bool(freezes_for([freeze(spec)], "default", {"team": "a"})) is selected
    assert bool(policy_of(pool, [freeze(spec)]).freezes) is selected


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"windows": [{"schedule": "0 25 * * *", "duration": "1h"}]}, "spec.windows[0].schedule"),
        ({"windows": [{"schedule": "0 2 30 2 *", "duration": "1h"}]}, "spec.windows[0].schedule"),
        ({"windows": [{"schedule": "0 2 * * *", "duration": "1h", "timezone": "Berlin"}]}, "spec.windows[0].timezone"),
        ({"windows": [{"schedule": "0 2 * * *", "duration": "0h"}]}, "spec.windows[0].duration"),
        ({"startTime": "2026-02-01T00:00:00Z", "endTime": "2026-01-01T00:00:00Z"}, "spec"),
    ],
)
def test_a_freeze_that_cannot_be_understood_holds_and_says_why(spec: dict[str, Any], path: str) -> None:
    """A typing mistake must not cost a node."""
    model = freeze(spec)
    (fault,) = check(model)
    assert str(fault).startswith(path)
    assert freeze_of(model).ends(NOW) == NEVER
    status, change = freeze_status(model, {}, [str(fault)], 1, now=NOW)
    assert (status["active"], change) == (True, None)
    condition = next(entry for entry in status["conditions"] if entry["type"] == "ValidationSucceeded")
    assert condition["status"] == "False"
    assert "are frozen until then" in condition["message"]


def test_the_status_says_what_changes_next() -> None:
    later = freeze({"startTime": "2026-03-01T08:00:00Z", "endTime": "2026-03-01T12:00:00Z"})
    changes = []
    now = datetime(2026, 3, 1, 7, tzinfo=UTC)
    for _ in range(3):
        status, change = freeze_status(later, {}, [], 2, now=now)
        changes.append((status["active"], status["nextChange"], status["nodePools"]))
        now = change or now
    assert changes == [(False, "2026-03-01T08:00:00Z", 2), (True, "2026-03-01T12:00:00Z", 2), (False, None, 2)]


def test_a_status_that_nothing_changed_is_the_same() -> None:
    model = freeze({"endTime": "2026-03-01T12:00:00Z"})
    before, _ = freeze_status(model, {}, [], 1, now=NOW, generation=1)
    assert freeze_status(model, before, [], 1, now=NOW + timedelta(minutes=5), generation=1)[0] == before


@pytest.mark.parametrize(
    ("day", "begins", "ends"),
    [("2026-03-28", 21, 5), ("2026-10-24", 20, 4), ("2026-07-01", 20, 4), ("2026-01-10", 21, 5)],
    ids=["clocks-go-forward", "clocks-go-back", "summer", "winter"],
)
def test_a_window_begins_on_the_local_clock_and_lasts_for_its_time(day: str, begins: int, ends: int) -> None:
    nightly = Freeze("nights", windows=(NIGHTS,))
    noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    opening = nightly.begins(noon)
    assert opening is not None
    assert opening.astimezone(UTC).hour == begins
    closing = nightly.ends(opening)
    assert closing is not None
    assert closing.astimezone(UTC).hour == ends
    assert nightly.ends(closing) is None


def test_windows_that_follow_each_other_are_one_freeze() -> None:
    day = DisruptionWindow("0 6 * * *", 16 * HOUR, "Europe/Berlin")
    frozen = frozen_now((Freeze("nights", windows=(NIGHTS,)), Freeze("days", windows=(day,), end=NOW + 40 * HOUR)), NOW)
    assert frozen is not None
    assert frozen.until >= NOW + 40 * HOUR


@pytest.mark.parametrize(
    ("waited", "waits"), [(timedelta(0), True), (71 * HOUR, True), (72 * HOUR, False)], ids=["now", "almost", "over"]
)
def test_an_expired_node_waits_for_a_limited_time(waited: timedelta, waits: bool) -> None:
    endless = freeze_of(freeze())
    frozen = frozen_expiry((endless,), NOW - waited, NOW)
    assert (frozen is not None) is waits
    if frozen is not None:
        assert frozen.until == NOW - waited + 72 * HOUR
    state = cluster(endless)
    node = replace(state.nodes[0], expires_at=NOW - waited)
    assert is_free(node, state, Reason.EXPIRED) is not waits


def test_an_expiry_delay_of_zero_lets_expired_nodes_leave_at_once() -> None:
    assert frozen_expiry((freeze_of(freeze({"maxExpiryDelay": "0s"})),), NOW, NOW) is None
    assert frozen_expiry((freeze_of(freeze({"maxExpiryDelay": "1h"})),), NOW, NOW) is not None


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        ("2026-03-01T23:30:00-05:00", "Mon 2026-03-02 at 04:30 UTC"),
        ("2026-03-01T12:00:00Z", "Sun 2026-03-01 at 12:00 UTC"),
    ],
)
def test_an_end_with_an_offset_is_said_in_utc(end: str, sentence: str) -> None:
    (item,) = freezes_for([freeze({"endTime": end})], "default", {})
    frozen = frozen_now((item,), datetime(2026, 2, 1, tzinfo=UTC))
    assert frozen is not None
    assert frozen.clause.endswith(f"until {sentence}")


def test_an_end_in_a_named_zone_is_said_in_that_zone() -> None:
    assert spoken(datetime(2026, 7, 1, 8, tzinfo=BERLIN)) == "Wed 2026-07-01 at 08:00 Europe/Berlin"


def test_whether_a_node_is_frozen_is_decided_without_a_look_at_later_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass asks this for each node. Only a sentence needs the end of windows that follow each other."""
    looks: list[datetime] = []
    closing = DisruptionWindow.closing

    def counted_closing(self: DisruptionWindow, now: datetime) -> datetime | None:
        looks.append(now)
        return closing(self, now)

    monkeypatch.setattr(DisruptionWindow, "closing", counted_closing)
    minutes = Freeze("minutes", windows=(DisruptionWindow("* * * * *", 2 * HOUR / 60),))
    state = cluster(minutes)
    node = replace(state.nodes[0], expires_at=NOW)
    assert not is_free(node, state, Reason.UNDERUTILIZED)
    assert set(looks) == {state.now}
    (hold,) = (hold for hold in holds(node, state, Reason.UNDERUTILIZED) if hold.blocker.name == "frozen")
    assert hold.until is not None
    assert len(set(looks)) <= MAX_CHAIN + 2


INSTANTS = st.integers(0, 365 * 24 * 60).map(lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + minutes * HOUR / 60)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
WINDOWS = st.builds(
    DisruptionWindow,
    st.sampled_from(["0 22 * * *", "*/30 * * * *", "0 2 * * 0", "30 1 * * *", "0 0 1 * *"]),
    st.integers(1, 48).map(lambda half_hours: half_hours * HOUR / 2),
    ZONES,
)
FREEZES = st.builds(
    Freeze,
    st.sampled_from(["a", "b", "c"]),
    start=st.none() | INSTANTS,
    end=st.none() | INSTANTS,
    windows=st.lists(WINDOWS, max_size=2).map(tuple),
)


@given(FREEZES, INSTANTS)
def test_a_freeze_that_holds_ends_when_it_says_or_goes_on_in_another_window(one_freeze: Freeze, now: datetime) -> None:
    ends = one_freeze.ends(now)
    if ends is None:
        begins = one_freeze.begins(now)
        if begins is not None:
            assert begins > now
            assert one_freeze.ends(begins) is not None
            assert one_freeze.ends(now + (begins - now) / 2) is None
    else:
        assert ends > now
        if ends != NEVER:
            assert one_freeze.ends(now + (ends - now) / 2) is not None


@given(st.lists(FREEZES, max_size=3).map(tuple), INSTANTS)
def test_a_pool_is_frozen_exactly_while_one_of_its_freezes_holds(freezes: tuple[Freeze, ...], now: datetime) -> None:
    frozen = frozen_now(freezes, now)
    assert (frozen is not None) is any(item.ends(now) is not None for item in freezes)
    if frozen is not None and frozen.until != NEVER:
        assert frozen.until > now
        assert frozen_now(freezes, now + (frozen.until - now) / 2) is not None
