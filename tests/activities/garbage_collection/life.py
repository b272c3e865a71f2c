"""Stands in for a node's workflow: rests until it is told that claim or instance is gone. One is deaf to all."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from tenon.messages.node import Poke
    from tenon.node.state import NodeClaimInput


@workflow.defn(name="NodeClaim")
class Life:
    """Ends with the reason of the poke that it was waiting for."""

    def __init__(self) -> None:
        self.pokes: list[Poke] = []

    @workflow.run
    async def run(self, begin: NodeClaimInput) -> str:
        deaf = begin.claim.uid == "deaf"
        await workflow.wait_condition(lambda: not deaf and any(p.claim_deleting or p.instance_gone for p in self.pokes))
        return self.pokes[-1].reason

    @workflow.signal
    def poke(self, poke: Poke) -> None:
        self.pokes.append(poke)
