"""When a NodePool that EC2 refuses is tried again, and what the reports of io processes make of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.refusals.unavailable import (
    MAX_GROUPS,
    MAX_REPORTED,
    UnavailableOfferings,
    backoffs_of,
    by_offering,
    grouped,
    shortages,
    shortages_of,
)
from tenon.kube.offerings import OfferingKey
from tenon.messages.provisioning import LaunchBreaker, LaunchReport
from tenon.node.launch_breaker import UNTRIED_FOR, ended_booting, holds_back, key_of, merged, refused, untried
from tenon.node.launch_retry import LAUNCH_TIMEOUT, MAX_PAUSE, should_give_up

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def opened(pool: str = "web", at: datetime = NOW) -> LaunchBreaker:
    return refused(None, pool, "Unauthorized", "you may not", at)


def test_probes_grow_rare_up_to_every_20_seconds() -> None:
    """Two launches and seven probes in two minutes; after the fault ends the next one is at most 20 seconds away."""
    breaker, now, probes = opened(), NOW, [0.0]
    for _ in range(7):
        now = breaker.next_probe_at
        probes.append((now - NOW).total_seconds())
        breaker = refused(breaker, "web", "Unauthorized", "still not", now)
    assert probes == [0, 5, 15, 35, 55, 75, 95, 115]
    assert (breaker.failures, breaker.opened_at, breaker.message) == (8, NOW, "still not")
    assert breaker.next_probe_at - now == MAX_PAUSE


def test_a_late_answer_of_an_earlier_launch_puts_no_probe_off() -> None:
    breaker = opened()
    assert refused(breaker, "web", "Unauthorized", "late", NOW + timedelta(seconds=1)) == breaker


def test_a_refusal_of_types_holds_no_other_types_back() -> None:
    breaker = refused(None, "web", "InvalidAMIID", "gone", NOW, instance_types=["m7g.large"])
    assert holds_back(breaker, ["m7g.large", "m5.large"])
    assert holds_back(breaker, [])
    assert not holds_back(breaker, ["m5.large"])
    more = refused(breaker, "web", "InvalidAMIID", "gone", NOW, instance_types=["c7g.large"])
    assert (more.instance_types, more.next_probe_at) == (["c7g.large", "m7g.large"], breaker.next_probe_at)
    assert refused(more, "web", "Unauthorized", "no templates", NOW).instance_types == [], "the whole NodePool"


def test_a_refusal_of_everything_is_said_in_place_of_one_of_some_types() -> None:
    """NodeClaims that were created before it do not keep their pods."""
    of_image = refused(None, "", "InvalidAMIID", "gone", NOW, instance_types=["m7g.large"], node_class="default")
    later = NOW + timedelta(seconds=1)
    pair = refused(of_image, "", "InvalidGroup", "no such group", later, node_class="default")
    assert (pair.reason, pair.message, pair.instance_types) == ("InvalidGroup", "no such group", [])
    assert (pair.refused_at, pair.next_probe_at) == (later, of_image.next_probe_at)


def test_an_instance_that_ends_while_it_boots_does_not_end_a_refusal() -> None:
    """It was bought before EC2 refused the EC2NodeClass."""
    refusal = refused(None, "", "InvalidGroup", "no such group", NOW, node_class="default")
    later = NOW + timedelta(seconds=30)
    assert ended_booting(refusal, "Client.InternalError", "no key", "i-1", later, node_class="default") == refusal
    count = ended_booting(None, "Client.InternalError", "no key", "i-1", later, node_class="default")
    key = key_of("", "default")
    assert merged({key: refusal}, LaunchReport(breakers=[count]), later) == {key: refusal}
    assert merged({key: count}, LaunchReport(breakers=[refusal]), later) == {key: refusal}
    much_later = NOW + timedelta(minutes=5)
    assert ended_booting(refusal, "Client.InternalError", "no key", "i-1", much_later, node_class="default").boots


def test_a_breaker_that_nothing_tries_is_over() -> None:
    breaker = opened()
    assert not untried(breaker, breaker.next_probe_at + UNTRIED_FOR)
    assert untried(breaker, breaker.next_probe_at + UNTRIED_FOR + timedelta(seconds=1))


def test_reports_open_and_close_the_breakers_of_their_own_pools_only() -> None:
    breakers = merged({}, LaunchReport(breakers=[opened("web"), opened("batch")]), NOW)
    assert sorted(breakers) == ["batch", "web"]
    breakers = merged(breakers, LaunchReport(closed=["web"]), NOW)
    assert sorted(breakers) == ["batch"]
    assert merged(breakers, LaunchReport(), NOW + timedelta(hours=1)) == {}


def test_lif05_only_a_claim_that_ec2_answered_is_given_up() -> None:
    late = NOW + LAUNCH_TIMEOUT + timedelta(seconds=1)
    assert should_give_up(NOW, late, has_answer=True)
    assert not should_give_up(NOW, late, has_answer=False)
    assert not should_give_up(NOW, NOW + LAUNCH_TIMEOUT, has_answer=True)


def test_refused_offerings_travel_in_groups_and_arrive_as_they_were() -> None:
    until = NOW + timedelta(minutes=3)
    refused = Backoff(until, NOW, 2)
    offerings = {OfferingKey("spot", f"m{n}.large", zone): refused for n in range(60) for zone in ("a", "b")}
    groups = grouped(offerings)
    assert len(groups) == 2
    assert backoffs_of(groups) == offerings
    assert by_offering(groups, NOW) == dict.fromkeys(offerings, refused.probe_at)
    assert by_offering(groups, until) == {}


def test_a_capacity_type_as_a_whole_travels_too() -> None:
    datetimes = by_offering(grouped({OfferingKey("spot", "", ""): Backoff(NOW + timedelta(minutes=3))}), NOW)
    assert OfferingKey("spot", "m5.large", "us-west-2a") in UnavailableOfferings(datetimes)


def test_a_storm_of_refusals_stays_a_message_of_bounded_size() -> None:
    """Those that are unavailable for longest are kept."""
    many = {
        OfferingKey("spot", f"t{n}", "a"): Backoff(NOW + timedelta(seconds=n // 10)) for n in range(2 * MAX_REPORTED)
    }
    report = LaunchReport(unavailable=grouped(many))
    assert sum(len(group.instance_types) for group in report.unavailable) == MAX_REPORTED
    assert by_offering(report.unavailable, NOW).keys() == {
        OfferingKey("spot", f"t{n}", "a") for n in range(MAX_REPORTED, 2 * MAX_REPORTED)
    }


def test_what_ec2_refuses_is_said_in_sentences() -> None:
    """An operator sees a shortage, of which nothing else tells: the refused NodeClaims are gone."""
    until = NOW + timedelta(minutes=3)
    refused_keys = [
        OfferingKey.of_quota("on-demand", "G and VT"),
        OfferingKey("spot", "", ""),
        OfferingKey("on-demand", "p5.48xlarge", ""),
        *(OfferingKey("on-demand", f"c{n}.large", "us-west-2a") for n in range(5, 9)),
        OfferingKey.refusable("reserved", "m5.large", "us-west-2a", reservation_id="cr-1"),
        OfferingKey.refusable("spot", "m5.large", "us-west-2a", placement_group="pg-1"),
        OfferingKey.refusable("spot", "", "us-west-2b", placement_group="pg-1"),
    ]
    all_shortages = shortages(grouped(dict.fromkeys(refused_keys, Backoff(until, NOW, 1))), NOW)
    assert {key: item.until for shortage in all_shortages for key, item in shortage.backoffs.items()} == dict.fromkeys(
        refused_keys, until
    ), "also those that no sentence names"
    assert [shortage.sentence for shortage in all_shortages] == [
        "the account's on-demand vCPU quota G and VT is used up: next attempt at 2026-11-21 12:00:30 UTC",
        "EC2 refuses all spot capacity: next attempt at 2026-11-21 12:00:30 UTC",
        "EC2 refuses 5 on-demand offerings (c5.large in us-west-2a, c6.large in us-west-2a, c7.large in us-west-2a "
        "and 2 more): next attempt at 2026-11-21 12:00:30 UTC",
        "EC2 refuses 1 reserved offering (capacity reservation cr-1 in us-west-2a): next attempt at "
        "2026-11-21 12:00:30 UTC",
        "EC2 refuses 2 spot offerings (any type in placement group pg-1 in us-west-2b, m5.large in placement group "
        "pg-1 in us-west-2a): next attempt at 2026-11-21 12:00:30 UTC",
    ]
    assert shortages(grouped(dict.fromkeys(refused_keys, Backoff(until, NOW, 1))), until) == []


def test_repeated_refusals_are_said_with_their_number_and_one_time_that_of_the_next_attempt() -> None:
    """Not the end of the pause: for pods that nothing else fits, Tenon asks EC2 earlier."""
    refused = {OfferingKey("spot", "g4dn.xlarge", "us-west-2a"): Backoff(NOW + timedelta(minutes=12), NOW, 3)}
    (shortage,) = shortages(grouped(refused), NOW)
    sentence = "EC2 refuses 1 spot offering (g4dn.xlarge in us-west-2a), 3 times in a row so far: "
    assert shortage.sentence == sentence + "next attempt at 2026-11-21 12:01:30 UTC"
    (due,) = shortages(grouped(refused), NOW + timedelta(minutes=5))
    text = "the next attempt is due, with the next NodeClaim that needs one"
    assert due.sentence == sentence + text, "never a time in the past"


def test_lists_pages_and_plans_name_the_same_next_attempt() -> None:
    refused = {OfferingKey("spot", "g4dn.xlarge", zone): Backoff(NOW + timedelta(minutes=3), NOW, 1) for zone in "ab"}
    groups = grouped(refused)
    (in_list,) = shortages(groups, NOW)
    (in_plan,) = shortages_of(by_offering(groups, NOW))
    assert in_list.sentence == in_plan.sentence
    assert in_plan.sentence.endswith("(g4dn.xlarge in a and b): next attempt at 2026-11-21 12:00:30 UTC")


def test_refusals_of_the_same_second_are_one_group_of_a_message_and_groups_are_few() -> None:
    """Thousands of refusals, each with its own instant, would make a message as long as Temporal allows."""
    at = NOW.replace(microsecond=0)
    same_second = [at + timedelta(milliseconds=1 + n) for n in range(900)]
    backoffs = {
        OfferingKey("spot", f"t{n}", "a"): Backoff(i + timedelta(minutes=3), i, 1) for n, i in enumerate(same_second)
    }
    (group,) = grouped(backoffs)
    assert group.refused_at == at + timedelta(seconds=1), "no probe is due before the process that was refused sends it"
    apart = {OfferingKey("spot", f"t{n}", "a"): Backoff(at + timedelta(seconds=n)) for n in range(2 * MAX_GROUPS)}
    groups = grouped(apart)
    assert len(groups) == MAX_GROUPS
    assert min(item.until for item in groups) == at + timedelta(seconds=MAX_GROUPS)
