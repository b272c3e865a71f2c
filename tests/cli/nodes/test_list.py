"""``tenon node list`` and the control commands on a fleet of ten nodes, without a Temporal to ask."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from temporalio.service import RPCError, RPCStatusCode
from typer.testing import CliRunner, Result

from activities.clock import utc_now
from cli.main import app
from cli.nodes.listing import NodeList
from cli.nodes.printed_list import ListOutput
from cli.nodes.table import list_lines
from cli.nodes.watching import watch
from cli.nodes.workflows import claim_of, run
from tenon.fleet.rows import NodeRow
from tenon.kube.node_names import AmbiguousNameError
from tests.cli.fleet_api import CLAIMS, POOLS, serving_fleet, varied_fleet
from tests.cli.test_top import read

pytestmark = pytest.mark.integration
Node = Callable[..., Result]
AWAY = "127.0.0.1:9"


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with serving_fleet(varied_fleet(), tmp_path_factory.mktemp("fleet")) as path:
        yield path


@pytest.fixture
def node(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Runs ``tenon node`` where no cluster is named, so that Temporal is not asked."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    return lambda *arguments: CliRunner().invoke(app, ["node", *arguments])


def names_of(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line.partition(".")[0] for line in result.stdout.splitlines()]


def test_without_temporal_the_list_has_what_kubernetes_says_and_says_what_is_missing(node: Node) -> None:
    result = node("list")
    assert result.exit_code == 0
    assert result.stderr.startswith("From Kubernetes alone, without blocked nodes: Which cluster? ")
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("ip-10-0-1-1.")]
    assert row.split()[1:6] == ["web-00001", "live", "yes", "web", "m5.4xlarge"]
    assert row.split()[6:10] == ["on-demand", "eu-central-1a", "0.7680", "30h"]
    totals = result.stdout.splitlines()[-3]
    assert totals.startswith("9 nodes (8 ready)  31 pods  $")
    assert "…" not in result.stdout


def test_nodes_are_selected_by_label_and_nodepool_and_sorted(node: Node) -> None:
    by_use = names_of(node("list", "-o", "name", "--pool", "batch", "--sort", "cpu"))
    assert by_use[:2] == ["ip-10-0-1-7", "ip-10-0-2-8"]
    spot = "karpenter.sh/capacity-type=spot,topology.kubernetes.io/zone in (eu-central-1b)"
    assert names_of(node("list", "-o", "name", "-l", spot)) == ["ip-10-0-1-7"]
    assert node("list", "--pool", "nope").stderr.endswith("No nodes.\n")


def test_a_selector_that_cannot_be_read_is_one_sentence(node: Node) -> None:
    for command in ("list", "drain"):
        result = node(command, "-l", "a=b=c")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Selector 'a=b=c' cannot be read: ")


def test_scripts_get_json_and_csv_with_the_same_fields(node: Node) -> None:
    rows = json.loads(node("list", "-o", "json").stdout)
    table = list(csv.DictReader(io.StringIO(node("list", "-o", "csv").stdout)))
    assert [row["nodeClaim"] for row in rows] == [row["nodeClaim"] for row in table]
    (leaving,) = [row for row in rows if row["nodeClaim"] == "batch-00006"]
    assert (leaving["stage"], leaving["blocked"], leaving["pods"]) == ("draining", False, 1)
    assert set(rows[0]) == set(table[0])


@pytest.mark.parametrize("width", [80, 120, 250])
async def test_each_node_is_one_line_at_any_width(kubeconfig: Path, width: int) -> None:
    fleet = await read(kubeconfig)
    rows: list[NodeRow] = [row for row in fleet.rows if row.claim]
    lines = [line.plain for line in list_lines(rows, fleet.now, width)]
    assert len(lines) == len(rows) + 5, "a title, a line for each node, an empty line and three with totals"
    assert lines[-1] == "not counted: 1 NodeClaim without an instance"
    assert max(map(len, lines)) <= width
    titles = lines[0].split()
    assert [title for title in ("Node", "Stage", "$/h", "Age", "Pods", "CPU", "Memory") if title not in titles] == []


async def test_a_node_that_needs_someone_and_one_that_is_kept_are_marked(kubeconfig: Path) -> None:
    fleet = await read(kubeconfig, blocked=["web-00001"])
    rows = [row for row in fleet.rows if row.claim == "web-00001"]
    console = Console(width=80)
    (_, line, *_) = list_lines(rows, utc_now(), console.width)
    assert "live blocked" in line.plain


def test_a_dry_run_names_nodes_pods_and_what_protects_them(node: Node) -> None:
    """And asks nobody: without a named cluster, a real drain could not even begin."""
    result = node("drain", "web-00003", "ip-10-0-1-4.eu-central-1.compute.internal", "--dry-run")
    assert result.exit_code == 0, result.output
    first, *lines = result.stdout.splitlines()
    assert first.startswith("would drain 2 nodes ($")
    assert first.endswith(" with 5 pods, 4 of them protected (the node waits for those):")
    assert lines[0].startswith("  ip-10-0-0-3.eu-central-1.compute.internal (web-00003, r6i.xlarge, $")
    assert lines[1].startswith("    shop/cache-15-0: annotation karpenter.sh/do-not-disrupt protects it")
    forced = node("force-drain", "web-00003", "--dry-run")
    assert "4 of them protected (deleted all the same):" in forced.stdout


def test_a_node_is_drained_by_the_name_that_a_narrow_list_prints(node: Node) -> None:
    by_claim = node("drain", "web-00004", "--dry-run")
    assert "ip-10-0-1-4.eu-central-1.compute.internal" in by_claim.stdout
    assert node("drain", "ip-10-0-1-4", "--dry-run").stdout == by_claim.stdout


def test_a_name_of_several_nodes_shows_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = varied_fleet()
    for claim, domain in zip(fleet.objects[CLAIMS], ("a", "b"), strict=False):
        claim["status"]["nodeName"] = f"ip-10-9-9-9.{domain}"
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        assert run(claim_of("ip-10-9-9-9.a")) == "web-00001"
        fleet.objects[CLAIMS][2]["status"]["nodeName"] = "ip-10-8-8-8.a"
        assert run(claim_of("ip-10-8-8-8")) == "web-00003"
        with pytest.raises(AmbiguousNameError, match=r"2 Nodes, ip-10-9-9-9\.a, ip-10-9-9-9\.b"):
            asyncio.run(claim_of("ip-10-9-9-9"))
        with pytest.raises(typer.Exit):
            run(claim_of("ip-10-9-9-9"))


def test_a_selector_takes_the_oldest_nodes_and_none_that_leaves(node: Node) -> None:
    result = node("drain", "--pool", "batch", "--max", "2", "--dry-run")
    node_names = [line.split()[0].partition(".")[0] for line in result.stdout.splitlines()[1:]]
    assert node_names == ["ip-10-0-2-8", "ip-10-0-1-7"]


def test_a_nodepool_that_does_not_exist_is_named(node: Node) -> None:
    refused = node("drain", "--pool", "nope", "--dry-run")
    assert (refused.exit_code, refused.stderr) == (2, "NodePool nope does not exist, and no node is one of it.\n")
    listed = node("list", "--pool", "nope")
    assert "NodePool nope does not exist, and no node is one of it.\n" in listed.stderr
    assert "does not exist" not in node("list", "--pool", "batch").stderr


def test_a_drain_of_nothing_in_particular_is_refused(node: Node) -> None:
    assert node("drain").stderr == "Which nodes? Name them, or select them with --selector or --pool.\n"
    named_and_selected = node("keep", "web-00003", "--pool", "web")
    assert (named_and_selected.exit_code, named_and_selected.stderr) == (
        2,
        "Name the nodes, or select them with --selector and --pool, and not both.\n",
    )


async def temporal_refuses(_cluster: object) -> Any:
    raise RPCError("Namespace nope is not found", RPCStatusCode.NOT_FOUND, b"")


def test_a_temporal_that_refuses_is_done_without_like_one_that_is_away(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For lack of a namespace, or with a key that has expired."""
    monkeypatch.setattr("cli.nodes.listing.connected", temporal_refuses)
    result = node("list", "-o", "name")
    assert len(names_of(result)) == 10
    why = "Temporal refused: Namespace nope is not found."
    assert result.stderr == f"From Kubernetes alone, without blocked nodes: {why}\n"
    blocked = node("list", "--blocked")
    assert (blocked.exit_code, blocked.stdout, blocked.stderr) == (2, "", f"{why}\n"), "only Temporal knows them"


