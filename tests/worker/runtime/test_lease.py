"""Leader election by a Lease, in virtual time (SET-12, OPS-04)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.errors import ApiUnreachableError
from tests.worker.runtime.lease_api import NAME, Api, forever, stop, virtually


class Cable:
    """One replica's own connection to the API, which can break alone."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        if self.broken:
            raise ApiUnreachableError("https://x", "broken cable")
        return getattr(self._api, name)


def test_one_replica_leads_and_keeps_leading() -> None:
    async def main() -> None:
        api = Api()
        elections = [api.election(name) for name in ("a", "b", "c")]
        tasks = [asyncio.create_task(election.run(forever)) for election in elections]
        for _ in range(50):
            await asyncio.sleep(3)
            assert [election.leading for election in elections] == [True, False, False]
        await stop(*tasks)

    virtually(main)


def test_met61_a_replica_reports_whether_it_leads() -> None:
    async def main() -> None:
        election = Api().election("a")
        task = asyncio.create_task(election.run(forever))
        assert REGISTRY.get_sample_value("leader_election_master_status", {"name": NAME}) == 0
        await asyncio.sleep(3)
        assert REGISTRY.get_sample_value("leader_election_master_status", {"name": NAME}) == 1
        await stop(task)
        assert REGISTRY.get_sample_value("leader_election_master_status", {"name": NAME}) == 0

    virtually(main)


def test_a_release_hands_over_at_the_next_pass() -> None:
    async def main() -> None:
        api = Api()
        first, second = api.election("a"), api.election("b")
        item, two = (asyncio.create_task(election.run(forever)) for election in (first, second))
        await asyncio.sleep(5)
        await stop(item)
        assert (api.holder, first.leading) == ("", False)
        await asyncio.sleep(2.1)
        assert (api.holder, second.leading) == ("b", True)
        assert api.lease is not None
        assert api.lease["spec"]["leaseTransitions"] == 1
        await stop(two)

    virtually(main)


def test_a_holder_cut_off_stops_before_another_takes_over() -> None:
    async def main() -> None:
        api = Api()
        loop = asyncio.get_running_loop()
        cable = Cable(api)
        first, second = api.election("a", cable), api.election("b")
        ended: list[float] = []

        async def lead() -> None:
            try:
                await forever()
            finally:
                ended.append(loop.time())

        task = asyncio.create_task(first.run(lead))
        await asyncio.sleep(1)
        two = asyncio.create_task(second.run(forever))
        await asyncio.sleep(20)
        cable.broken = True
        began = loop.time()
        while not second.leading:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        assert 8 <= ended[0] - began <= 12.1
        assert ended[0] < loop.time() <= began + 19
        cable.broken = False
        await asyncio.sleep(10)
        assert (first.leading, second.leading) == (False, True)
        await stop(task, two)

    virtually(main)


def test_a_lease_taken_by_another_is_given_up_at_once() -> None:
    async def main() -> None:
        api = Api()
        election = api.election("a")
        task = asyncio.create_task(election.run(forever))
        await asyncio.sleep(5)
        assert api.lease is not None
        api._store({**api.lease["spec"], "holderIdentity": "usurper"})
        await asyncio.sleep(2.1)
        assert not election.leading
        assert api.holder == "usurper", "what is not ours is not released"
        await asyncio.sleep(20)
        assert election.leading, "the usurper never renewed"
        await stop(task)

    virtually(main)


def test_what_the_leader_raises_comes_out_after_the_release() -> None:
    async def main() -> None:
        api = Api()

        async def lead() -> None:
            raise RuntimeError("broken")

        with pytest.raises(RuntimeError, match="broken"):
            await api.election("a").run(lead)
        assert api.holder == ""

    virtually(main)


def test_an_api_server_away_at_the_start_is_awaited() -> None:
    async def main() -> None:
        api = Api()
        api.down = True
        election = api.election("a")
        task = asyncio.create_task(election.run(forever))
        await asyncio.sleep(60)
        assert not election.leading
        api.down = False
        await asyncio.sleep(2.1)
        assert election.leading
        await stop(task)

    virtually(main)


