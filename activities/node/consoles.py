"""Explains by the console output of its instance why a Node does not join.

A Node that cannot join says nothing to Kubernetes, so its console is the only witness. What it says is help for a
person: if EC2 does not tell it, because the right is missing or EC2 is away, nothing else changes.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from activities import loggers
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from tenon.ec2.instances.console_output import explain_console
from tenon.kube.claim_record import ClaimRecord

log = loggers.NODECLAIM_LIFECYCLE

READERS = 4
"""Threads that read consoles, which takes up to 0.2 s of computing each. Many instances of a broken EC2NodeClass are
late together, and must not hold up other calls to EC2."""
WITHIN_SECONDS = 10.0
"""How long to wait for EC2's answer."""


class Consoles:
    """Reads consoles of instances whose Nodes are late."""

    def __init__(self, ec2: Ec2Provider, within: float = WITHIN_SECONDS) -> None:
        self._ec2 = ec2
        self._within = within
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="console")

    async def explain(self, claim: ClaimRecord) -> str:
        """What the console of the claim's instance says, as the end of a sentence, with what to do."""
        instance = claim.instance_id
        try:
            async with asyncio.timeout(self._within):
                why = await asyncio.get_running_loop().run_in_executor(
                    self._readers, lambda: explain_console(self._ec2.console_output(instance))
                )
        except EC2Error as error:
            why = f"its console output cannot be read: {error.explained}"
        except TimeoutError:
            why = "its console output was not read in time"
        log.warning(
            "No Node has joined for an instance in time",
            extra={"nodeclaim": claim.name, "instance": instance, "reason": why},
        )
        return why
