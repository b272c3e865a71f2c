"""The page as a browser reads it: it holds what the data says, loads nothing, and no text becomes a part of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from tenon.fleet.summary import totals
from tenon.record.entries import Entry
from tenon.report.document import to_document
from tenon.report.live import LiveCluster
from tenon.report.page import NO_RECORD, to_html
from tenon.report.report import report_on
from tests.tenon.report.clusters import NOW, Cluster, command, command_end, launch, refusal, removal
from tests.tenon.report.stories import busy_cluster, busy_week

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)
HOSTILE = '"></title></style><script>alert(1)</script><img src=http://evil.test onerror=alert(1)>\u202e'
_OF_DOCUMENTS = {"html", "head", "meta", "title", "style", "body", "section", "nav", "h1", "h2", "h3", "p", "a", "div"}
_OF_TEXTS = {"span", "b", "i", "ul", "li", "code", "br", "details", "summary", "figure", "figcaption"}
_OF_DRAWINGS_AND_TABLES = {"svg", "path", "line", "rect", "table", "thead", "tbody", "tr", "th", "td"}
TAGS = _OF_DOCUMENTS | _OF_TEXTS | _OF_DRAWINGS_AND_TABLES


class Page(HTMLParser):
    """Collects what a browser would show and load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words = ""
        self.titles: list[str] = []
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.open: list[str] = []
        self.bars = 0
        self.cells: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name in ("src", "href", "srcset", "action", "data", "xlink:href", "background"):
                self.references.append(value or "")
            if name == "title":
                self.titles.append(value or "")
            self.bars += (name, value) == ("class", "bar")
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.words += data
        if "td" in self.open and self.cells:
            self.cells[-1][-1] += data


def page_of(live: LiveCluster, entries: Sequence[Entry] | None = None, window: timedelta = WEEK) -> Page:
    return Page(to_html(report_on(live, entries, window)))


@pytest.fixture(scope="module")
def busy_text() -> str:
    live = busy_cluster().live(blocked_texts={"web-0001d": "waits for shop/cart\n`kubectl edit` it"})
    return to_html(report_on(live, busy_week(), WEEK))


@pytest.fixture(scope="module")
def busy_page(busy_text: str) -> Page:
    return Page(busy_text)


def test_the_page_is_well_formed_and_loads_nothing(busy_text: str, busy_page: Page) -> None:
    assert busy_page.open == []
    assert busy_page.tags <= TAGS
    assert all(reference.startswith("#") for reference in busy_page.references)
    for word in ("http:", "https:", "url(", "@import", "<script", "<link"):
        assert word not in busy_text


def test_links_inside_the_page_have_their_places(busy_text: str, busy_page: Page) -> None:
    places = set(re.findall(r' id="([^"]+)"', busy_text))
    assert {reference[1:] for reference in busy_page.references} == places


def test_totals_nodes_and_pods_are_those_of_the_cluster(busy_page: Page) -> None:
    live = busy_cluster().live()
    sums = totals(live.fleet.rows)
    for text in (f"${sums.cost:.4f}", f"${sums.monthly_cost:,.0f}", "30nodes, 29 ready", "30%spot: 9 nodes"):
        assert text in busy_page.words
    for node in live.nodes:
        assert node.name in busy_page.words
        for pod in node.pods:
            assert pod.pod.name in busy_page.words
    with_room = [node for node in live.nodes if node.row.cpu]
    assert busy_page.bars == 2 * len(with_room)
    assert any(re.fullmatch(r"shop/api-\d+: 0.7 CPU", title) for title in busy_page.titles)


def test_what_keeps_a_node_is_said_like_the_advice(busy_page: Page) -> None:
    assert "blocked pod data/postgres-1: PodDisruptionBudget data/postgres allows no eviction" in busy_page.words


def test_what_waits_and_what_blocks_is_named_with_what_resolves_it(busy_page: Page) -> None:
    rows = [" | ".join(row) for row in busy_page.cells]
    why = "NodePool gpu: its limit of nvidia.com/gpu is reached (3 of 3)"
    assert f"5 | {why} | ml/train-0, ml/train-1, ml/train-2 and 2 more" in rows
    assert "1 | on its way to batch-0001d | etl/job-91" in rows
    (leaving,) = [row for row in rows if row.startswith("ip-10-0-0-29 | draining")]
    assert leaving.endswith("Drain: kernel bug (ann)waits for shop/cartkubectl edit it")


