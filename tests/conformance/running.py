"""Runs a scenario through ``tenon simulate`` in this process, and says what of its expectation does not hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.comparing import differences
from tests.conformance.scenario import BUILT_IN, CATALOGS, Scenario
from tests.simulate.running import Answer, command


def run(scenario: Scenario, folder: Path) -> Answer:
    """The command's answer to the scenario; ``folder`` takes its manifests."""
    described = scenario.description
    file = folder / "manifests.yaml"
    file.write_text(scenario.manifests)
    arguments = ["-f", str(file), "-o", "json"]
    if described.catalog != BUILT_IN:
        arguments += ["--catalog", str(CATALOGS / f"{described.catalog}.json")]
    for name, value in described.set.items():
        arguments += ["--set", f"{name}={value}"]
    if described.now is not None:
        arguments += ["--now", described.now]
    return command(*arguments, *described.arguments)


def failure(scenario: Scenario, answer: Answer) -> str:
    """What is wrong with the answer, with all of it for a person to read; empty when the scenario holds."""
    names = list(_wrong(scenario, answer))
    if not names:
        return ""
    texts = [f"{', '.join(scenario.description.rows)}: {scenario.description.scenario}", *names]
    return "\n".join([*texts, "--- stderr", answer.err, "--- stdout", answer.out])


def _wrong(scenario: Scenario, answer: Answer) -> Iterator[str]:
    described = scenario.description
    for fragment in described.stderr:
        if fragment not in answer.err:
            yield f"stderr does not say {fragment!r}"
    if answer.status != described.status:
        yield f"exit status: expected {described.status}, got {answer.status}"
    elif answer.status == 0:
        plan: dict[str, Any] = json.loads(answer.out)
        yield from differences(described.expect, plan, scenario.manifests)
    elif answer.out:
        yield "a refusal prints something on stdout"
