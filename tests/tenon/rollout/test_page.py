"""The page of a rollout in Temporal's UI."""

from __future__ import annotations

from datetime import UTC, datetime

from tenon.messages.rollout import HeldNode, PoolProgress, RolloutOperation
from tenon.rollout.page import current_details

WHY = "pod shop/job has the annotation karpenter.sh/do-not-disrupt"


def test_nodes_that_cannot_leave_are_named_and_the_page_stays_bounded() -> None:
    """The UI passes the page on in a URL."""
    since = datetime(2026, 1, 1, tzinfo=UTC)
    held_nodes = [HeldNode(claim=f"web-{place}", since=since, why=WHY * 5) for place in range(50)]
    page = current_details("careful", [PoolProgress(pool="web", phase="Progressing", held_nodes=held_nodes[:1])])
    assert f"- web-0 cannot leave: {WHY}" in page
    page = current_details("careful", [PoolProgress(pool="web", phase="Progressing", held_nodes=held_nodes)])
    assert "- and 47 more cannot leave" in page
    assert len(page) < 2000


def test_the_page_says_why_the_version_began_and_who_asked_for_what() -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    operations = [RolloutOperation(action="approve", at=at, by="ann", reason="seen in staging", wave=2)] * 5
    progress = PoolProgress(
        pool="web", phase="Progressing", cause="a new version begins", message="wave 2", operations=operations
    )
    lines = current_details("careful", [progress]).splitlines()
    assert "- began because: a new version begins" in lines
    assert lines.count("- 2026-01-01 12:00:00 UTC ann: approve of wave 2 (seen in staging)") == 3
