"""``tenon ui``: where Temporal's UI is, and links for names and lists, against a real Temporal server."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from temporalio import workflow
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from typer.testing import CliRunner, Result

from activities.clock import utc_now
from cli import temporal_ui
from cli.temporal_ui import CLOUD, NoUiError, TemporalUi
from cli.ui import app
from tests.workflows.waiting import until
from workflows import names

pytestmark = pytest.mark.integration


@workflow.defn(name="NodeClaim", sandboxed=False)
class EndsSoon:
    """A node's workflow that continues as new once if it is asked to, and ends."""

    @workflow.run
    async def run(self, continues: bool) -> None:
        if continues:
            workflow.continue_as_new(False)


@workflow.defn(name="DisruptionCommand", sandboxed=False)
class Command:
    """A command that ends, or waits for a person."""

    @workflow.run
    async def run(self, waits: bool) -> None:
        await workflow.wait_condition(lambda: not waits)


UI = "https://temporal.example.com/ui"
Tenon = Callable[..., Result]


@pytest.fixture
def tenon(temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, cluster: str) -> Tenon:
    """Runs ``tenon ui`` for the test's cluster."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_UI_URL", UI + "/")
    return lambda *arguments: CliRunner().invoke(app, [*arguments, "--cluster", cluster])


def query_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["query"][0]


@pytest.mark.parametrize(
    ("url", "host", "expected"),
    [
        (UI + "/", "temporal:7233", UI),
        (None, "prod.a1b2c.tmprl.cloud:7233", CLOUD),
        (None, "us-west-2.aws.api.temporal.io:7233", CLOUD),
        (None, "localhost:7233", "http://localhost:8233"),
    ],
)
def test_the_ui_is_where_the_user_says_or_beside_the_server(url: str | None, host: str, expected: str) -> None:
    assert TemporalUi.of(url, host, "prod").workflows("A = 'b'").startswith(f"{expected}/namespaces/prod/workflows?")


@pytest.mark.parametrize(("url", "host"), [(None, "temporal.internal:7233"), ("temporal.internal", "localhost:7233")])
def test_an_unknown_ui_is_one_sentence(url: str | None, host: str) -> None:
    with pytest.raises(NoUiError, match=r"Temporal's UI.+\."):
        TemporalUi.of(url, host, "prod")


async def test_every_view_is_a_query_that_temporal_answers(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    printed = await asyncio.to_thread(tenon)
    assert printed.exit_code == 0, printed.output
    lines = printed.stdout.splitlines()
    assert len(lines) == len(temporal_ui.VIEWS) + 2
    links = [line.split()[-1] for line in lines]
    assert "WorkflowType = 'Rollout'" in query_of(links[-4])
    assert "WorkflowType = 'NodeSchedule'" in query_of(links[-3])
    for link in links[: len(temporal_ui.VIEWS)]:
        assert f"'{cluster}'" in query_of(link)
        await temporal.client.count_workflows(query_of(link))
    assert unquote(links[-1]).endswith(f"/workflows/disruption/{cluster}")


async def test_the_lists_of_what_ended_have_only_nodes_that_left_and_commands_that_saved(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Neither runs that continued as new and refused launches, nor commands that wait for approval or were undone."""
    client, queue = temporal.client, names.task_queue(cluster)
    of_cluster = SearchAttributePair(names.CLUSTER, cluster)
    of_node = [of_cluster, SearchAttributePair(names.INSTANCE, "i-0abc")]
    starts: list[tuple[str, str, bool, list[SearchAttributePair[Any]]]] = [
        ("NodeClaim", names.nodeclaim_id(cluster, "left"), True, of_node),
        ("NodeClaim", names.nodeclaim_id(cluster, "refused"), False, [of_cluster]),
    ]
    for name, waits, saving in (("saved", False, 0.1), ("undone", False, 0.0), ("waits", True, 0.2)):
        attributes: list[SearchAttributePair[Any]] = [of_cluster, SearchAttributePair(names.SAVING, saving)]
        starts.append(("DisruptionCommand", names.command_id(cluster, name), waits, attributes))
    async with Worker(client, task_queue=queue, workflows=[EndsSoon, Command]):
        for type_, ident, argument, pairs in starts:
            await client.start_workflow(
                type_, argument, id=ident, task_queue=queue, search_attributes=TypedSearchAttributes(pairs)
            )

        async def all_ended() -> bool:
            return (await client.count_workflows(f"TenonCluster = '{cluster}' AND CloseTime IS NOT NULL")).count == 5

        await until(all_ended)
    ended_nodes = client.list_workflows(temporal_ui.ended(cluster, utc_now(), timedelta(days=1)))
    assert [run.id async for run in ended_nodes] == [names.nodeclaim_id(cluster, "left")]
    saving_commands = client.list_workflows(temporal_ui.saving_commands(cluster))
    assert [run.id async for run in saving_commands] == [names.command_id(cluster, "saved")]


