"""Standing by while a Karpenter, or another Tenon, leads, in virtual time (OPS-04, SET-12)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from activities.gate import Gate
from activities.kubernetes.errors import ApiUnreachableError, ForbiddenError
from tests.worker.runtime.lease_api import Api, forever, stop, virtually
from tests.worker.runtime.rival_leases import ELSEWHERE, KARPENTER, NOW, US, UUID, Leases, WrittenEvents, rivals
from worker.runtime.election.lease import LeaseElection, is_tenons


class Shared(Api):
    """One Lease for a Karpenter and a Tenon in one namespace: read by name, and found by a list."""

    async def list(self, resource: Any, *, field_selector: str) -> list[dict[str, Any]]:
        self._check()
        if self.lease is None:
            return []
        metadata = {"namespace": US[0], "name": US[1], **self.lease["metadata"]}
        return [{"metadata": metadata, "spec": dict(self.lease["spec"])}]

    def hold(self, holder: str) -> None:
        """As Karpenter writes it: labels and annotations stay as they are."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = self.lease or {"metadata": {}, "spec": {}}
        spec = {**before["spec"], "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": now}
        metadata = before["metadata"]
        self._store(spec, metadata.get("labels"), metadata.get("annotations"))

    async def holding(self, holder: str) -> None:
        while True:
            self.hold(holder)
            await asyncio.sleep(2)


