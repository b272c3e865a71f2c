"""Standing by while a Karpenter, or another Tenon, leads, in virtual time (OPS-04, SET-12)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from activities.kubernetes.errors import ApiUnreachable, Forbidden
from tests.cache.test_lease import Api, forever, stop, virtually
from worker.lease import LeaseElection
from worker.rivals import Rivals

KARPENTER = ("kube-system", "karpenter-leader-election")
US = ("tenon", "karpenter-leader-election")


class Leases:
    """The Leases of a whole cluster, as ``list`` gives them."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 0
        self.failure: Exception | None = None
        self.asked: list[str] = []

    async def list(self, resource: Any, *, field_selector: str) -> list[dict[str, Any]]:
        self.asked.append(field_selector)
        if self.failure is not None:
            raise self.failure
        return [lease for (_, name), lease in self.found.items() if field_selector == f"metadata.name={name}"]

    def renew(self, key: tuple[str, str], holder: str, seconds: int | None = 15) -> None:
        self.version += 1
        metadata = {"namespace": key[0], "name": key[1], "resourceVersion": str(self.version)}
        # The clock of a holder may be wrong by years: nothing here may depend on it.
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": "1999-01-01T00:00:00.000000Z"}
        self.found[key] = {"metadata": metadata, "spec": spec}

    async def renewing(self, key: tuple[str, str], holder: str) -> None:
        while True:
            self.renew(key, holder)
            await asyncio.sleep(2)


class Told:
    """The events that were written."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    async def publish(self, about: Any, reason: str, message: str, type_: str = "Normal") -> bool:
        self.events.append((about["metadata"]["namespace"], reason, message))
        return True


def rivals(leases: Leases, told: Told | None = None, own: tuple[str, str] = US) -> Rivals:
    return Rivals(cast("Any", leases), cast("Any", told or Told()), namespace=own[0], name=own[1])


def test_ops04_tenon_stands_by_while_karpenter_leads_and_begins_when_its_lease_has_run_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says so once, with the holder's name, in the log and on the Lease."""
    told = Told()

    async def main() -> None:
        api, leases = Api(), Leases()
        others = rivals(leases, told)
        election = LeaseElection(cast("Any", api), namespace="tenon", identity="tenon/a", stand_by=others.stand_by)
        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter-7d_1f"))
        looking, leading = asyncio.create_task(others.run()), asyncio.create_task(election.run(forever))
        await asyncio.sleep(120)
        assert (election.leading, api.lease) == (False, None), "nor is the Lease taken"
        await stop(karpenter)
        killed = asyncio.get_running_loop().time()
        while not election.leading:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert 13 <= asyncio.get_running_loop().time() - killed <= 21
        await stop(looking, leading)

    caplog.set_level("INFO")
    virtually(main)
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if "stands by" in line]) == 1
    assert "Karpenter (karpenter-7d_1f) leads by the Lease kube-system/karpenter-leader-election" in caplog.text
    ((namespace, reason, message),) = told.events
    assert (namespace, reason) == ("kube-system", "StandingBy")
    assert "begins by itself" in message


def test_ops04_a_released_lease_is_nobodys_at_the_next_look() -> None:
    async def main() -> None:
        leases = Leases()
        others = rivals(leases)
        leases.renew(KARPENTER, "karpenter")
        looking = asyncio.create_task(others.run())
        await asyncio.sleep(1)
        assert others.stand_by(False)
        leases.renew(KARPENTER, "", 1)
        await asyncio.sleep(2)
        assert not others.stand_by(False)
        await stop(looking)

    virtually(main)


def test_ops04_tenon_stops_leading_when_karpenter_comes_back() -> None:
    async def main() -> None:
        api, leases = Api(), Leases()
        others = rivals(leases)
        election = LeaseElection(cast("Any", api), namespace="tenon", identity="tenon/a", stand_by=others.stand_by)
        looking, leading = asyncio.create_task(others.run()), asyncio.create_task(election.run(forever))
        await asyncio.sleep(10)
        assert election.leading
        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter"))
        await asyncio.sleep(4.1)
        assert (election.leading, api.holder) == (False, ""), "its own Lease is released"
        await stop(karpenter, looking, leading)

    virtually(main)


