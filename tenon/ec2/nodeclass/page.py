"""The page of an EC2NodeClass's workflow in Temporal's UI."""

from __future__ import annotations

from datetime import datetime

from tenon.kube.timestamps import time_text
from tenon.messages.nodeclass import NodeClassInput, NodeClassResult

ABOUT = """This workflow keeps one EC2NodeClass resolved: its subnets, security groups, images and instance profile.
NodePools can launch nodes only while it is ready.

The signal `poke` resolves it at once, for example after you tagged a subnet. Tenon sends it when the class changes."""


def first_input(cluster: str, name: str) -> NodeClassInput:
    """Return the input of the workflow of a class."""
    headline = f"Keeps EC2NodeClass {name} of cluster {cluster} resolved"
    why = "Launches need its subnets, security groups, images and instance profile, which change in EC2 at any time"
    return NodeClassInput(headline=headline, why=why, cluster=cluster, name=name)


def current_details(name: str, result: NodeClassResult, next_at: datetime) -> str:
    """Render the page as Markdown. ``next_at``: when the class is resolved again if nothing changes."""
    readiness = "ready" if result.ready else "not ready, so its NodePools launch nothing"
    if result.deleting:
        readiness = "being deleted, and stays until its NodeClaims are gone"
    message = f": {result.message}" if result.message else ""
    return "\n".join(
        [
            f"### EC2NodeClass {name} is {readiness}",
            "",
            f"- Generation {result.generation}{message}",
            f"- Resolved again {time_text(next_at)}, or when it changes",
            "",
            "#### What you can send",
            "",
            "- Signal `poke`: resolves it at once, for example after you tagged a subnet.",
        ]
    )
