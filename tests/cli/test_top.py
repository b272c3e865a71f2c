"""``tenon top``: what it shows at different widths, what its keys do, and what it prints for scripts."""

from __future__ import annotations

import asyncio
import csv
import fcntl
import io
import json
import logging
import os
import pty
import re
import select
import struct
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner, Result

from activities import loggers
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from cli.fleet_view import view_state
from cli.fleet_view.keyboard import keys_of
from cli.fleet_view.painter import Painter
from cli.fleet_view.reading import LogNotes, Notes
from cli.fleet_view.screen import screen, table_lines, visible_rows
from cli.fleet_view.view_state import Mode, Verb, ViewState, Wish, press
from cli.fleet_view.watched_fleet import WatchedFleet
from cli.main import app
from tenon.apis import labels
from tenon.ec2.types.instance_types import Prices
from tenon.fleet.document import Fleet
from tenon.fleet.order import GroupBy, SortKey
from tenon.fleet.summary import FrozenPools
from tenon.kube.pool_reason_json import encode
from tenon.kube.pool_reasons import NoPlace, Obstacle, ObstacleKind
from tenon.scheduling.explanation.waiting import event_message
from tests.cli.fleet_api import (
    CLAIMS,
    EVENTS,
    FREEZES,
    POOLS,
    ROLLOUTS,
    SCHEDULES,
    FakeFleet,
    serving_fleet,
    stamp,
    varied_fleet,
)

pytestmark = pytest.mark.integration

PRICES = Prices(on_demand={"m5.large": 0.096, "m5.4xlarge": 0.768, "c6g.2xlarge": 0.272, "r6i.xlarge": 0.252})
Top = Callable[..., Result]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with serving_fleet(varied_fleet(), tmp_path_factory.mktemp("fleet")) as path:
        yield path


@pytest.fixture(scope="module")
def fleet(kubeconfig: Path) -> Fleet:
    return asyncio.run(read(kubeconfig))


async def read(kubeconfig: Path, *, blocked: Sequence[str] = (), events: bool = False) -> Fleet:
    """Watch the fleet until it has been read once."""
    kube = await Kube.connect(str(kubeconfig))
    watched = WatchedFleet(kube, utc_now)
    await watched.prepare()
    watched.prices, watched.blocked = PRICES, blocked
    watching = asyncio.create_task(watched.run())
    try:
        await watched.wait_synced()
        while events and not watched.messages.blocked:
            await watched.changes.wait()
            watched.changes.clear()
        return watched.fleet(["Prices are list prices"])
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await kube.close()


@pytest.fixture
def top(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Top:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    return lambda *arguments: CliRunner().invoke(app, ["top", "--no-aws", *arguments])


def plain(fleet: Fleet, width: int, height: int = 30, **fields: object) -> list[str]:
    state = replace(ViewState(), **fields)  # type: ignore[arg-type]
    return [line.plain for line in screen(fleet, state, visible_rows(fleet, state), width, height)]


# What is shown


@pytest.mark.parametrize("width", [9, 80, 100, 120, 160, 200, 250])
@pytest.mark.parametrize("group", list(GroupBy))
def test_the_screen_is_as_large_as_the_terminal_and_no_line_is_longer(fleet: Fleet, width: int, group: GroupBy) -> None:
    state = ViewState(group=group)
    lines = screen(fleet, state, visible_rows(fleet, state), width, 30)
    assert len(lines) == 30
    assert max(line.cell_len for line in lines) <= width


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (80, "Node CPU Memory Pods $/h Type Age Stage"),
        (120, "Node CPU Memory Pods $/h Type Capacity Zone NodePool Age Stage Disruption"),
        (
            250,
            "Node CPU Memory Cores GiB Pods $/h Type Capacity Zone NodePool Age Stage Ready NodeClaim Disruption Why",
        ),
    ],
)
def test_columns_are_dropped_by_priority(fleet: Fleet, width: int, titles: str) -> None:
    assert titles.split() in [line.split() for line in plain(fleet, width)]


