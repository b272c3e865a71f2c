"""A leader that Temporal does not answer gives its Lease up, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.worker.runtime.lease_api import Api, forever, stop, virtually
from worker.runtime.election.lease import LeaseElection
from worker.runtime.election.temporal_isolation import PATIENCE, STANDS_BACK, TemporalIsolation


class Replica:
    """One that takes part in the election, and may be cut off from Temporal."""

    def __init__(self, api: Api, identity: str) -> None:
        self.cut_off = TemporalIsolation(asyncio.get_running_loop().time)
        self.election = LeaseElection(
            cast("Any", api), namespace="tenon", identity=identity, stand_by=self.cut_off.stand_by
        )
        self.task = asyncio.create_task(self.election.run(forever))

    @property
    def leading(self) -> bool:
        return self.election.leading


async def leads(replica: Replica) -> None:
    while not replica.leading:  # noqa: ASYNC110
        await asyncio.sleep(0.5)


def test_a_leader_that_alone_is_cut_off_from_temporal_is_followed_by_another() -> None:
    """It held the Lease for ever, and nothing was planned although another replica could."""

    async def main() -> None:
        api, loop = Api(), asyncio.get_running_loop()
        first = Replica(api, "a")
        await leads(first)
        second = Replica(api, "b")
        await asyncio.sleep(30)
        first.cut_off.note(True)
        lost = loop.time()
        await asyncio.sleep(25)
        first.cut_off.note(False)
        await leads(second)
        assert PATIENCE <= loop.time() - lost <= PATIENCE + 10
        assert not first.leading
        await asyncio.sleep(600)
        assert second.leading
        await stop(first.task, second.task)

    virtually(main)


def test_a_short_outage_of_temporal_takes_the_lead_from_no_one() -> None:
    async def main() -> None:
        first = Replica(Api(), "a")
        await leads(first)
        for _ in range(10):
            first.cut_off.note(False)
            await asyncio.sleep(PATIENCE - 5)
            assert first.leading
            first.cut_off.note(True)
            await asyncio.sleep(5)
        await stop(first.task)

    virtually(main)


def test_while_temporal_is_away_for_all_the_lead_passes_on_more_and_more_slowly() -> None:
    """An outage of three hours costs some twenty changes, and somebody leads nearly all the time."""

    async def main() -> None:
        api = Api()
        replicas = [Replica(api, "a"), Replica(api, "b")]
        for replica in replicas:
            replica.cut_off.note(False)
        led = 0
        for _ in range(180):
            await asyncio.sleep(60)
            led += any(replica.leading for replica in replicas)
        assert api.lease is not None
        assert 5 < api.lease["spec"]["leaseTransitions"] < 25
        assert led > 160
        await stop(*(replica.task for replica in replicas))

    virtually(main)


def test_one_that_gave_up_takes_the_lease_again_as_soon_as_temporal_answers() -> None:
    """With a single replica nobody else does."""

    async def main() -> None:
        only, loop = Replica(Api(), "a"), asyncio.get_running_loop()
        await leads(only)
        only.cut_off.note(False)
        while only.leading:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        only.cut_off.note(True)
        time = loop.time()
        await leads(only)
        assert loop.time() - time <= 5
        only.cut_off.note(True)
        only.cut_off.note(False)
        while only.leading:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        gave_up = loop.time()
        await leads(only)
        assert STANDS_BACK - 5 <= loop.time() - gave_up <= STANDS_BACK + 5
        await stop(only.task)

    virtually(main)
