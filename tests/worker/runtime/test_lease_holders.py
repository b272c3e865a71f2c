"""Whose Leases make Tenon stand by: those of controllers of nodes, and not those of tenants (OPS-04)."""

from __future__ import annotations

import asyncio

import pytest

from activities import metrics
from tests.worker.runtime.lease_api import stop, virtually
from tests.worker.runtime.rival_leases import ELSEWHERE, TENANT, US, UUID, Leases, WrittenEvents, rivals


def test_ops04_a_tenants_lease_never_makes_tenon_stand_by(caplog: pytest.LogCaptureFixture) -> None:
    """Kubernetes' role `edit` may write Leases. Tenon says that it goes on, once a minute and not at each renewal."""
    events = WrittenEvents()

    async def main() -> None:
        leases = Leases()
        leases.add_pod("tenant", "web-7d", "default", may_write=False)
        others = rivals(leases, events)
        looking = asyncio.create_task(others.run())
        for second in range(45):
            holder = ("karpenter-7d_1f", "web-7d_1f", "", "../../nodes_1f", "x" * 9000, "tenon/web-7d_7")[second % 6]
            leases.renew(TENANT, holder)
            await asyncio.sleep(1)
            assert not others.stand_by(False)
        assert metrics.IGNORED_LEASES._value.get() == 1
        del leases.leases[TENANT]
        await asyncio.sleep(2.1)
        assert metrics.IGNORED_LEASES._value.get() == 0
        assert set(leases.read) == {("tenant", "karpenter-7d"), ("tenant", "web-7d")}
        await stop(looking)

    virtually(main)
    assert [reason for _, reason, _ in events.events] == ["LeaseIgnored"]
    assert "STAND_BY_NAMESPACES" in events.events[0][2]
    assert len([record for record in caplog.records if "does not stand by" in record.message]) == 1


def test_ops04_a_pod_that_may_write_nodeclaims_makes_tenon_stand_by_from_any_namespace() -> None:
    async def main() -> None:
        leases = Leases()
        leases.add_pod("apps", "karpenter-7d-x2x4k", "karpenter", may_write=True)
        others = rivals(leases)
        karpenter = asyncio.create_task(leases.renewing(ELSEWHERE, f"karpenter-7d-x2x4k_{UUID}"))
        looking = asyncio.create_task(others.run())
        await asyncio.sleep(1)
        assert others.stand_by(False)
        await asyncio.sleep(24)
        assert (len(leases.read), len(leases.reviews)) == (1, 1), "renewals alone ask nothing"
        groups = ["system:serviceaccounts", "system:serviceaccounts:apps", "system:authenticated"]
        assert leases.reviews[0]["groups"] == groups
        leases.pods.clear()  # it was killed, and another replica may take its Lease soon
        await stop(karpenter)
        await asyncio.sleep(10)
        assert others.stand_by(False)
        leases.renew(ELSEWHERE, "", 1)
        await asyncio.sleep(10)
        assert others.stand_by(False), "a release does not end what is known about the Lease"
        await asyncio.sleep(10)
        assert not others.stand_by(False)
        await stop(looking)

    virtually(main)


def test_ops04_a_lease_in_the_name_of_a_pod_that_is_gone_soon_counts_no_more() -> None:
    async def main() -> None:
        leases = Leases()
        leases.add_pod("apps", "karpenter-7d", "karpenter", may_write=True)
        others = rivals(leases)
        tasks = asyncio.create_task(leases.renewing(ELSEWHERE, "karpenter-7d_1f")), asyncio.create_task(others.run())
        await asyncio.sleep(1)
        assert others.stand_by(False)
        leases.pods["apps", "karpenter-7d"]["status"]["phase"] = "Succeeded"
        await asyncio.sleep(35)
        assert not others.stand_by(False)
        await stop(*tasks)

    virtually(main)


def test_ops04_each_new_holder_of_a_lease_is_judged_at_once_and_for_itself() -> None:
    """A tenant's Pod may take a Lease before or after a Karpenter."""

    async def main() -> None:
        leases = Leases()
        leases.add_pod("apps", "web-7d", "default", may_write=False)
        leases.add_pod("apps", "karpenter-7d", "karpenter", may_write=True)
        others = rivals(leases)
        for holder, counts in (("web-7d_1f", False), ("karpenter-7d_1f", True), ("web-7d_1f", False)):
            leases.renew(ELSEWHERE, holder)
            await others.check()
            assert others.stand_by(False) is counts

    virtually(main)


@pytest.mark.parametrize("verb", ["patch", "update"])
def test_ops04_a_pod_that_may_write_nodeclaims_by_either_verb_counts(verb: str) -> None:
    async def main() -> None:
        leases = Leases()
        leases.verb = verb
        leases.add_pod("apps", "karpenter-7d", "karpenter", may_write=True)
        others = rivals(leases)
        leases.renew(ELSEWHERE, "karpenter-7d_1f")
        await others.check()
        assert others.stand_by(False)

    virtually(main)


def test_ops04_a_pod_that_ended_just_after_its_last_renewal_counts_until_its_lease_expires() -> None:
    """Another replica takes the Lease in seconds. If Tenon began in between, both would buy."""

    async def main() -> None:
        leases = Leases()
        leases.add_pod("apps", "karpenter-7d", "karpenter", may_write=True)
        others = rivals(leases)
        for _ in range(15):
            leases.renew(ELSEWHERE, "karpenter-7d_1f")
            await others.check()
            await asyncio.sleep(2)
        leases.renew(ELSEWHERE, "karpenter-7d_1f")
        leases.pods.clear()
        requests = len(leases.read)
        for _ in range(7):
            await others.check()
            assert others.stand_by(False)
            await asyncio.sleep(2)
        assert len(leases.read) == requests + 1, "it was known that the Pod is gone"
        await asyncio.sleep(2)
        await others.check()
        assert not others.stand_by(False)

    virtually(main)


def test_ops04_many_false_leases_do_not_hide_karpenters() -> None:
    """Each check asks about a few of them only, those first that it never asked about."""

    async def main() -> None:
        leases = Leases()
        leases.add_pod("apps", "karpenter-7d", "karpenter", may_write=True)
        others = rivals(leases)
        for number in range(100):
            leases.renew((f"tenant-{number}", US[1]), "karpenter-0_1f")
        leases.renew(ELSEWHERE, "karpenter-7d_1f")
        await others.check()
        assert len(leases.read) == 8
        for _ in range(13):
            await asyncio.sleep(31)  # and the first ones are due again
            for number in range(100):
                leases.renew((f"tenant-{number}", US[1]), "karpenter-0_1f")
            leases.renew(ELSEWHERE, "karpenter-7d_1f")
            await others.check()
        assert others.stand_by(False)

    virtually(main)


def test_ops04_without_the_right_to_ask_tenon_stands_by_for_a_pod(caplog: pytest.LogCaptureFixture) -> None:
    """An older ClusterRole lacks the right. To buy nodes that Karpenter buys too would be worse than to wait."""

    async def main() -> None:
        leases = Leases()
        leases.may_review = False
        leases.add_pod("apps", "karpenter-7d", "karpenter", may_write=True)
        others = rivals(leases)
        leases.renew(ELSEWHERE, "karpenter-7d_1f")
        await others.check()
        assert others.stand_by(False)

    virtually(main)
    assert any("create of subjectaccessreviews" in record.message for record in caplog.records)