def test_eighty_columns_have_the_figures_of_each_node_and_the_totals(fleet: Fleet) -> None:
    lines = plain(fleet, 80)
    assert lines[0] == "9 nodes (8 ready)  31 pods  4 pending  $3.2040 an hour  $2,339/month  spot 33%"
    assert lines[1] == "CPU ██████████░░░░░░░░ 53% 37/69   Memory ████████░░░░░░░░░░ 43% 108/250Gi"
    assert lines[2] == "pending  shop/train-0 and 2 more: 0/9 nodes are available: 9 Insufficient"
    assert lines[3] == "         nvidia.com/gpu.", "the reason goes on below itself"
    assert lines[6] == "command  Underutilized saves $0.1760 an hour: ip-10-0-1-4 -> ip-10-0-2-5"
    assert lines[7] == "not counted: 1 NodeClaim without an instance"
    (row,) = [line for line in lines if line.startswith("ip-10-0-1-1 ")]
    assert row == "ip-10-0-1-1  █████░  91% ████░░  63%   12 0.7680 m5.4xlarge  30h live"
    stages = {line.split()[0]: line.split()[-1] for line in lines[10:20]}
    assert {stages[name] for name in ("batch-00009", "ip-10-0-0-6", "ip-10-0-2-5")} == {
        "launching",
        "draining",
        "initializing",
    }


def test_the_line_of_the_cursor_says_what_keeps_the_node(fleet: Fleet) -> None:
    name = "ip-10-0-0-3.eu-central-1.compute.internal"
    (line,) = [line for line in plain(fleet, 140, selected=name) if "protected:" in line]
    assert line.startswith("ip-10-0-0-3  protected: pod shop/cache-15-0 (and 3 more): annotation karpenter.sh/do-not-")


def test_groups_have_totals_and_their_column_is_left_out(fleet: Fleet) -> None:
    lines = plain(fleet, 120, group=GroupBy.POOL)
    assert [line for line in lines if line.startswith(("batch  ", "web  "))] == [
        "batch  3 nodes  CPU 60%  memory 26%  $0.7960 an hour  spot 100%  not counted: 1 NodeClaim without an instance",
        "web  6 nodes  CPU 51%  memory 48%  $2.4080 an hour  spot 0%",
    ]
    assert not [line for line in lines if "NodePool" in line.split()]


def test_a_small_terminal_shows_the_rows_around_the_cursor(fleet: Fleet) -> None:
    lines = plain(fleet, 80, 13, selected="ip-10-0-2-8.eu-central-1.compute.internal")
    assert len(lines) == 13
    assert [line.split()[0] for line in lines if "c6g" in line or "r6i" in line or "m5." in line][-1] == "ip-10-0-2-8"


def test_most_of_a_small_terminal_shows_nodes_although_much_is_said_of_others(fleet: Fleet) -> None:
    cause = f"by DisruptionFreeze release of ann ({'of the release ' * 9}) until it is deleted"
    frozen = [FrozenPools(["web"], "release", "ann", "", None, cause)] * 3
    lines = plain(replace(fleet, frozen=frozen), 80, height=20)
    shown_nodes = [line.split()[0] for line in lines if "c6g" in line or "r6i" in line or "m5." in line]
    assert len(shown_nodes) >= 7


@pytest.mark.parametrize("height", [1, 3, 8, 10])
def test_a_tiny_terminal_shows_what_fits(fleet: Fleet, height: int) -> None:
    assert len(plain(fleet, 80, height)) == height


def test_a_watch_that_fails_is_a_note_until_it_works_again() -> None:
    notes = Notes()
    handler = LogNotes(notes)
    loggers.CACHE.addHandler(handler)
    try:
        loggers.CACHE.warning("The watch failed", extra={"resource": "pods", "error": "no answer."})
        assert notes.all() == ["What is shown of pods may be old: no answer"]
        loggers.CACHE.setLevel(logging.INFO)
        loggers.CACHE.info("The watch works again", extra={"resource": "pods"})
        assert notes.all() == []
    finally:
        loggers.CACHE.removeHandler(handler)


def test_a_blocked_node_is_marked_and_can_be_filtered(kubeconfig: Path) -> None:
    blocked = asyncio.run(read(kubeconfig, blocked=["batch-00006"]))
    (row,) = visible_rows(blocked, ViewState(filter="blocked"))
    assert row.claim == "batch-00006"
    assert any("draining!" in line for line in plain(blocked, 80))


