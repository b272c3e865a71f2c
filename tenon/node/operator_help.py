"""What people can send to a node's workflow, and what that does: for Temporal's dialogs and the node's page."""

from __future__ import annotations

from collections.abc import Collection

_EXAMPLE = '{"by": "ann", "reason": "its disk is slow", "ticket": "OPS-12"}'
_KEEP_EXAMPLE = '{"until": "2030-01-31T18:00:00Z", "by": "ann", "reason": "a debugger is attached"}'
_WHO = f"Input: {_EXAMPLE}"

DRAIN = (
    "Removes the node: keeps new pods away, evicts its pods within their PodDisruptionBudgets, and then terminates the "
    "instance. Pods that may not be evicted block it until terminationGracePeriod ends."
)
FORCE_DRAIN = (
    "DANGER: deletes all pods of the node at once, whatever protects them, and then terminates the instance. Also ends "
    "a drain that is blocked."
)
EXPIRE = "Removes the node now, as if its expireAfter had passed: drains it like `drain`."
KEEP = (
    "Protects the node from disruption and expiry until a time. EC2's interruptions, node repair and a deletion still "
    "remove it."
)
REBOOT = "Sent by `tenon node reboot` and by node repair: reboots the machine in place."
DISRUPT = "Sent by Tenon: a disruption command asks the node to leave."
POKE = (
    "Sent by Tenon: the Node, the NodeClaim or the instance changed. Checks them. Harmless, and never needed by hand."
)

WHO_SIGNAL = f"{_WHO}, or empty."
WHO_UPDATE = f"{_WHO}. The node answers whether it does it."
KEEP_UNTIL = f"Input: {_KEEP_EXAMPLE}"
HINT, KEEP_HINT = f"For example: {_EXAMPLE}.", f"For example: {_KEEP_EXAMPLE}."
"""What a sentence about a wrong input ends with."""
REBOOT_HINT, DISRUPT_HINT = "`tenon node reboot` sends it.", "Tenon sends it."

REQUESTS = {"drain": DRAIN, "force_drain": FORCE_DRAIN, "expire": EXPIRE, "keep": KEEP}
"""What an operator may send, by the name of the signal and of the update."""


def help_lines(requests: Collection[str]) -> list[str]:
    """Return the section of a node's page that says what to send, as Markdown; empty if there is nothing to send.

    Args:
        requests: the names of the requests that the node would do (`tenon.node.operator_requests.offered`).
    """
    if not requests:
        return []
    until = "; `keep` needs `until` too, as its description shows" if "keep" in requests else ""
    cancellation = "Request Cancellation is the same as `drain`. " if "drain" in requests else ""
    return [
        "#### What you can send",
        "",
        "More Actions, then Send an Update, which is answered, or Send a Signal, which waits for a worker:",
        "",
        *(f"- `{name}`: {effect}" for name, effect in REQUESTS.items() if name in requests),
        "",
        # As code, because the UI's Markdown makes other quotes of these, which are no JSON.
        f"Input: `{_EXAMPLE}`{until}.",
        "",
        f"{cancellation}Do not terminate the workflow: Tenon would start it again.",
    ]