@pytest.mark.parametrize("way", ["down", "hangs"])
def test_a_leader_outlives_an_api_server_that_is_away_for_minutes(way: str, caplog: pytest.LogCaptureFixture) -> None:
    """It stops leading, stands by and leads again; the log tells each of these once."""

    async def main() -> None:
        api = Api()
        election = api.election("a")
        begun: list[int] = []

        async def lead() -> None:
            begun.append(len(begun))
            await forever()

        task = asyncio.create_task(election.run(lead))
        await asyncio.sleep(5)
        setattr(api, way, True)
        await asyncio.sleep(12.1)
        assert not election.leading
        await asyncio.sleep(300)
        assert not task.done()
        setattr(api, way, False)
        await asyncio.sleep(12.1)
        assert (election.leading, begun) == (True, [0, 1])
        await stop(task)

    caplog.set_level("INFO")
    virtually(main)
    records = [record.getMessage() for record in caplog.records]
    assert len([line for line in records if "lost the Lease" in line]) == 1
    assert len([line for line in records if "failed to read or write the Lease" in line]) <= 1
    assert len([line for line in records if line == "This replica leads"]) == 2


def test_a_slow_answer_does_not_stretch_the_time_that_others_count() -> None:
    """They see the write when it is made; a holder that counts from the answer would lead next to them."""

    async def main() -> None:
        api = Api()
        loop = asyncio.get_running_loop()
        election = api.election("a")
        task = asyncio.create_task(election.run(forever))
        await asyncio.sleep(5)
        api.slow = 9.0
        version = api.version
        while api.version == version:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        written = loop.time()
        await asyncio.sleep(9.2)
        api.down = True
        while election.leading:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert loop.time() - written <= 12.2, "before the fifteen seconds of others are over"
        await stop(task)

    virtually(main)


def test_a_leader_that_stumbles_on_its_way_out_stands_by_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """Temporal may be away together with the API server, and say so while the worker is shut down."""

    async def main() -> None:
        api = Api()
        election = api.election("a")

        async def lead() -> None:
            try:
                await forever()
            finally:
                raise RuntimeError("no farewell")

        task = asyncio.create_task(election.run(lead))
        await asyncio.sleep(5)
        api.down = True
        await asyncio.sleep(30)
        assert (task.done(), election.leading) == (False, False)
        api.down = False
        await asyncio.sleep(2.1)
        assert election.leading
        await stop(task)

    virtually(main)
    assert "no farewell" in caplog.text


def test_a_killed_leader_is_followed_when_its_lease_has_run_out() -> None:
    """SIGKILL releases nothing: others wait out the fifteen seconds, and not much longer."""

    async def main() -> None:
        api = Api()
        loop = asyncio.get_running_loop()
        cable = Cable(api)
        first, second = api.election("a", cable), api.election("b")
        task = asyncio.create_task(first.run(forever))
        await asyncio.sleep(1)
        two = asyncio.create_task(second.run(forever))
        await asyncio.sleep(20)
        cable.broken = True
        await stop(task)
        killed = loop.time()
        assert api.holder == "a"
        while not second.leading:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert 12.9 <= loop.time() - killed <= 17.1
        await stop(two)

    virtually(main)


def test_leading_that_is_cancelled_from_within_is_started_again() -> None:
    """A Temporal worker that cannot begin cancels the task around it: no reason to end the process."""

    async def main() -> None:
        api = Api()
        begun: list[int] = []

        async def lead() -> None:
            begun.append(len(begun))
            if len(begun) == 1:
                raise asyncio.CancelledError
            await forever()

        election = api.election("a")
        task = asyncio.create_task(election.run(lead))
        await asyncio.sleep(5)
        assert (begun, election.leading, task.done()) == ([0, 1], True, False)
        await stop(task)

    virtually(main)