@pytest.mark.parametrize(
    ("arguments", "condition"),
    [
        (("--blocked",), "TenonBlocked = true"),
        (("--leaving",), "TenonStage = 'leaving'"),
        (("--expiring", "7d"), "TenonExpires < '20"),
        (("--expiring", "36h"), "TenonExpires < '20"),
        (("--commands", "--pool", "web"), "WorkflowType = 'DisruptionCommand' AND TenonPool = 'web'"),
        (("--pool", "web"), "ExecutionStatus = 'Running' AND TenonPool = 'web'"),
    ],
)
async def test_a_list_is_one_link_for_scripts(
    temporal: WorkflowEnvironment, tenon: Tenon, arguments: tuple[str, ...], condition: str
) -> None:
    printed = await asyncio.to_thread(tenon, *arguments)
    assert printed.exit_code == 0, printed.output
    (link,) = printed.stdout.splitlines()
    assert condition in query_of(link)
    await temporal.client.count_workflows(query_of(link))


async def test_a_name_of_any_kind_leads_to_the_page_and_a_browser_opens_it(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NodeClaim, Node, instance, and a command by its ID; the workflows need no worker for that."""
    client, queue = temporal.client, names.task_queue(cluster)
    node = [
        SearchAttributePair(names.CLUSTER, cluster),
        SearchAttributePair(names.NODE, "n1.ec2.internal"),
        SearchAttributePair(names.INSTANCE, "i-0abc"),
    ]
    claim = await client.start_workflow(
        "NodeClaim",
        id=names.nodeclaim_id(cluster, "web-1"),
        task_queue=queue,
        search_attributes=TypedSearchAttributes(node),
    )
    command = await client.start_workflow(
        "DisruptionCommand",
        id=names.command_id(cluster, "empty-1"),
        task_queue=queue,
        search_attributes=TypedSearchAttributes(
            [
                SearchAttributePair(names.CLUSTER, cluster),
                SearchAttributePair(names.COMMAND_NODES, ["web-1", "n1.ec2.internal"]),
            ]
        ),
    )

    async def both() -> bool:
        return (await client.count_workflows(f"TenonCluster = '{cluster}'")).count == 2

    await until(both)
    opened: list[str] = []

    def opens(link: str) -> bool:
        opened.append(link)
        return True

    monkeypatch.setattr(webbrowser, "open", opens)
    for name in ("web-1", "n1.ec2.internal", "n1", "i-0abc"):
        printed = await asyncio.to_thread(tenon, name, "--open")
        page, commands = (line.split()[-1] for line in printed.stdout.splitlines())
        assert (
            unquote(page)
            == f"{UI}/namespaces/default/workflows/{claim.id}/{claim.first_execution_run_id}/user-metadata"
        )
        assert (await client.count_workflows(query_of(commands))).count == 1
        assert opened.pop() == page
    printed = await asyncio.to_thread(tenon, "empty-1")
    assert unquote(printed.stdout.split()[-1]).startswith(f"{UI}/namespaces/default/workflows/{command.id}/")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nobody",), "belongs to nobody"),
        (("x' OR TenonCluster = 'y",), "cannot be the name"),
        (("--pool", "a'b"), "cannot be the name"),
        (("--blocked", "--leaving"), "Name one list"),
        (("web-1", "--blocked"), "leave out the options of lists"),
        (("--expiring", "soon"), "'soon' is not a duration"),
    ],
)
async def test_what_has_no_link_is_refused_in_one_sentence(
    tenon: Tenon, arguments: tuple[str, ...], sentence: str
) -> None:
    printed = await asyncio.to_thread(tenon, *arguments)
    assert printed.exit_code == 2
    assert printed.stdout == ""
    assert sentence in printed.stderr