def test_ops04_tenon_stands_by_until_the_lease_of_karpenter_expires(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says so once, with the holder's name, in the log and on the Lease."""
    events = WrittenEvents()

    async def main() -> None:
        api, leases = Api(), Leases()
        others = rivals(leases, events)
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
    (line,) = [vars(record) for record in caplog.records if "stands by" in record.message]
    assert line["message"] == "Another controller leads, and Tenon stands by"
    assert (line["lease"], line["holder"]) == ("kube-system/karpenter-leader-election", "karpenter-7d_1f")
    ((namespace, reason, message),) = events.events
    assert (namespace, reason) == ("kube-system", "StandingBy")
    assert "Karpenter (karpenter-7d_1f) leads by the Lease kube-system/karpenter-leader-election" in message
    assert "starts by itself" in message


def test_ops04_a_released_lease_counts_as_held_for_15_seconds() -> None:
    async def main() -> None:
        leases = Leases()
        others = rivals(leases)
        leases.renew(KARPENTER, "karpenter")
        looking = asyncio.create_task(others.run())
        await asyncio.sleep(1)
        assert others.stand_by(False)
        leases.renew(KARPENTER, "", 1)
        await asyncio.sleep(14)
        assert others.stand_by(False)
        await asyncio.sleep(5)
        assert not others.stand_by(False)
        await stop(looking)

    virtually(main)


@pytest.mark.parametrize("tenths", range(0, 20, 3))
def test_ops04_a_restart_of_karpenter_hands_nothing_to_tenon(tenths: int) -> None:
    """One replica releases on its way out, and another takes the Lease at its next try, whatever the phase."""

    async def main() -> None:
        api, leases = Api(), Leases()
        others = rivals(leases)
        election = LeaseElection(cast("Any", api), namespace="tenon", identity="tenon/a", stand_by=others.stand_by)
        begun: list[str] = []

        async def work() -> None:
            begun.append("begun")
            await forever()

        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter-1"))
        tasks = [asyncio.create_task(part) for part in (others.run(), others.serve(work), election.run(work))]
        await asyncio.sleep(30 + tenths / 10)
        await stop(karpenter)
        leases.renew(KARPENTER, "", 1)
        await asyncio.sleep(1.9)
        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter-2"))
        await asyncio.sleep(30)
        assert begun == []
        await stop(karpenter, *tasks)

    virtually(main)


@pytest.mark.parametrize("tenths", range(0, 20, 3))
def test_ops04_a_restart_of_karpenter_hands_nothing_to_tenon_in_the_same_namespace(tenths: int) -> None:
    """They share a Lease there, and the first holder would keep it; what Tenon released is Tenon's at once."""

    async def main() -> None:
        api = Shared()
        api.hold("")  # there before, and touched by a Tenon: its mark says nothing any more once Karpenter has come
        first = api.election("tenon/first")
        await first.acquire()
        await first.release()
        others = rivals(api)
        election = LeaseElection(cast("Any", api), namespace="tenon", identity="tenon/a", stand_by=others.stand_by)
        await others.check()
        assert not others.stand_by(False)
        karpenter = asyncio.create_task(api.holding(f"karpenter-1_{UUID}"))
        await asyncio.sleep(0.1)
        tasks = [asyncio.create_task(part) for part in (others.run(), election.run(forever))]
        await asyncio.sleep(30 + tenths / 10)
        await stop(karpenter)
        api.hold("")
        await asyncio.sleep(1.9)
        assert api.holder == ""
        karpenter = asyncio.create_task(api.holding(f"karpenter-2_{UUID}"))
        await asyncio.sleep(30)
        assert (election.leading, api.holder) == (False, f"karpenter-2_{UUID}")
        await stop(karpenter)
        api.hold("")
        await asyncio.sleep(20)
        assert (election.leading, api.holder) == (True, "tenon/a")
        await stop(*tasks)

    virtually(main)


@pytest.mark.parametrize(("age", "stands_by"), [(timedelta(minutes=1), True), (timedelta(minutes=16), False)])
def test_a_lease_released_before_the_start_delays_tenon_only_if_it_was_recent(age: timedelta, stands_by: bool) -> None:
    """Karpenter's Lease stays when Karpenter is uninstalled; a node that is drained takes both with it."""

    async def main() -> None:
        leases = Leases()
        leases.renew(KARPENTER, "", 1, (NOW - age).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        others = rivals(leases)
        await others.check()
        assert others.stand_by(False) is stands_by
        if others.rival is not None:
            assert "has just released the Lease kube-system/karpenter-leader-election" in str(others.rival)
        await asyncio.sleep(15)
        await others.check()
        assert not others.stand_by(False)

    virtually(main)


@pytest.mark.parametrize("holder", ["karpenter-7d_1f", ""])
def test_ops04_a_lease_of_years_that_is_never_renewed_blocks_tenon_one_minute(holder: str) -> None:
    """Who may create Leases in a namespace that counts could stop Tenon forever."""

    async def main() -> None:
        leases = Leases()
        others = rivals(leases)
        leases.renew(KARPENTER, holder, 2147483647, at=NOW.isoformat())
        looking = asyncio.create_task(others.run())
        await asyncio.sleep(1)
        assert others.stand_by(False), "it may be a Karpenter's that is about to be renewed"
        while others.stand_by(False):
            leases.leases[KARPENTER]["metadata"]["resourceVersion"] += "0"  # another part of it is written
            await asyncio.sleep(1)
            assert asyncio.get_running_loop().time() <= 65
        leases.renew(KARPENTER, "karpenter-7d_1f", 2147483647)
        await asyncio.sleep(3)
        assert others.stand_by(False), "now it was renewed"
        await stop(looking)

    virtually(main)


def test_an_outage_of_the_api_server_is_no_sign_that_karpenter_is_gone() -> None:
    """It could not renew either; one that had been gone before stays gone."""

    async def main() -> None:
        leases = Leases()
        others = rivals(leases)
        leases.renew(("karpenter", KARPENTER[1]), "dead")
        looking = asyncio.create_task(others.run())
        await asyncio.sleep(20)
        assert not others.stand_by(False)
        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter"))
        await asyncio.sleep(10)
        await stop(karpenter)
        leases.failure = ApiUnreachableError("x", "gone")
        await asyncio.sleep(60)
        leases.failure = None
        await asyncio.sleep(2.1)
        assert others.stand_by(False)
        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter"))
        await asyncio.sleep(30)
        assert others.stand_by(False)
        await stop(karpenter)
        await asyncio.sleep(20)
        assert not others.stand_by(False)
        leases.failure = ApiUnreachableError("x", "gone")
        await asyncio.sleep(60)
        leases.failure = None
        await asyncio.sleep(2.1)
        assert not others.stand_by(False)
        await stop(looking)

    virtually(main)


def test_identities_of_karpenter_and_tenon_are_distinguished() -> None:
    assert is_tenons("tenon/tenon-7d9f-x2x4k_7")
    assert not is_tenons(f"karpenter-6d9f8c7b5-x2x4k_{UUID}")
    assert not is_tenons("")


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
        leases.renew(US, f"karpenter-5f_{UUID}")
        await others.check()
        assert others.stand_by(False)
        assert str(others.rival).startswith(f"Karpenter (karpenter-5f_{UUID})")
        leases.renew(US, "tenon/another-replica_1")
        await others.check()
        assert not others.stand_by(False)

    virtually(main)


def test_ops04_of_two_tenons_that_lead_the_first_by_name_goes_on() -> None:
    async def main() -> None:
        leases = Leases()
        leases.add_pod("tenon", "here", "tenon", may_write=True)
        leases.add_pod("apps", "there", "tenon", may_write=True)
        leader_conflict, present_items = rivals(leases), rivals(leases, own=ELSEWHERE)
        leases.renew(US, "tenon/here_7")
        leases.renew(ELSEWHERE, "tenon/there_7")
        await leader_conflict.check()
        await present_items.check()
        assert (leader_conflict.stand_by(True), present_items.stand_by(True)) == (True, False)
        assert leader_conflict.stand_by(False)
        assert present_items.stand_by(False), "who does not lead yet lets the other go on"
        leases.renew(KARPENTER, "karpenter")
        await present_items.check()
        assert present_items.stand_by(True), "Karpenter gives way to nobody"

    virtually(main)


@pytest.mark.parametrize(
    "failure", [ForbiddenError(403, "Forbidden", "leases is forbidden"), ApiUnreachableError("x", "gone")]
)
def test_leases_that_cannot_be_listed_do_not_count_as_absent(failure: Exception) -> None:
    """Without the right to list Leases Tenon is not ready and does nothing; an outage later changes nothing."""

    async def main() -> None:
        leases = Leases()
        leases.failure = failure
        others = rivals(leases)
        await others.check()
        assert others.stand_by(False)
        assert "cannot list Leases" in others.unseen
        assert ("resourceNames [karpenter-leader-election]" in others.unseen) is isinstance(failure, ForbiddenError)
        leases.failure = None
        await others.check()
        assert (others.stand_by(False), others.unseen) == (False, "")
        leases.failure = failure
        await others.check()
        assert not others.stand_by(True)

    virtually(main)


def test_set12_a_lease_of_another_name_is_checked_next_to_karpenters() -> None:
    async def main() -> None:
        leases = Leases()
        await rivals(leases, own=("tenon", "nodes")).check()
        assert sorted(leases.requests) == ["metadata.name=karpenter-leader-election", "metadata.name=nodes"]

    virtually(main)


def test_work_runs_only_while_no_other_controller_leads() -> None:
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


def test_ops04_the_gate_is_open_only_while_it_is_known_that_no_other_controller_leads() -> None:
    async def main() -> None:
        leases, gate = Leases(), Gate()
        others = rivals(leases, gate=gate)
        assert "has not checked yet" in gate.why
        looking = asyncio.create_task(others.run())
        await asyncio.sleep(1)
        assert gate.why == ""
        karpenter = asyncio.create_task(leases.renewing(KARPENTER, "karpenter-7d_1f"))
        await asyncio.sleep(2.1)
        assert gate.why.startswith("Karpenter (karpenter-7d_1f) leads by the Lease kube-system/")
        await stop(karpenter)
        await asyncio.sleep(20)
        assert gate.why == ""
        await stop(looking)

    virtually(main)


def test_ops04_the_gate_closes_when_the_leases_could_not_be_read_for_half_a_minute() -> None:
    """A process that is cut off from the API server must not buy at EC2 what another controller may buy too."""

    async def main() -> None:
        leases, gate = Leases(), Gate()
        others = rivals(leases, gate=gate)
        looking = asyncio.create_task(others.run())
        await asyncio.sleep(1)
        leases.failure = ApiUnreachableError("x", "gone")
        await asyncio.sleep(25)
        assert (gate.why, others.why_unknown()) == ("", "")
        await asyncio.sleep(10)
        assert "could not be read for" in gate.why
        assert others.why_unknown() == gate.why, "the readiness probe says so"
        leases.failure = None
        await asyncio.sleep(2.1)
        assert (gate.why, others.why_unknown()) == ("", "")
        leases.renew(KARPENTER, "karpenter-7d_1f")
        await asyncio.sleep(2.1)
        assert gate.why
        assert others.why_unknown() == "", "a worker that stands by is ready"
        await stop(looking)

    virtually(main)
