"""Which rollout a NodePool has, and what it says about its nodes."""

from __future__ import annotations

from typing import Any

from tenon.rollout.versions import PoolPhase, PoolRollout, rollouts_by_pool

PLAIN: dict[str, dict[str, str]] = {"web": {}}


def rollout(name: str, selector: Any = None, created: str = "2026-01-01T00:00:00Z", **row: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {} if selector is None else {"nodePoolSelector": selector},
        "status": {"nodePools": [{"name": "web", **row}] if row else []},
    }


def test_a_selecting_rollout_comes_before_a_default_one_and_an_older_before_a_newer() -> None:
    default = rollout("a-default")
    late = rollout("a-late", {"matchLabels": {"team": "a"}}, "2026-01-03T00:00:00Z")
    early = rollout("b-early", {"matchExpressions": [{"key": "team", "operator": "Exists"}]}, "2026-01-02T00:00:00Z")
    pools = {"web": {"team": "a"}, "batch": {}}
    by_pool = rollouts_by_pool([default, late, early], pools)
    assert {pool: entry.rollout for pool, entry in by_pool.items()} == {"web": "b-early", "batch": "a-default"}
    assert rollouts_by_pool([late, early], pools).keys() == {"web"}


def test_a_rollout_that_cannot_be_read_or_is_leaving_selects_nothing() -> None:
    bad = rollout("bad", {"matchExpressions": [{"key": "team", "operator": "Near"}]})
    leaving = rollout("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert rollouts_by_pool([bad, leaving], PLAIN) == {}


def test_a_nodepool_that_the_status_does_not_name_yet_has_no_version() -> None:
    assert rollouts_by_pool([rollout("r")], PLAIN)["web"] == PoolRollout("r", "web")


def test_a_wave_gets_the_target_only_while_it_is_rolled_out() -> None:
    row: dict[str, Any] = {"currentRevision": "old", "targetRevision": "new", "waveClaims": ["web-1"]}
    for phase in PoolPhase:
        entry = rollouts_by_pool([rollout("r", phase=phase.value, **row)], PLAIN)["web"]
        assert entry.replacement == ("new" if phase is PoolPhase.PROGRESSING else "old"), phase
        assert entry.launches_target is (phase is PoolPhase.PROGRESSING)
        assert entry.may_replace("web-1")
        assert not entry.may_replace("web-2")


def test_a_rotation_replaces_by_the_current_version() -> None:
    row: dict[str, Any] = {"currentRevision": "old", "waveClaims": ["web-1"], "phase": "Progressing"}
    entry = rollouts_by_pool([rollout("r", **row)], PLAIN)["web"]
    assert (entry.replacement, entry.launches_target) == ("old", False)


def test_an_unknown_phase_replaces_nothing_new() -> None:
    entry = rollouts_by_pool([rollout("r", phase="Dancing", currentRevision="old", targetRevision="new")], PLAIN)["web"]
    assert (entry.phase, entry.replacement) == (PoolPhase.PAUSED, "old")


def test_the_sentence_names_the_rollout_its_phase_and_what_comes() -> None:
    entry = PoolRollout("nodes", "web", "old", "new", PoolPhase.HALTED, message="the canary is not ready.")
    assert entry.why_not() == (
        "NodeRollout nodes is halted in NodePool web (the canary is not ready): it stays until somebody continues the "
        "rollout, or a later version passes"
    )