def test_a_lease_says_that_it_is_tenons_while_tenon_holds_it() -> None:
    async def main() -> None:
        api = Api()
        election = api.election("tenon/a")
        task = asyncio.create_task(election.run(forever))
        await asyncio.sleep(5)
        assert api.lease is not None
        assert api.lease["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "tenon"}
        await stop(task)
        assert api.lease["metadata"]["labels"] == {}

    virtually(main)


def test_ops04_the_own_lease_is_a_rivals_while_karpenter_holds_it() -> None:
    """Installed in Karpenter's own namespace, both share one Lease: the io process must not act either."""

    async def main() -> None:
        leases = Leases()
        others = rivals(leases)
        leases.renew(US, "karpenter-5f_2")
        await others.look()
        assert others.stand_by(False)
        assert str(others.rival).startswith("Karpenter (karpenter-5f_2)")
        leases.renew(US, "tenon/another-replica_1")
        await others.look()
        assert not others.stand_by(False)

    virtually(main)


def test_ops04_of_two_tenons_that_lead_the_first_by_name_goes_on() -> None:
    async def main() -> None:
        leases = Leases()
        elsewhere = ("apps", "karpenter-leader-election")
        here, there = rivals(leases), rivals(leases, own=elsewhere)
        leases.renew(US, "tenon/here")
        leases.renew(elsewhere, "tenon/there")
        await here.look()
        await there.look()
        assert (here.stand_by(True), there.stand_by(True)) == (True, False)
        assert here.stand_by(False)
        assert there.stand_by(False), "who does not lead yet lets the other go on"
        leases.renew(KARPENTER, "karpenter")
        await there.look()
        assert there.stand_by(True), "Karpenter gives way to nobody"

    virtually(main)


@pytest.mark.parametrize("failure", [Forbidden(403, "Forbidden", "leases is forbidden"), ApiUnreachable("x", "gone")])
def test_what_cannot_be_seen_is_not_taken_for_nobody(failure: Exception) -> None:
    """Without the right to list Leases Tenon is not ready and does nothing; an outage later changes nothing."""

    async def main() -> None:
        leases = Leases()
        leases.failure = failure
        others = rivals(leases)
        await others.look()
        assert others.stand_by(False)
        assert "cannot be listed" in others.unseen
        leases.failure = None
        await others.look()
        assert (others.stand_by(False), others.unseen) == (False, "")
        leases.failure = failure
        await others.look()
        assert not others.stand_by(True)

    virtually(main)


def test_set12_a_lease_of_a_name_of_ones_own_is_looked_for_beside_karpenters() -> None:
    async def main() -> None:
        leases = Leases()
        await rivals(leases, own=("tenon", "nodes")).look()
        assert sorted(leases.asked) == ["metadata.name=karpenter-leader-election", "metadata.name=nodes"]

    virtually(main)


def test_work_runs_only_while_nobody_else_leads() -> None:
    async def main() -> None:
        leases = Leases()
        others = rivals(leases)
        running: list[str] = []

        async def work() -> None:
            running.append("begun")
            try:
                await forever()
            finally:
                running.append("ended")

        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter"))
        tasks = asyncio.create_task(others.run()), asyncio.create_task(others.serve(work))
        await asyncio.sleep(30)
        assert running == []
        await stop(karpenter)
        await asyncio.sleep(20)
        assert running == ["begun"]
        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter"))
        await asyncio.sleep(5)
        assert running == ["begun", "ended"]
        await stop(karpenter)
        await asyncio.sleep(20)
        assert running == ["begun", "ended", "begun"]
        await stop(*tasks)

    virtually(main)