def test_commands_freezes_and_rollouts_are_named_with_what_they_wait_for(busy_page: Page) -> None:
    rows = [" | ".join(row) for row in busy_page.cells]
    waits = "waits for approval until 2026-03-10 08:00:00 UTC: "
    drifted = f"Drifted | ip-10-0-0-3 | no new node | $0.0500 an hour | {waits}"
    assert any(row.startswith(drifted) for row in rows)
    assert "to approve its removal as drifted waits for approval since" in busy_page.words
    assert "batch | frozen by DisruptionFreeze pause-batch of ann (INC-1) until it is deleted" in rows
    assert "ci | off until Mon 2026-11-30 at 08:55 UTC, by NodeSchedule hours/nights" in rows
    assert "web | careful | Paused | 2/3 | ann paused it" in rows


def test_tables_of_the_past_have_the_figures_of_the_record(busy_page: Page) -> None:
    report = report_on(busy_cluster().live(), busy_week(), WEEK)
    past = report.past
    assert past is not None
    rows = [" | ".join(row) for row in busy_page.cells]
    day = {group.key: group.count for group in past.day.removed}
    of_day = {group.key: group.count for group in past.day.drain_blockers}
    assert of_day
    for group in past.whole.removed:
        start = f"{group.key[0]} | {day.get(group.key, 0)} | {group.count} | {group.pods} | "
        assert [row for row in rows if row.startswith(start)], start
    for group in past.whole.drain_blockers:
        start = f"{group.key[0]} | {of_day[group.key]} | {group.count} | {group.pods} | "
        assert [row for row in rows if row.startswith(start)], start
    for group in past.whole.refused:
        assert [row for row in rows if row.startswith(f"{group.key[0]} | {group.key[1]} | {group.count} | ")]
    assert f"all | ${past.cost(NOW - DAY):,.2f} | ${past.cost(NOW - WEEK):,.2f}" in rows
    assert f"Disruption commands ({len(past.whole.commands)})" in busy_page.words
    assert f"Interruptions ({len(past.whole.interruptions)})" in busy_page.words
    assert "lower bound $6.1000" in busy_page.words
    assert "$6.1000an hour is the lower bound; the nodes cost 1.51 times that" in busy_page.words
    assert [row for row in rows if row.startswith("ann | removal: Drain | ")]


def test_advice_expiries_drift_and_limits_are_on_the_page(busy_page: Page) -> None:
    report = report_on(busy_cluster().live(), None, WEEK)
    for item in report.advice:
        assert f"{item.sentence}." in busy_page.words
    rows = [" | ".join(row) for row in busy_page.cells]
    assert [row for row in rows if "AMIDrift: ami-0a1 is not among the images" in row]
    assert "web | cpu | 104 | 120 | 87%" in rows
    assert f"Expiries in the next 7 days ({len(report.ahead.expiries)})" in busy_page.words


def test_a_window_of_hours_has_no_figures_of_a_day() -> None:
    page = page_of(busy_cluster().live(), busy_week(), 6 * HOUR)
    assert "last day" not in page.words.lower()
    assert "spent in the last 6h" in page.words


def test_a_young_cluster_has_no_data_for_the_days_before_it() -> None:
    cluster = Cluster()
    cluster.node("web", age=timedelta(minutes=30))
    page = page_of(cluster.live(), [])
    assert "Nothing is recorded from before Mar 9, 11:30." in page.words.replace("\N{NO-BREAK SPACE}", " ")
    assert "Mar 4, 12:00: no data" in page.words.replace("\N{NO-BREAK SPACE}", " ")


def test_the_words_about_a_node_stand_apart() -> None:
    cluster = Cluster()
    deleted = {"deletionTimestamp": "2026-03-09T11:58:00Z", "finalizers": ["karpenter.sh/termination"]}
    cluster.node("web", "r6i.xlarge", capacity="spot", meta=deleted, is_ready=False)
    page = page_of(cluster.live())
    assert "price unknown" in page.words
    assert "not ready leaving" in page.words


def test_without_a_record_the_page_says_so() -> None:
    page = page_of(busy_cluster().live())
    assert NO_RECORD in page.words
    assert "Launched and removed" not in page.words


def test_an_empty_cluster_has_a_page() -> None:
    page = page_of(Cluster().live(), [])
    for text in ("The cluster has no nodes", "Nothing stands out", "Every pod has a node", "No node expires"):
        assert text in page.words


def hostile_cluster() -> LiveCluster:
    """Return a cluster in which everything that people can write is hostile."""
    cluster = Cluster(HOSTILE)
    cluster.notes.append(HOSTILE)
    drifted = {"type": "Drifted", "status": "True", "reason": HOSTILE, "message": HOSTILE}
    for number in range(3):
        node = cluster.node(
            HOSTILE,
            node_name=f"{HOSTILE}{number}",
            zone=HOSTILE,
            capacity=HOSTILE,
            conditions=[drifted],
            expireAfter="72h",
        )
        cluster.pods(f"{HOSTILE}/{HOSTILE}", 8, node, name=HOSTILE, kind=HOSTILE)
        cluster.pods(f"{HOSTILE}/tool", 1, node, "", "")
        cluster.budget(f"{HOSTILE}/{HOSTILE}")
    cluster.waiting(f"{HOSTILE}/{HOSTILE}", HOSTILE)
    live = cluster.live(blocked_texts={f"{HOSTILE}-00001": HOSTILE})
    rows = [replace(node.row, is_blocked=True, why=HOSTILE) for node in live.nodes]
    nodes = [replace(node, row=row) for node, row in zip(live.nodes, rows, strict=True)]
    return replace(live, nodes=nodes, fleet=replace(live.fleet, rows=rows))


