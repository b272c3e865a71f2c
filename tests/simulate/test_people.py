"""What people see: tables, the page, nodes that would be removed."""

from __future__ import annotations

import io
import json
import re
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from cli.simulating.progress import show_progress
from tests.simulate.running import POOL, Answer, deployment, node, simulate

LOAD = POOL + deployment("web", 40, cpu="2", memory="4Gi") + deployment("huge", 3, cpu="4000") + node(cpu="4100m")
MANAGED = """
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c1, labels: {karpenter.sh/nodepool: default}, uid: u1}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: []
status:
  providerID: "aws:///us-west-2a/i-1"
  allocatable: {cpu: "1900m", memory: 7Gi, pods: "29"}
  lastPodEventTime: "2026-01-01T00:00:00Z"
  conditions: [{type: Initialized, status: "True", reason: X, lastTransitionTime: "2026-01-01T00:00:00Z"}]
---
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels:
    karpenter.sh/nodepool: default
    karpenter.sh/initialized: "true"
    node.kubernetes.io/instance-type: m5.large
    topology.kubernetes.io/zone: us-west-2a
    karpenter.sh/capacity-type: on-demand
spec: {providerID: "aws:///us-west-2a/i-1"}
status:
  allocatable: {cpu: "1900m", memory: 7Gi, pods: "29"}
  conditions: [{type: Ready, status: "True"}]
"""


class Page(HTMLParser):
    """Collects the text of a page, and whatever it would load from elsewhere."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.loads: list[str] = []
        self.bars = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        argument = dict(attrs)
        self.bars += argument.get("class") == "bar"
        self.loads += [value for name, value in attrs if name in ("src", "href") and value]
        self.loads += [tag] if tag in ("script", "link", "iframe", "img") else []

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_table_names_nodes_prices_pods_and_reasons(tmp_path: Path) -> None:
    answer = simulate(tmp_path, LOAD, form="table")
    plan = simulate(tmp_path, LOAD).plan
    for claim in plan["nodeClaims"]:
        row = next(line for line in answer.out.splitlines() if line.strip().startswith(claim["name"]))
        assert claim["offering"]["instanceType"] in row
        assert f"{claim['price']:.4f}" in row
        assert f" {len(claim['pods'])} " in row
    assert re.search(r"n1 .* 2 ", answer.out)
    assert "huge-0 and 2 more: NodePool default: needs 4000 CPU" in answer.out
    assert f"40 of 43 pods placed; {plan['totals']['nodes']} new node" in answer.out
    totals = plan["totals"]
    assert f"(lower bound ${totals['lowerBoundPricePerHour']:.4f})" in answer.out
    assert totals["costPerHour"] == pytest.approx(totals["pricePerHour"] + totals["nodeCharge"] * totals["nodes"])
    assert totals["lowerBoundPricePerHour"] < totals["lowerBoundCostPerHour"] <= totals["costPerHour"]
    least = totals["lowerBoundCostPerHour"]
    text = " ".join(answer.out.split())
    assert f"with it they come to ${totals['costPerHour']:.4f} (lower bound ${least:.4f})" in text
    assert "counts burstable types with all of their CPU" in text, "so that a good plan does not look bad"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_keeps_every_price_and_name(
    tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What gives way is who is on the nodes, the other types, then the offering: never a figure."""
    monkeypatch.setattr("cli.simulating.table.output_console", lambda: Console(width=width))
    many = LOAD + deployment("a-rather-long-name-of-a-workload", 30, cpu="7", memory="40Gi")
    lines = simulate(tmp_path, many, form="table").out.splitlines()
    for claim in simulate(tmp_path, many).plan["nodeClaims"]:
        words = next(line for line in lines if line.strip().startswith(claim["name"] + " ")).split()
        assert claim["offering"]["instanceType"] in words
        assert {f"{claim['price']:.4f}", str(len(claim["pods"]))} <= set(words)
        assert sum(word.endswith("%") for word in words) == 2
    table = lines[: lines.index(next(line for line in lines if line.startswith("Why these")))]
    assert max(map(len, table)) <= width


def test_every_form_says_why_a_type_won_and_what_a_node_counts(tmp_path: Path) -> None:
    (claim,) = simulate(tmp_path, POOL + deployment(replicas=2)).plan["nodeClaims"]
    assert claim["why"].startswith(f"{claim['offering']['instanceType']} in us-west-2a (on-demand): the cheapest of ")
    table = simulate(tmp_path, POOL + deployment(replicas=2), form="table").out
    page = simulate(tmp_path, POOL + deployment(replicas=2), form="html").out
    first, _, rest = claim["why"].partition("; ")
    assert first in table
    assert rest.split()[0] in table.partition(first)[2]
    assert Page(page).text.count(claim["why"]) == 1
    for shown in (table, page):
        assert "Every new node counts $0.0200 an hour in addition to its price" in shown


