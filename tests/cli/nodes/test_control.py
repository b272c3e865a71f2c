"""``tenon node drain`` and the other commands for nodes against a real Temporal server, with and without ``--wait``."""

from __future__ import annotations

import asyncio
import getpass
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from activities.clock import utc_now
from tenon.messages.reboot import RebootOutcome, RebootReply
from tests.cli.fleet_api import FakeFleet, serving_fleet
from tests.cli.nodes.blocked_node import NAME, Tenon, listed
from tests.workflows.guarded_node import Guarded, state_of
from tests.workflows.node_workflow import newest
from tests.workflows.rebooting_world import RebootingWorld
from tests.workflows.serving import serving

pytestmark = pytest.mark.integration


async def test_a_request_that_no_worker_answers_is_kept_by_temporal(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker may be away just when a node must go."""
    monkeypatch.setattr("cli.nodes.requests.ANSWERED_WITHIN", timedelta(seconds=1))
    async with listed(temporal, cluster, Guarded()):
        pass
    with temporal.with_time_skipping_disabled():
        answer = await asyncio.to_thread(tenon, "force-drain", NAME, "--cluster", cluster, "--reason", "it smokes")
        assert answer.exit_code == 0, answer.output
        assert answer.stdout == f"{NAME}: no worker answers, and Temporal keeps the request until one runs\n"
        keep = await asyncio.to_thread(tenon, "keep", NAME, "--cluster", cluster, "--reason", "debugging")
        assert keep.stdout == answer.stdout, "it is not kept yet"
    async with serving(temporal.client, cluster, Guarded().all()):
        life = await newest(temporal.client, cluster).result()
    assert (life.reason, life.detail) == ("force_drain", "it smokes")


async def test_a_drain_that_waits_shows_progress_until_the_node_is_gone(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    async with listed(temporal, cluster, Guarded()):
        with temporal.with_time_skipping_disabled():
            arguments = ("force-drain", NAME, "--cluster", cluster, "--reason", "the rack burns", "--wait")
            answer = await asyncio.to_thread(tenon, *arguments)
    assert answer.exit_code == 0, answer.output
    lines = answer.stdout.splitlines()
    assert lines[0].startswith(f"{NAME}: draining by force")
    assert any("the rack burns" in line for line in lines)
    assert lines[-1].endswith(f"{NAME}: gone")


async def test_a_drain_that_waits_outlasts_moments_without_temporal(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, query = [RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED], WorkflowHandle.query

    async def sometimes(handle: WorkflowHandle[Any, Any], *arguments: Any, **options: Any) -> Any:
        if failures:
            raise RPCError("no answer", failures.pop(), b"")
        return await query(handle, *arguments, **options)

    async with listed(temporal, cluster, Guarded()):
        monkeypatch.setattr("cli.nodes.control.FOLLOW_SECONDS", 0.01)
        monkeypatch.setattr(WorkflowHandle, "query", sometimes)
        with temporal.with_time_skipping_disabled():
            arguments = ("force-drain", NAME, "--cluster", cluster, "--reason", "the rack burns", "--wait")
            answer = await asyncio.to_thread(tenon, *arguments)
    assert (answer.exit_code, failures) == (0, []), answer.output


@pytest.mark.usefixtures("world")
async def test_nothing_is_waited_for_if_the_node_refuses(tenon: Tenon, cluster: str) -> None:
    """The node of the fixture drains already, so it refuses to expire."""
    refused = await asyncio.to_thread(tenon, "expire", NAME, "--cluster", cluster, "--wait")
    assert (refused.exit_code, refused.stdout) == (2, "")


async def test_a_drain_that_is_blocked_ends_the_wait_with_one(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    async with listed(temporal, cluster, Guarded(grace=timedelta(days=2))):
        with temporal.with_time_skipping_disabled():
            arguments = ("drain", NAME, "--cluster", cluster, "--wait", "--timeout", "1s")
            answer = await asyncio.to_thread(tenon, *arguments)
    assert answer.exit_code == 1
    assert answer.stderr == f"1 node not gone in time: {NAME}. See `tenon node list --blocked`.\n"


async def test_unkeep_ends_what_keep_began(temporal: WorkflowEnvironment, tenon: Tenon, cluster: str) -> None:
    async with listed(temporal, cluster, Guarded()) as handle:
        nothing = await asyncio.to_thread(tenon, "unkeep", NAME, "--cluster", cluster)
        assert nothing.exit_code == 2
        assert "no earlier request keeps it" in nothing.stderr
        accepted = await asyncio.to_thread(tenon, "keep", NAME, "--cluster", cluster, "--for", "4h")
        assert accepted.exit_code == 0, accepted.output
        ended = await asyncio.to_thread(tenon, "unkeep", NAME, "--cluster", cluster, "--reason", "done")
        assert (ended.exit_code, ended.stdout) == (0, f"{NAME}: no longer kept\n")
        texts = [entry.text for entry in (await state_of(newest(temporal.client, cluster))).timeline]
        assert any(text.startswith("no longer kept: done (") for text in texts)
        await handle.terminate()


async def test_a_person_is_asked_before_pods_go_also_while_the_api_server_is_away(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nobody can say how many pods. Without a yes, the node stays."""
    monkeypatch.setattr("cli.nodes.control.is_interactive", lambda: True)
    async with listed(temporal, cluster, Guarded()) as handle:
        arguments = ("force-drain", NAME, "--cluster", cluster, "--reason", "x")
        declined = await asyncio.to_thread(tenon, *arguments)
        assert declined.exit_code != 0
        assert f"Force-drain {NAME} and all its pods? [y/N]" in declined.output
        assert "Which pods would move is not known: " in declined.stderr
        assert (await state_of(handle)).leave is None
        agreed = await asyncio.to_thread(tenon, *arguments, "--yes")
        assert agreed.exit_code == 0, agreed.output
        await newest(temporal.client, cluster).result()


async def test_a_reboot_shows_its_steps_and_says_who_asked(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    async with listed(temporal, cluster, RebootingWorld()) as handle:
        with temporal.with_time_skipping_disabled():
            arguments = ("reboot", NAME, "--cluster", cluster, "--grace-period", "0s", "--ticket", "OPS-12")
            answer = await asyncio.to_thread(tenon, *arguments)
        assert answer.exit_code == 0, answer.output
        lines = answer.stdout.splitlines()
        assert lines[0] == f"{NAME}: rebooting; follow it with `tenon node show {NAME}`"
        actor = f"{getpass.getuser()}@{socket.gethostname()} with tenon node"
        assert any(f"reboot requested: an operator's request, OPS-12 ({actor})" in line for line in lines)
        assert lines[-1].endswith(f"{NAME}: rebooted")
        long = await asyncio.to_thread(tenon, "reboot", NAME, "--cluster", cluster, "--reason", "x" * 9999)
        assert (long.exit_code, long.stdout) == (2, "")
        assert f"{NAME} is not asked: reason has 9999 characters" in long.stderr
        await handle.terminate()


async def test_a_reboot_drains_from_the_time_of_the_api_server(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drain bound counts from the request. By a laptop whose clock is behind, it would be over before it begins."""
    api = FakeFleet()
    api.clock_ahead = timedelta(minutes=6)
    begun = utc_now()
    async with listed(temporal, cluster, RebootingWorld()) as handle:
        with serving_fleet(api, tmp_path) as kubeconfig, temporal.with_time_skipping_disabled():
            monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
            arguments = ("reboot", NAME, "--cluster", cluster, "--reason", "new kernel", "--no-wait")
            answer = await asyncio.to_thread(tenon, *arguments)
            assert answer.exit_code == 0, answer.output
            (requested_at,) = (await state_of(handle)).reboots
        assert requested_at - begun > timedelta(minutes=5)
        await handle.terminate()


async def test_a_reboot_that_goes_on_ends_the_wait_with_one_and_refuses_a_second(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    world = RebootingWorld()
    world.replies = [RebootReply(outcome=RebootOutcome.REFUSED, message="EC2 is busy")]
    async with listed(temporal, cluster, world) as handle:
        with temporal.with_time_skipping_disabled():
            arguments = ("reboot", NAME, "--cluster", cluster, "--grace-period", "0s", "--reason", "new kernel")
            late = await asyncio.to_thread(tenon, *arguments, "--timeout", "1s")
            again = await asyncio.to_thread(tenon, *arguments, "--no-wait")
        assert late.exit_code == 1
        assert late.stderr == f"1 node not rebooted in time: {NAME}. See `tenon node list --blocked`.\n"
        assert (again.exit_code, again.stdout) == (2, "")
        assert again.stderr.startswith(f"{NAME} does not reboot: it reboots already: new kernel")
        await handle.terminate()
