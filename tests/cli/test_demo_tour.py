"""The tour after the demo: seven commands in their order, without a question where no person sits at the terminal."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cli.demo_progress import NotSeenError
from cli.demo_tour import Tour, node_link
from tenon.apis.json_object import JsonObject

CLAIM: JsonObject = {
    "metadata": {"name": "default-a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"requirements": []},
    "status": {
        "providerID": "aws:///us-west-2a/i-1",
        "nodeName": "n1",
        "conditions": [{"type": "Initialized", "status": "True"}],
    },
}


class Cluster:
    """A cluster with one node, whose NodeClaim is gone whenever the tour asks for it."""

    async def list(self, *_: object) -> list[JsonObject]:
        return [CLAIM]

    async def get(self, *_: object) -> JsonObject | None:
        return None


class Story:
    """Believes at once what the demo would watch."""

    def __init__(self) -> None:
        self.scenes = 0
        self.reported: list[str] = []

    def scene(self, title: str) -> None:
        self.scenes += 1

    def report(self, key: str, text: str, style: str = "") -> None:
        self.reported.append(text)

    async def until(self, subject: str, is_reached: Callable[[], Awaitable[bool]]) -> None:
        assert await is_reached(), subject

    async def all_running(self, app: str, count: int) -> bool:
        return True


def tour(run: Callable[[list[str]], Awaitable[int]], output: io.StringIO, ui: str = "http://ui") -> tuple[Tour, Story]:
    sandbox: Any = SimpleNamespace(temporal_ui=ui, cluster_name="sandbox")
    story, cluster = Story(), Cluster()
    return Tour(Console(file=output, width=200), sandbox, cluster, story, run), story  # type: ignore[arg-type]


async def test_the_tour_runs_its_commands_and_watches_what_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    commands: list[list[str]] = []

    async def run(command: list[str]) -> int:
        commands.append(command)
        return 0

    output = io.StringIO()
    guided, story = tour(run, output)
    await guided.play()
    assert "More Actions has Send a Signal and Send an Update" in output.getvalue(), "as the UI's menu names them"
    assert "Request Cancellation drains the node" in output.getvalue()
    assert [" ".join(command[:4]) for command in commands] == [
        "tenon node list",
        "tenon node show default-a",
        "tenon explain node default-a",
        "tenon simulate --live -f",
        "tenon node force-drain default-a",
        "tenon sandbox fault spot-interrupted",
    ]
    assert commands[-1][-1] == "i-1", "the node that runs, and not any"
    assert node_link("http://ui", "sandbox", "default-a") in output.getvalue()
    assert story.reported == ["all pods Running again", "n1 drained before EC2 ended it", "all pods Running again"]


async def test_a_command_that_fails_ends_the_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    async def run(command: list[str]) -> int:
        return 2 if "explain" in command else 0

    guided, _ = tour(run, io.StringIO())
    with pytest.raises(NotSeenError, match="tenon explain node default-a ended with status 2"):
        await guided.play()


def test_the_link_of_a_node_needs_a_ui() -> None:
    link = "http://ui/namespaces/default/workflows/nodeclaim%2Fsandbox%2Fdefault-a"
    assert node_link("http://ui", "sandbox", "default-a") == link
    assert node_link("", "sandbox", "default-a") == ""