def test_a_filter_without_a_match_says_how_to_see_all(fleet: Fleet) -> None:
    assert "No node matches nothing-has-it: Esc shows all." in plain(fleet, 80, filter="nothing-has-it")


def test_what_tenon_said_in_events_is_why(tmp_path: Path) -> None:
    """Without the times of next attempts, which may be over, and without the name of another command."""
    fake = varied_fleet()
    again = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
    refused = Obstacle(ObstacleKind.CAPACITY, "EC2 refuses all spot capacity", again)
    message, reason_of_pod = event_message(NoPlace.in_pool("web", refused), "shop/report-0")
    assert "next attempt at" in message
    for kind, name, reason, why in (
        ("NodeClaim", "web-00001", "DisruptionBlocked", "a budget allows no disruption"),
        ("Pod", "report-0", "FailedScheduling", message),
    ):
        about = {"kind": kind, "name": name, **({"namespace": "shop"} if kind == "Pod" else {})}
        annotations = {labels.NO_PLACE: encode(reason_of_pod)} if kind == "Pod" else {}
        metadata = {"name": name, "annotations": annotations}
        event = {"metadata": metadata, "involvedObject": about, "reason": reason, "message": why}
        fake.add(EVENTS, {**event, "lastTimestamp": stamp(timedelta())})
    with serving_fleet(fake, tmp_path) as path:
        explained = asyncio.run(read(path, events=True))
    (row,) = [row for row in explained.rows if row.claim == "web-00001"]
    assert (row.disruption, row.why) == ("blocked", "a budget allows no disruption")
    (waiting,) = [pod for pod in explained.pending_pods if pod.key == "shop/report-0"]
    assert waiting.why == "NodePool web: EC2 refuses all spot capacity"


def test_freezes_that_hold_and_rollouts_under_way_have_a_line_each(tmp_path: Path) -> None:
    fake = varied_fleet()
    fake.objects[FREEZES] = []
    fake.objects[ROLLOUTS] = []
    ended = {"endTime": stamp(timedelta(hours=1))}
    for name, spec in (
        ("pause-web", {"nodePools": ["web"], "requestedBy": "ann", "reason": "INC-1"}),
        ("over", {"nodePools": ["batch"], **ended}),
    ):
        fake.add(FREEZES, {"metadata": {"name": name}, "spec": spec})
    waves = {"strategy": {"waves": ["1", "10%", "100%"]}}
    rows = [
        {"name": "web", "phase": "Paused", "wave": 2, "targetRevision": "v2", "message": "ann paused it"},
        {"name": "batch", "phase": "Settled"},
    ]
    fake.add(ROLLOUTS, {"metadata": {"name": "careful"}, "spec": waves, "status": {"nodePools": rows}})
    with serving_fleet(fake, tmp_path) as path:
        fleet = asyncio.run(read(path))
    lines = plain(fleet, 120)
    frozen = "frozen   NodePool web: by DisruptionFreeze pause-web of ann (INC-1) until it is deleted"
    assert [line for line in lines if line.startswith("frozen")] == [frozen]
    states = {row.disruption for row in fleet.rows if row.pool == "web" and row.claim}
    assert "frozen" in states
    assert not states & {"may move", "resting"}
    rollout = "rollout  NodePool web Paused, wave 2/3, by NodeRollout careful: ann paused it"
    assert [line for line in lines if line.startswith("rollout")] == [rollout]


def test_nodepools_by_schedule_have_a_line_each(tmp_path: Path) -> None:
    fake = varied_fleet()
    fake.objects[SCHEDULES] = []
    always = {"from": "00:00", "to": "00:00", "name": "always", "closed": True}
    for name, spec in (
        ("shut", {"timeZone": "UTC", "nodePools": ["web"], "entries": [always]}),
        ("broken", {"timeZone": "Nowhere", "nodePools": ["batch"], "entries": [always]}),
    ):
        fake.add(SCHEDULES, {"metadata": {"name": name}, "spec": spec})
    with serving_fleet(fake, tmp_path) as path:
        fleet = asyncio.run(read(path))
    lines = [line for line in plain(fleet, 120) if line.startswith("schedule")]
    assert lines == ["schedule NodePool web: off, by NodeSchedule shut/always"]


