"""The page in Temporal's UI of the workflow that starts when a NodeSchedule changes what holds."""

from __future__ import annotations

from tenon.messages.node_schedule import NodeScheduleInput, NodeScheduleResult

WHY = "The clock or a person changes what this NodeSchedule asks for"
ABOUT = """This workflow tells the worker that the clock changes what a NodeSchedule asks for. A Schedule of Temporal
with the same name starts it at each of these times, and when the NodeSchedule is new or changes. Its result and Current
Details say what holds then.

To suspend the NodeSchedule, pause that Schedule: the NodeSchedule asks for nothing while it is paused. If Temporal is
away, the worker goes by the clock alone.

It needs nothing from you."""


def first_input(cluster: str, name: str) -> NodeScheduleInput:
    """Return the input of every run for a NodeSchedule."""
    return NodeScheduleInput(
        headline=f"Carries out NodeSchedule {name} of cluster {cluster}", why=WHY, cluster=cluster, name=name
    )


def current_details(result: NodeScheduleResult) -> str:
    """Render what holds as Markdown."""
    if not result.exists:
        return "It asks for nothing: it is gone, suspended or not valid."
    rows = [f"| {pool.name} | {pool.holds} | {pool.until or '-'} | {pool.nodes} |" for pool in result.pools]
    table = ["| NodePool | Holds | Until | NodeClaims now |", "|---|---|---|---|", *rows] if rows else []
    buffers = [f"- CapacityBuffer {key}: {replicas} replicas" for key, replicas in sorted(result.buffers.items())]
    return "\n".join([*table, *([""] if table and buffers else []), *buffers]) or "It asks for nothing now."
