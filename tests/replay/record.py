"""Records histories for the replay tests: ``python -m tests.replay.record SCENARIO ...``.

Each scenario runs on a real Temporal server with activities that answer as it says, and all its workflows are recorded.
A recording stands for the workflows that are open when a new version is deployed, so an existing one is left as it is.
``--again`` records again all the same.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tests.replay import cluster_scenarios, node_scenarios, rollout_scenario, teardown_scenario
from tests.temporal_fixture import time_skipping_server
from tests.workflows.waiting import until
from workflows import names

HISTORIES = Path(__file__).parent / "histories"
Scenario = Callable[[WorkflowEnvironment, str], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    **node_scenarios.SCENARIOS,
    **cluster_scenarios.SCENARIOS,
    "teardown": teardown_scenario.teardown,
    "rollout": rollout_scenario.rolled_back,
}


def recording(scenario: str) -> Path:
    """The file with the runs of all workflows of a scenario, by workflow id, oldest first."""
    return HISTORIES / f"{scenario}.json.gz"


def anonymous(value: Any) -> Any:
    """A history without the names of the machine and process that it was recorded on."""
    if isinstance(value, dict):
        return {key: anonymous(part) for key, part in value.items()}
    if isinstance(value, str):
        return "recorder" if re.match(r"\d+@", value) else value
    return [anonymous(part) for part in value] if isinstance(value, list) else value


async def runs(client: Client, scenario: str) -> dict[str, list[Any]]:
    """The histories of all workflows of a scenario, which have ended."""
    query = f"TaskQueue = '{names.task_queue(scenario)}'"

    async def all_ended() -> bool:
        return not [run async for run in client.list_workflows(f"{query} AND ExecutionStatus = 'Running'")]

    await until(all_ended)
    executions = [run async for run in client.list_workflows(query)]
    recorded: dict[str, list[Any]] = {}
    for run in sorted(executions, key=lambda run: (run.id, run.start_time)):
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        recorded.setdefault(run.id, []).append(anonymous(history.to_json_dict()))
    return recorded


async def record(names: Sequence[str]) -> None:
    """Run scenarios on a server of their own and write their histories."""
    environment = await time_skipping_server(guarded=False)
    async with environment:
        for scenario in names:
            await SCENARIOS[scenario](environment, scenario)
            content = json.dumps(await runs(environment.client, scenario), separators=(",", ":"))
            recording(scenario).write_bytes(gzip.compress(content.encode(), mtime=0))
            print(f"recorded {recording(scenario)}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay.record", description="Record histories.")
    parser.add_argument("scenario", nargs="*", default="all", choices=["all", *SCENARIOS])
    parser.add_argument("--again", action="store_true", help="record again what is recorded already")
    options = parser.parse_args()
    scenarios = SCENARIOS if "all" in options.scenario else options.scenario
    missing = [scenario for scenario in scenarios if options.again or not recording(scenario).exists()]
    if missing:
        HISTORIES.mkdir(exist_ok=True)
        asyncio.run(record(missing))


if __name__ == "__main__":
    main()