def test_what_a_person_may_not_read_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = varied_fleet()
    fake.forbidden = {FREEZES, ROLLOUTS, EVENTS}
    with serving_fleet(fake, tmp_path) as path:
        monkeypatch.setenv("KUBECONFIG", str(path))
        document = json.loads(CliRunner().invoke(app, ["top", "-o", "json", "--no-aws"]).stdout)
    assert "You may not read disruptionfreezes, noderollouts, and events, so they are not shown" in document["notes"]
    assert len(document["nodes"]) == 10


# What is printed


def test_a_pipe_gets_whole_names_and_no_bars(top: Top) -> None:
    result = top("--once", "--sort", "price")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line for line in lines if line != line.rstrip() or "…" in line or "█" in line] == []
    rows = [line for line in lines if line.startswith("ip-10-0-1-1.eu-central-1.compute.internal")]
    assert "14.4/15.89" in rows[0]
    assert "consolidateAfter is over" in rows[0]
    assert "no cluster is named" in result.stdout.lower()


def test_json_and_csv_have_the_rows_that_the_filter_leaves_in_order(top: Top) -> None:
    document = json.loads(top("-o", "json", "--pool", "batch", "--sort", "cpu", "--filter", "capacity=spot").stdout)
    names = [node["nodeClaim"] for node in document["nodes"]]
    assert names == ["batch-00007", "batch-00008", "batch-00006", "batch-00009"]
    assert (document["totals"]["nodes"], document["totals"]["nodeClaimsWithoutInstance"]) == (3, 1)
    assert {pod["pod"] for pod in document["pendingPods"]} == {"shop/report-0", *(f"shop/train-{n}" for n in range(3))}
    assert document["commands"][0]["replacements"] == ["ip-10-0-2-5.eu-central-1.compute.internal"]
    lines = list(csv.DictReader(io.StringIO(top("-o", "csv", "--zone", "eu-central-1b").stdout)))
    assert {line["zone"] for line in lines} == {"eu-central-1b"}


def test_a_filter_that_cannot_be_read_is_refused(top: Top) -> None:
    result = top("--once", "--filter", "size=large")
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr
        == "size=large: filter by pool, zone, type, capacity, stage, disruption, ready, or by cpu, "
        + ("memory, price, pods with < or >.\n")
    )