def test_without_both_the_list_says_why_of_each(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = varied_fleet()
    fleet.forbidden = {CLAIMS}
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        for arguments in ((), ("--blocked",)):
            result = node("list", *arguments)
            assert (result.exit_code, result.stdout) == (2, "")
            kubernetes, temporal = result.stderr.splitlines()
            assert kubernetes == "you may not (Kubernetes API: 403 Forbidden)"
            assert temporal.startswith("Which cluster? ")


def test_a_cluster_without_the_crds_says_so_with_the_empty_list(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = varied_fleet()
    fleet.missing = {CLAIMS, POOLS}
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        for arguments in (("list",), ("drain", "-l", "team=a", "--dry-run")):
            result = node(*arguments)
            assert "The cluster does not serve nodeclaims and nodepools.\n" in result.stderr
            assert result.stderr.endswith(("No nodes.\n", "No node is selected.\n"))


async def test_a_watched_list_tells_nodes_that_are_gone_from_those_that_no_longer_match(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says once what it goes without, and again only after it had that."""
    monkeypatch.setattr("cli.nodes.watching.WATCH_SECONDS", 0)
    first, second, *_ = [row for row in (await read(kubeconfig)).rows if row.claim]
    claims, alone, now = {first.claim, second.claim}, "From Kubernetes alone.", utc_now()
    lists = [
        NodeList([first], now, present=claims, notes=[alone]),
        NodeList([], now, present=set()),
        NodeList([], now, present=set(), notes=[alone]),
    ]

    async def read_next() -> NodeList:
        if not lists:
            raise EOFError
        return lists.pop(0)

    with pytest.raises(EOFError):
        await watch(NodeList([first, second], now, present=claims, notes=[alone]), read_next, ListOutput.WIDE)
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if not line.endswith("UTC")]
    assert lines == [f"{second.name} no longer matches", f"{first.name} gone"]
    assert printed.err == f"{alone}\n"
