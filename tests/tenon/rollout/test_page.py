"""The page of a rollout in Temporal's UI."""

from __future__ import annotations

from datetime import UTC, datetime

from tenon.messages.rollout import HeldNode, PoolProgress
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