def test_the_settings_that_plans_are_compared_by_are_shown(tmp_path: Path) -> None:
    selection = ("--set", "NODE_CHARGE=0.5", "--set", "MAX_WORKLOAD_SHARE_PER_NODE=0.25")
    for form in ("table", "html"):
        shown = simulate(tmp_path, POOL + deployment(replicas=4), *selection, form=form).out
        assert "Every new node counts $0.5000 an hour in addition to its price" in shown
        assert "at most 25% of a workload is put on one node" in shown
    plan = simulate(tmp_path, POOL + deployment(replicas=4), *selection).plan
    assert (plan["totals"]["nodeCharge"], plan["totals"]["maxWorkloadSharePerNode"]) == (0.5, 0.25)
    assert plan["totals"]["nodes"] == 4


def test_nodes_of_which_the_same_is_true_share_a_sentence(tmp_path: Path) -> None:
    ports = [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]
    out = simulate(tmp_path, POOL + deployment("web", 5, containers=ports), form="table").out
    assert "default-1 and 4 more" in out
    assert out.count("the cheapest of") == 1


def test_many_nodes_share_rows(tmp_path: Path) -> None:
    ports = [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]
    out = simulate(tmp_path, POOL + deployment("web", 90, containers=ports), form="table").out
    assert "default-1 .. 90 (90)" in out
    assert len(out.splitlines()) < 20


def test_the_page_draws_every_node_and_loads_nothing(tmp_path: Path) -> None:
    page = Page(simulate(tmp_path, LOAD, form="html").out)
    plan = simulate(tmp_path, LOAD).plan
    assert page.loads == []
    assert page.bars == 2 * (plan["totals"]["nodes"] + len(plan["existingNodes"]))
    for text in (f"${plan['totals']['pricePerHour']:.3f}", "default-1", "web", "default/huge-2", "Proven lower bound"):
        assert text in page.text


def test_names_cannot_write_into_the_page(tmp_path: Path) -> None:
    hostile = deployment("web", 1, nodeSelector={"a": "b</style><script>alert(1)</script>"})
    assert "<script" not in simulate(tmp_path, POOL + hostile, form="html").out


def test_a_user_at_a_terminal_sees_progress() -> None:
    event = threading.Event()

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            if "Planning" in text:
                event.set()
            return super().write(text)

    with show_progress("Planning", Console(file=Terminal(), force_terminal=True), silence=0):
        assert event.wait(60)
    piped = io.StringIO()
    with show_progress("Planning", Console(file=piped), silence=0):
        pass
    assert piped.getvalue() == ""


PATIENT = POOL.replace("spec:\n", "spec:\n  disruption: {consolidateAfter: 10m}\n", 1)


def _disrupted(tmp_path: Path, now: str, more: str = "") -> Answer:
    return simulate(tmp_path, PATIENT + MANAGED + more, "--disruption", "--now", now)


def test_a_node_that_is_empty_for_long_enough_is_taken_away(tmp_path: Path) -> None:
    """Emptiness at the given time, with what the node costs by the catalogue."""
    assert _disrupted(tmp_path, "2026-01-01T00:09:00Z").plan["disruption"] == []
    (entry,) = _disrupted(tmp_path, "2026-01-01T00:11:00Z").plan["disruption"]
    assert entry == {
        "reason": "Empty",
        "method": "emptiness",
        "candidates": ["n1"],
        "replacements": [],
        "savingPerHour": 0.096,
    }


def test_a_node_that_the_plan_uses_stays(tmp_path: Path) -> None:
    plan = _disrupted(tmp_path, "2026-01-01T01:00:00Z", deployment("web", 1)).plan
    assert [entry["name"] for entry in plan["existingNodes"]] == ["n1"]
    assert plan["disruption"] == []


def test_the_newest_time_of_the_input_is_the_clock(tmp_path: Path) -> None:
    later = MANAGED + '\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: x, creationTimestamp: "%s"}\n'
    for instant, count in (("2026-01-01T00:05:00Z", 0), ("2026-02-01T00:00:00+02:00", 1)):
        assert len(simulate(tmp_path, PATIENT + later % instant, "--disruption").plan["disruption"]) == count


