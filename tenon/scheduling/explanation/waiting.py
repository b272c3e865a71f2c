"""What events, commands and pages say of a pod without a node: the same sentence, and the command that says more."""

from __future__ import annotations

from enum import StrEnum

from tenon.kube.pool_reasons import NoPlace
from tenon.sentences import shortened

MAX_EVENT = 1024
"""The longest message of an event. A reason with many NodePools is cut, not the command that shows all of it."""


class WaitsFor(StrEnum):
    """What a pod without a node waits for."""

    NOTHING_FITS = "nothing fits"
    """No NodePool may buy a node that it fits on, or none that it accepts now."""
    PURCHASE = "purchase"
    """Tenon buys a node for it in the next batch."""
    NODE = "node"
    """A node was bought for it, or an existing one has room."""
    NEXT_BATCH = "next batch"
    """The NodeClaim that was created for it got no instance."""


_BEGINS = {
    WaitsFor.NOTHING_FITS: "no node is bought for",
    WaitsFor.PURCHASE: "a node is bought for",
    WaitsFor.NODE: "a node is there or on its way for",
    WaitsFor.NEXT_BATCH: "the next batch plans a node for",
}


def beginning(waits_for: WaitsFor, pods: str = "the pod") -> str:
    """Return how the sentence about these pods begins: 'No node is bought for 2 pods'."""
    text = f"{_BEGINS[waits_for]} {pods}"
    return f"{text[0].upper()}{text[1:]}"


def waiting_text(waits_for: WaitsFor, why: NoPlace | str, pods: str = "the pod") -> str:
    """Return the whole sentence, without a period. ``why``: with a clause for each NodePool, if nothing fits."""
    return f"{beginning(waits_for, pods)}: {why}"


def event_message(why: NoPlace, key: str) -> tuple[str, NoPlace]:
    """Return the message of the event about a pod, ``namespace/name``, for which no node is bought.

    Also the part of the reason that the message says.
    """
    more = f"; `{explain_command(key)}` says more"
    room = MAX_EVENT - len(more) - len(waiting_text(WaitsFor.NOTHING_FITS, ""))
    fitting = why.shortened(room)
    return waiting_text(WaitsFor.NOTHING_FITS, shortened(str(fitting), room)) + more, fitting


def explain_command(key: str) -> str:
    """Return the command that plans a pod against the cluster as it is now. ``key``: ``namespace/name``."""
    return f"tenon explain pod {key}"


def why_command(key: str) -> str:
    """Return the command that says what happened to a pod so far: plans, events, and what it waits for."""
    return f"tenon why pod/{key}"
