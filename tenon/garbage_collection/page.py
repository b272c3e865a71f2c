"""The page of a garbage collection sweep in Temporal's UI: what it looked for, found and did."""

from __future__ import annotations

from tenon.messages.garbage_collection import GarbageCollectionInput, GarbageCollectionResult

WHY = "Instances, NodeClaims, Nodes and workflows can lose each other, for example when someone removes one by hand"
ABOUT = """This workflow is one sweep: it compares Kubernetes, EC2 and Temporal, and ends or repairs what was lost.
A Schedule starts it. Its result has the figures, and Current Details name what it did.

It needs nothing from you."""


def first_input(cluster: str) -> GarbageCollectionInput:
    """Return the input of every sweep of a cluster."""
    headline = f"Looks for instances, NodeClaims, Nodes and workflows of cluster {cluster} that were lost"
    return GarbageCollectionInput(headline=headline, why=WHY, cluster=cluster)


def current_details(result: GarbageCollectionResult) -> str:
    """Render what a sweep found and did as Markdown."""
    figures = [
        f"- {kind.replace('_', ' ')}: {row.findings} found, {row.ended} ended or repaired, {row.failed} failed, "
        f"{row.put_off} put off" + (f", {row.held_back} held back" if row.held_back else "")
        for kind, row in sorted(result.figures.items())
    ]
    lines = [
        *_section("What it found", figures),
        *_section("What it did", [f"- {line}" for line in result.ended]),
        *_section("What is held back until a person confirms it", [f"- {why}" for why in result.held_back]),
        *_section("What it could not read", [f"- {source}: {why}" for source, why in sorted(result.unread.items())]),
        *_section("What failed", [f"- {fault}" for fault in result.faults]),
    ]
    return "\n".join(lines).strip() or "Nothing was lost."


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"#### {title}", "", *lines] if lines else []