def test_a_cluster_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving_fleet(FakeFleet(), tmp_path) as path:
        pass
    monkeypatch.setenv("KUBECONFIG", str(path))
    result = CliRunner().invoke(app, ["top", "--once", "--no-aws"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_a_cluster_without_nodeclaims_shows_its_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = varied_fleet()
    fake.missing = {CLAIMS, POOLS}
    with serving_fleet(fake, tmp_path) as path:
        monkeypatch.setenv("KUBECONFIG", str(path))
        document = json.loads(CliRunner().invoke(app, ["top", "-o", "json", "--no-aws"]).stdout)
    assert {node["disruption"] for node in document["nodes"]} == {"unmanaged"}
    assert "The cluster does not serve nodeclaims and nodepools" in document["notes"]


def test_a_nodepool_or_a_zone_without_nodes_is_named(top: Top) -> None:
    assert top("--pool", "nope").stderr == "NodePool nope does not exist, and no node is one of it.\n"
    assert top("--zone", "nope", "-o", "json").stderr == "No node is in the zone nope.\n"
    assert top("--pool", "batch", "--zone", "eu-central-1b").stderr == ""


@pytest.mark.parametrize("command", [("top", "--once", "--no-aws"), ("pods",), ("simulate", "--live")])
def test_a_server_without_nodes_is_no_empty_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A wrong path in the kubeconfig, or a proxy, answers 404 to everything."""
    with serving_fleet(FakeFleet(), tmp_path) as kubeconfig:
        kubeconfig.write_text(re.sub('server: ("?[^"]*)', r"server: \1/wrong", kubeconfig.read_text()))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.delenv("CLUSTER_NAME", raising=False)
        result = CliRunner().invoke(app, command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "/wrong serves no nodes, so it is no Kubernetes API server: correct its address in the kubeconfig" in (
        result.stderr
    )


def test_notes_that_are_printed_once_are_wrapped_and_not_cut(fleet: Fleet) -> None:
    """Why Temporal does not answer stands at their end."""
    note = f"From Kubernetes alone: {'Temporal cannot be reached, ' * 10}check TEMPORAL_ADDRESS"
    printed = [line.plain for line in table_lines(replace(fleet, notes=[note]), fleet.rows, GroupBy.NONE, 80)]
    assert f"{note}." in " ".join(printed)
    assert max(map(len, printed)) <= 80


def test_without_temporal_the_view_is_of_kubernetes_alone(top: Top, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    document = json.loads(top("-o", "json", "--cluster", "web").stdout)
    assert len(document["nodes"]) == 10
    assert any("From Kubernetes alone" in note for note in document["notes"])


def test_only_lines_that_changed_are_sent_to_the_terminal() -> None:
    written = io.StringIO()
    painter = Painter(Console(file=written, force_terminal=True, width=40, height=3))
    painter.paint([Text("first"), Text("second"), Text("third", "red")])
    written.truncate(0)
    painter.paint([Text("first"), Text("other"), Text("third", "red")])
    assert "other" in written.getvalue()
    assert "first" not in written.getvalue()
    assert "third" not in written.getvalue()
    painter.close()
    assert "\x1b[?1049l" in written.getvalue()


# Keys


def keys(fleet: Fleet, pressed: Sequence[str], state: ViewState | None = None) -> tuple[ViewState, Wish | None]:
    """Press these keys, and return the state and what the last one asks for."""
    state, wish = state or ViewState(), None
    for key in pressed:
        state, wish = press(state, key, visible_rows(fleet, state))
    return state, wish


@pytest.mark.parametrize(("key", "sort"), view_state.SORT_KEYS.items())
def test_a_key_sorts_and_the_same_key_reverses(fleet: Fleet, key: str, sort: SortKey) -> None:
    start = ViewState(sort=SortKey.STAGE)
    assert [keys(fleet, key * times, start)[0].is_reversed for times in (1, 2, 3)] == [False, True, False]
    assert keys(fleet, key, start)[0].sort is sort


def test_the_cursor_stays_on_its_node_when_the_order_changes(fleet: Fleet) -> None:
    state, _ = keys(fleet, [view_state.DOWN, "c"])
    assert state.selected == visible_rows(fleet, ViewState())[1].name
    assert state.position(visible_rows(fleet, state)) != 1
    assert keys(fleet, [view_state.END, view_state.DOWN])[0].selected == visible_rows(fleet, ViewState())[-1].name


@pytest.mark.parametrize(("key", "verb"), [("d", Verb.DRAIN), ("k", Verb.KEEP)])
def test_drain_and_keep_ask_first(fleet: Fleet, key: str, verb: Verb) -> None:
    asked_state, wish = keys(fleet, [view_state.DOWN, key])
    assert (asked_state.mode, wish) == (Mode.CONFIRM, None)
    row = visible_rows(fleet, ViewState())[1]
    (question,) = [line for line in plain(fleet, 80, mode=Mode.CONFIRM, question=asked_state.question) if "y/n" in line]
    assert "…" not in question
    typing, wish = keys(fleet, "yold disq", asked_state)
    assert (typing.mode, wish) == (Mode.REASON, None)
    assert any("why: old disq" in line for line in plain(fleet, 80, mode=Mode.REASON, reason=typing.reason))
    state, wish = keys(fleet, [view_state.BACKSPACE, "k", view_state.ENTER], typing)
    assert wish == Wish(verb, row.claim, row.name, "old disk")
    assert (state.mode, state.reason, state.pending_wish) == (Mode.LIST, "", None)
    assert keys(fleet, ["y", view_state.ENTER], asked_state)[1] == Wish(verb, row.claim, row.name)
    given_up, wish = keys(fleet, [view_state.ESCAPE], typing)
    assert (given_up.message, given_up.reason, wish) == ("Nothing was done.", "", None)
    refused, wish = keys(fleet, "n", asked_state)
    assert (refused.mode, refused.message, wish) == (Mode.LIST, "Nothing was done.", None)


def test_the_filter_is_typed_and_escape_clears_it(fleet: Fleet) -> None:
    typing, _ = keys(fleet, "/spqot")
    assert typing.mode is Mode.FILTER
    state, wish = keys(
        fleet, [*("x", view_state.BACKSPACE) * 2, *[view_state.BACKSPACE] * 3, *"ot", view_state.ENTER], typing
    )
    assert (state.filter, state.mode, wish) == ("spot", Mode.LIST, None)
    assert {row.capacity_type for row in visible_rows(fleet, state)} == {"spot"}
    assert keys(fleet, [view_state.ESCAPE], state)[0].filter == ""


def test_a_filter_that_is_not_complete_hides_nothing(fleet: Fleet) -> None:
    typing, _ = keys(fleet, "/cpu<")
    assert len(visible_rows(fleet, typing)) == 10
    state, _ = keys(fleet, [view_state.ENTER], typing)
    assert (state.filter, state.message) == ("", "cpu<: compare cpu, memory, price or pods with a number.")


def test_enter_shows_q_quits_and_g_groups(fleet: Fleet) -> None:
    row = visible_rows(fleet, ViewState())[0]
    assert keys(fleet, [view_state.ENTER])[1] == keys(fleet, "s")[1] == Wish(Verb.SHOW, row.claim, row.name)
    assert keys(fleet, "q")[1] == keys(fleet, ["/", view_state.INTERRUPT])[1] == Wish(Verb.QUIT)
    assert keys(fleet, "gg")[0].group is GroupBy.ZONE


def test_a_node_without_a_nodeclaim_is_not_drained(fleet: Fleet) -> None:
    other = replace(fleet, rows=[replace(fleet.rows[0], claim="", node="other")])
    state, wish = keys(other, "d")
    assert (state.mode, wish) == (Mode.LIST, None)
    assert state.message == "other has no NodeClaim, so Tenon does not control it."


def test_sequences_of_a_terminal_are_keys() -> None:
    assert list(keys_of("\x1b[A\x1b[5~c\r\x1b[15~\x1b")) == ["up", "page-up", "c", "enter", "escape"]


# The whole program on a terminal


class Terminal:
    """The program on a pseudo-terminal, and what it has painted."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], columns: int, lines: int) -> None:
        self.text = ""
        self.process, self._descriptor = pty.fork()
        if not self.process:
            os.execve(sys.executable, [sys.executable, "-m", "cli", "top", *arguments], environment)
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, *texts: str, within: float = 60.0) -> str:
        """Read until all texts were painted after the last call, and return what was painted."""
        self.text, end = "", monotonic() + within
        while not all(text in self.text for text in texts):
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, end - monotonic()))
            assert ready, f"{texts} were not painted: {self.text[-3000:]}"
            self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self._descriptor, 65536).decode(errors="ignore"))
        return self.text

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def status(self) -> int:
        """Read what is left, and return the exit status."""
        try:
            while os.read(self._descriptor, 65536):
                pass
        except OSError:  # the other side is closed
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def test_keys_of_a_real_terminal(kubeconfig: Path) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "TERM": "xterm", "TEMPORAL_ADDRESS": "127.0.0.1:1"}
    terminal = Terminal(["--no-aws", "--cluster", "web"], environment, 120, 30)
    terminal.until("9 nodes", "sorted by name", "From Kubernetes alone")
    terminal.resize(250, 30)
    terminal.until("NodeClaim", "Why")
    terminal.type("$")
    terminal.until("sorted by price")
    terminal.type("\r")
    terminal.until("podLimit", "scroll")
    terminal.type("\x1b")
    terminal.until("sorted by price")
    terminal.type("d")
    terminal.until("y/n  Drain", "within PodDisruptionBudgets?")
    terminal.type("y")
    terminal.until("why:", "do nothing")
    terminal.type("old disk\r")
    terminal.until("Temporal at 127.0.0.1:1 cannot be reached")
    terminal.type("q")
    assert terminal.status() == 0