_TERMINATES_AT = "{karpenter.sh/nodeclaim-termination-timestamp: 2026-01-03T00:00:00Z}"
_CLASS = """
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: r
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""
_RESERVED = f"""{_CLASS}status:
  capacityReservations:
  - {{id: cr-01234567890123456, instanceType: p5.48xlarge, availabilityZone: us-west-2a,
    instanceMatchCriteria: targeted, ownerID: "012345678901",
    reservationType: default, state: active, endTime: "2026-02-01T00:00:00Z"}}
"""
_DELETING = """
---
apiVersion: v1
kind: Pod
metadata: {name: a, deletionTimestamp: "2026-01-01T01:00:00Z", deletionGracePeriodSeconds: %d}
spec: {nodeName: other, containers: [{name: a, image: x}]}
status: {phase: Running}
"""


@pytest.mark.parametrize(
    ("later", "count"),
    [
        pytest.param("annotations: {janitor/expires: '2026-05-09T00:00:00Z'}", 0, id="annotation"),
        pytest.param(f"annotations: {_TERMINATES_AT}", 0, id="grace period"),
        pytest.param(_DELETING % 3600, 0, id="deletion with a grace period"),
        pytest.param(_DELETING % 60, 1, id="deletion of long ago"),
        pytest.param("deletionTimestamp: '2026-01-01T01:00:00Z'", 1, id="deletion without a grace period"),
        pytest.param(_DELETING % 10**18, 0, id="deletion before the calendar begins"),
        pytest.param("managedFields: [{manager: kubectl, time: '2026-01-01T01:00:00Z'}]", 1, id="managed fields"),
        pytest.param(_RESERVED, 0, id="end of a capacity reservation"),
    ],
)
def test_times_to_come_are_not_the_clock(tmp_path: Path, later: str, count: int) -> None:
    """A node that its consolidateAfter keeps would be shown as removed now."""
    if not later.startswith("\n---"):
        later = f"\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: x, {later}}}\n"
    assert len(simulate(tmp_path, PATIENT + MANAGED + later, "--disruption").plan["disruption"]) == count


def test_a_note_names_the_time_that_comes_from_the_input(tmp_path: Path) -> None:
    note = "note: the time of the decisions is 2026-01-01 00:00:00 UTC, the newest in the input: --now states another"
    assert note in simulate(tmp_path, PATIENT + MANAGED, "--disruption").err.splitlines()
    assert "newest in the input" not in _disrupted(tmp_path, "2026-01-01T00:09:00Z").err
    assert "newest in the input" not in simulate(tmp_path, PATIENT + MANAGED).err


@pytest.mark.parametrize("form", ["table", "html", "json"])
def test_an_empty_input_is_an_empty_plan(tmp_path: Path, form: str) -> None:
    answer = simulate(tmp_path, POOL, form=form)
    assert answer.status == 0
    if form == "json":
        assert json.loads(answer.out)["totals"]["pods"] == 0


def test_a_zone_without_subnet_is_named(tmp_path: Path) -> None:
    """SCH-108, from the class that the manifests hold."""
    node_class = f"""{_CLASS}status:
  subnets: [{{id: subnet-1, zone: us-west-2a, zoneID: usw2-az1}}]
  conditions: [{{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}}]
"""
    away = deployment(replicas=1, nodeSelector={"topology.kubernetes.io/zone": "us-west-2b"})
    (entry,) = simulate(tmp_path, POOL + node_class + away).plan["unschedulable"]
    text = "zone us-west-2b is in no subnet of its EC2NodeClass (its subnets are in us-west-2a)"
    assert entry["reason"] == f"NodePool default: {text}"


def test_the_page_compares_with_a_bound_only_where_there_is_one(tmp_path: Path) -> None:
    """Where the nodes that are there might hold all pods by their room alone, no price above 0 is proven."""
    repelling = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
    load = POOL + node(cpu="64") + deployment(replicas=2, affinity=repelling)
    assert simulate(tmp_path, load).plan["totals"]["lowerBoundPricePerHour"] == 0
    page = Page(simulate(tmp_path, load, form="html").out).text
    assert "lower bound" not in page.lower()
    assert "times that" not in page


def test_the_page_speaks_of_amounts_as_the_reasons_do(tmp_path: Path) -> None:
    page = simulate(tmp_path, POOL + deployment(replicas=2, cpu="1500m"), form="html").out
    assert re.search(r"3 CPU of [0-9.]+ CPU \(\d+%\)", page)
    assert not re.search(r"\d+m of ", page)
    (claim,) = simulate(tmp_path, POOL + deployment(replicas=2, cpu="1500m")).plan["nodeClaims"]
    assert page.count(claim["why"].partition(";")[0]) == 1
