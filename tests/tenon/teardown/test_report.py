"""What the report of a teardown says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenon.messages.teardown import (
    ClusterInstance,
    ClusterProfile,
    ClusterTemplate,
    Leftover,
    RemovedThings,
    Survey,
    TeardownReport,
    TerminateRoundResult,
)
from tenon.teardown import page, report
from tenon.teardown.rounds import Rounds, after, begin_rounds

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
INSTANCE = ClusterInstance(
    id="i-1",
    state="running",
    instance_type="m7i.large",
    zone="us-west-2a",
    capacity_type="spot",
    price=0.05,
    pool="web",
)


def begun(**survey: object) -> TeardownReport:
    begin = page.first_input("prod", by="ann", reason="moved", ticket="OPS-7")
    return report.with_survey(report.begin(begin, NOW), Survey.model_validate({"region": "us-west-2", **survey}))


def test_a_report_says_what_ended_when_and_what_is_left_and_why() -> None:
    volume = INSTANCE.model_copy(update={"lasting_volumes": ["vol-1"]})
    rounds = after(Rounds(), TerminateRoundResult(alive=[volume], alive_count=1), NOW)
    rounds = after(rounds, TerminateRoundResult(), NOW + timedelta(seconds=5))
    result = report.with_rounds(begun(instances=[volume], instance_count=1), rounds)
    result = report.finished(report.with_skipped(result, "drain nodes", "no API server"), NOW + timedelta(minutes=2))
    text = report.markdown(result, worker_runs=False)
    assert "ended 1 instance; $0.0500 an hour less; left 1 thing" in report.summary(result).lower()
    assert "instance i-1, m7i.large spot us-west-2a NodePool web $0.0500 an hour, at 2026-11-27 12:00:05 UTC" in text
    assert "volume vol-1: EC2 does not delete it with its instance" in text
    assert "drain nodes: no API server" in text
    assert f"Started {NOW:%Y-%m-%d %H:%M:%S} UTC by ann, ended" in text
    assert "Reason: moved. Ticket: OPS-7" in text


def test_a_report_names_what_ends_the_workflows_that_a_running_worker_starts_again() -> None:
    ended = report.finished(begun(), NOW)
    assert "then run `tenon handback --cluster prod`" in report.markdown(ended, worker_runs=True)
    assert "tenon handback" not in report.markdown(ended, worker_runs=False)


def test_what_an_attempt_removed_whose_worker_died_is_in_the_report() -> None:
    surveyed = begun(
        templates=[ClusterTemplate(id="lt-1", name="one"), ClusterTemplate(id="lt-2", name="two")],
        profiles=[ClusterProfile(name="prod_1")],
    )
    leftovers = [Leftover(kind=report.TEMPLATE, name="two", why="refused")]
    removed = RemovedThings(removed={report.TEMPLATE: ["three"]}, leftovers=leftovers)
    result = report.with_removed(surveyed, removed, NOW)
    assert [(item.kind, item.name) for item in result.ended] == [
        (report.PROFILE, "prod_1"),
        (report.TEMPLATE, "one"),
        (report.TEMPLATE, "three"),
    ]
    assert result.counts == {report.PROFILE: 1, report.TEMPLATE: 2}


def test_profiles_that_cannot_be_listed_do_not_count_as_ended() -> None:
    leftovers = [Leftover(kind=report.PROFILE, name=report.ALL, why="no right")]
    result = report.with_removed(
        begun(profiles=[ClusterProfile(name="prod_1")]), RemovedThings(leftovers=leftovers), NOW
    )
    assert result.ended == []


def test_released_objects_count_neither_templates_nor_profiles_again() -> None:
    """A template that EC2 refuses to delete is left, and nothing else of the teardown says that it ended."""
    surveyed = begun(
        templates=[ClusterTemplate(id="lt-1", name="one"), ClusterTemplate(id="lt-2", name="two")],
        profiles=[ClusterProfile(name="prod_1")],
    )
    refused = Leftover(kind=report.TEMPLATE, name="two", why="refused")
    result = report.with_removed(surveyed, RemovedThings(leftovers=[refused]), NOW)
    result = report.with_released(result, RemovedThings(removed={"finalizer": ["Node a"]}), NOW)
    assert result.counts == {report.PROFILE: 1, report.TEMPLATE: 1, "finalizer": 1}
    assert sorted(item.name for item in result.ended) == ["Node a", "one", "prod_1"]
    assert result.leftovers == [refused]


def large(count: int) -> list[ClusterInstance]:
    return [INSTANCE.model_copy(update={"id": f"i-{number:05}", "price": 1.0}) for number in range(count)]


def large_survey() -> TeardownReport:
    """A survey names at most 1,000 of what it counts."""
    templates = [ClusterTemplate(id=f"lt-{number}", name=f"t-{number:05}") for number in range(1000)]
    return begun(
        instances=large(3000)[:1000], instance_count=3000, price=3000.0, templates=templates, template_count=1500
    )


def test_the_report_of_a_large_cluster_counts_what_no_list_names() -> None:
    """Volumes are known only of listed instances, and the report says so."""
    result = large_survey()
    rounds = begin_rounds(result.survey.instances)
    protected, *others = large(3000)[:1000]
    rounds = after(
        rounds,
        TerminateRoundResult(alive=[protected, *others], alive_count=3000, refusals={protected.id: "protected"}),
        NOW,
    )
    rounds = after(rounds, TerminateRoundResult(alive=[protected], alive_count=1), NOW)
    result = report.finished(report.with_rounds(result, rounds), NOW)
    assert (result.counts, result.price) == ({"instance": 2999}, 2999.0)
    assert result.skipped == {"find volumes": "they were looked up for 999 of 2999 ended instances"}


def test_instances_that_are_alive_and_not_listed_have_not_ended() -> None:
    """Of their prices nothing is known, so the saving is that of the listed ones."""
    result = large_survey()
    rounds = begin_rounds(result.survey.instances)
    rounds = after(rounds, TerminateRoundResult(alive=large(3000)[500:1500], alive_count=2500), NOW)
    result = report.with_rounds(result, rounds)
    assert (result.counts, result.price) == ({"instance": 500}, 500.0)
    assert result.skipped == {}


def test_removed_templates_that_no_list_names_are_counted() -> None:
    refused = Leftover(kind=report.TEMPLATE, name="t-00007", why="refused")
    names = [f"t-{number:05}" for number in range(1001) if number != 7]
    removed = RemovedThings(removed={report.TEMPLATE: names}, leftovers=[refused])
    assert report.with_removed(large_survey(), removed, NOW).counts == {report.TEMPLATE: 1499}


def test_a_dry_run_says_what_would_end() -> None:
    result = begun(instances=[INSTANCE], instance_count=1, price=0.05).model_copy(update={"dry_run": True})
    assert report.summary(result) == "would end 1 instance, 0 launch templates, 0 instance profiles; $0.0500 an hour"


def test_the_page_of_a_large_cluster_stays_small_and_has_no_dollar() -> None:
    """The UI passes a page to its frame in a URL, and takes two dollars for a formula."""
    things = [Leftover(kind="instance", name=f"i-{number}", why="it is protected " * 40) for number in range(500)]
    result = begun().model_copy(update={"leftovers": things, "price": 3.5, "ended_at": NOW})
    for number in range(200):
        result = report.noted(result, NOW, f"line {number}")
    text = page.current_details(result, "waits")
    assert "$" not in text
    assert len(text) < 4000
    assert "and 488 more" in text