def hostile_entries() -> list[Entry]:
    of_node: dict[str, Any] = {
        "pool": HOSTILE,
        "node": HOSTILE,
        "zone": HOSTILE,
        "capacity_type": HOSTILE,
        "instance_type": HOSTILE,
    }
    return [
        launch(1, NOW - HOUR, actor=HOSTILE, why=HOSTILE, **of_node),
        removal(2, NOW - DAY, NOW - HOUR, "SpotInterrupted", actor=HOSTILE, detail=HOSTILE, **of_node),
        removal(3, NOW - DAY, NOW - HOUR, HOSTILE, actor=HOSTILE, detail=HOSTILE, **of_node),
        refusal(4, NOW - HOUR, HOSTILE, HOSTILE, actor=HOSTILE),
        command(5, NOW - HOUR, HOSTILE, actor=HOSTILE),
        command_end(5, NOW - HOUR, HOSTILE, failure=HOSTILE),
    ]


def test_hostile_texts_are_shown_and_never_become_a_part_of_the_page() -> None:
    text = to_html(report_on(hostile_cluster(), hostile_entries(), WEEK))
    page = Page(text)
    assert page.open == []
    assert page.tags <= TAGS
    assert all(reference.startswith("#") for reference in page.references)
    assert "\u202e" not in text, "it would reverse the text after it"
    assert page.words.count("<script>alert(1)</script>") > 20
    assert any("<script>" in title for title in page.titles)


def test_hostile_texts_are_safe_in_json() -> None:
    document = to_document(report_on(hostile_cluster(), hostile_entries(), WEEK))
    assert json.loads(json.dumps(document))["cluster"] == HOSTILE


def large_cluster() -> Cluster:
    """Return 500 nodes that all differ, with 5,000 pods."""
    cluster = Cluster()
    for number in range(500):
        node = cluster.node(f"pool-{number % 7}", "m5.2xlarge", expireAfter="168h", age=HOUR * (number % 160))
        for workload in range(10):
            name = f"team-{workload}/a-workload-with-a-long-name-{(number * 7 + workload) % 90}"
            cluster.pods(name, 1, node, f"{100 + (number * 31 + workload * 17) % 700}m", "700Mi")
    return cluster


def test_a_large_cluster_stays_below_three_megabytes_with_every_pod() -> None:
    live = large_cluster().live()
    entries: list[Entry] = []
    for number in range(10_000):
        at = NOW - WEEK + number * WEEK / 10_000
        entries += [launch(number, at, why=f"why {number}"), removal(number, at, at + HOUR, actor=f"person {number}")]
    text = to_html(report_on(live, entries, WEEK))
    assert len(text.encode()) < 3_000_000
    page = Page(text)
    assert page.bars == 1000
    assert len(page.cells) < 400
    assert all(pod.pod.name in text for node in live.nodes for pod in node.pods)


def test_the_document_has_what_the_page_has() -> None:
    report = report_on(busy_cluster().live(), busy_week(), WEEK)
    document = json.loads(json.dumps(to_document(report)))
    past = report.past
    assert past is not None
    assert document["totals"]["nodes"] == len(document["nodes"]) == 30
    assert document["past"]["cost"]["lowerBoundPerHour"][-1] == past.lower_bound == 6.1
    assert [item["rule"] for item in document["advice"]] == [item.rule for item in report.advice]
    assert document["past"]["cost"]["window"] == pytest.approx(past.cost(NOW - WEEK), abs=1e-6)
    assert len(document["past"]["cost"]["perHour"]) == past.cost_axis.count
    assert document["past"]["window"]["removals"] == sum(
        group["count"] for group in document["past"]["window"]["removed"]
    )
    assert len(document["past"]["window"]["blockedDrains"]) == len(past.whole.blocked_drains) > 0
    assert document["past"]["lastDay"]["launches"] == len(past.day.launches)
    assert len(document["ahead"]["expiries"]) == len(report.ahead.expiries)
    assert document["ahead"]["nearLimits"] == [{"nodePool": "web", "resource": "cpu", "used": "104", "limit": "120"}]
    assert to_document(report_on(busy_cluster().live(), None, WEEK))["past"] is None
