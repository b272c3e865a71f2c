"""``tenon replay`` on a record in a file, with the inputs of its plans next to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.replay import app
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Proposal
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.methods.drift import Drift
from tenon.disruption.rules import blockers
from tenon.messages.explanation import Explanation
from tenon.provisioning.plan_digest import plan_digest
from tenon.provisioning.solving import solve_with_buffers
from tenon.record.entries import DisruptionEntry, PlanEntry
from tenon.record.kept_inputs import KeptInputs
from tenon.record.lines import line_of
from tenon.record.origin import Origin
from tenon.record.plans import plan_entry
from tenon.replay.decision_entries import disruption_entry, refused
from tenon.replay.decision_inputs import DecisionInputs
from tenon.scheduling import engine
from tenon.scheduling.deadline import never
from tenon.scheduling.model import Problem
from tenon.scheduling.packing import sizing
from tests.conformance.disruption_cluster import ClusterScenario
from tests.conformance.disruption_scenario import FOLDER, read
from tests.tenon.disruption.clusters import situation
from tests.tenon.scheduling.builders import ON_DEMAND, node, pod, pool, problem, replicas
from worker.record.plan_inputs import open_plan_inputs

NOW = datetime.now(UTC)
DEFAULT = pool("default", ON_DEMAND)
PROBLEMS = [
    problem(replicas(13, "1500m", "2Gi"), DEFAULT),
    problem([pod("small"), pod("huge", "5000")], DEFAULT, nodes=[node("n1")]),
]
Tenon = Callable[..., Result]


class Archive:
    """A record in a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "record.jsonl"
        self.inputs = open_plan_inputs(f"file://{self.path}", cluster="c", region="us-east-1")
        self.entries: list[PlanEntry | DisruptionEntry] = []

    async def plan(self, value: Problem, at: datetime = NOW, lacking: str = "") -> None:
        assert self.inputs is not None
        plan = solve_with_buffers(value)
        names = [f"claim-{number}" for number, _ in enumerate(plan.claims)]
        entry = plan_entry(
            Origin("c"),
            at,
            plan,
            batch=len(self.entries) + 1,
            claims=names,
            explanations=[Explanation() for _ in names],
            pods=len(value.pods),
            decision=plan_digest(plan),
            inputs=KeptInputs(lacking=lacking) if lacking else await self.inputs.keep(value),
        )
        self.add(entry)

    async def decision(self, name: str, lacking: str = "") -> None:
        """Keep the decision of a scenario of conformance, an hour before the last entry."""
        assert self.inputs is not None
        scenario = read(FOLDER / f"{name}.yaml")
        assert isinstance(scenario, ClusterScenario)
        inputs = DecisionInputs(situation(scenario.cluster))
        decision = decide(inputs.situation, inputs.methods(never))
        inputs_kept = KeptInputs(lacking=lacking) if lacking else await self.inputs.keep_decision(inputs)
        self.add(
            disruption_entry(
                Origin("c"),
                NOW - timedelta(hours=len(self.entries)),
                decision,
                refused(decision, inputs.situation),
                inputs_kept,
            )
        )

    def add(self, entry: PlanEntry | DisruptionEntry) -> None:
        self.entries.append(entry)
        self.path.write_text("".join(f"{line_of(entry)}\n" for entry in self.entries))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


@pytest.fixture
def tenon(monkeypatch: pytest.MonkeyPatch, archive: Archive, tmp_path: Path) -> Tenon:
    """Runs ``tenon replay`` on the archive."""
    monkeypatch.setenv("TENON_SANDBOX_DIR", str(tmp_path / "no-sandbox"))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("CLUSTER_NAME", "TENON_RECORD", "RECORD_SINKS"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(app, ["--record", str(archive.path), *arguments])


async def test_the_same_engine_says_that_no_decision_changes(archive: Archive, tenon: Tenon) -> None:
    for value in PROBLEMS:
        await archive.plan(value)
    done = tenon()
    assert done.exit_code == 0, done.output
    assert done.stdout == "No decision changes: today's engine makes the same 2 plans.\n"


async def test_a_planted_regression_is_found(archive: Archive, tenon: Tenon, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose sizing takes the dearest of its packings, and compares it with no other."""
    for value in PROBLEMS:
        await archive.plan(value)
    monkeypatch.setattr(sizing, "min", max, raising=False)
    monkeypatch.setattr(engine, "best", lambda plan, _: plan)
    done = tenon()
    assert done.exit_code == 1
    first, _, _, change = done.stdout.splitlines()
    assert first.startswith("1 of 2 decisions changes: today's plans cost $0.")
    assert first.endswith(" an hour more in sum.")
    assert " batch 1: " in change
    assert " of default become " in change
    answer = json.loads(tenon("-o", "json").stdout)
    assert (answer["plans"], answer["changed"], answer["regressions"]) == (2, 1, 1)
    assert answer["worst"][0]["verdict"] == "dearer"
    assert answer["changePerHour"] == pytest.approx(answer["worst"][0]["changePerHour"])
    assert tenon("--tolerance", "100").exit_code == 0


async def test_an_engine_that_fails_is_found(archive: Archive, tenon: Tenon, monkeypatch: pytest.MonkeyPatch) -> None:
    await archive.plan(PROBLEMS[0])
    monkeypatch.setattr(engine, "in_turns", lambda *_arguments, **_options: 1 / 0)
    done = tenon()
    assert done.exit_code == 1
    assert "batch 1: today's engine fails: ZeroDivisionError" in done.stdout


async def test_plans_without_inputs_are_counted_with_their_reasons(archive: Archive, tenon: Tenon) -> None:
    await archive.plan(PROBLEMS[0])
    await archive.plan(PROBLEMS[1])
    await archive.plan(PROBLEMS[1], lacking="the inputs have 70000 pods, and at most 60000 are kept")
    digest = archive.entries[0].inputs
    (Path(f"{archive.path}.inputs") / "plans" / digest[:2] / f"{digest}.json.gz").unlink()
    done = tenon()
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "No decision changes: today's engine makes the same 1 plan.",
        "",
        "Not replayed:",
        "  1 plan: the inputs are not in the store any more",
        "  1 plan: the inputs have 70000 pods, and at most 60000 are kept",
    ]


async def test_only_the_newest_plans_of_the_time_are_replayed(archive: Archive, tenon: Tenon) -> None:
    for days in (40, 3, 2, 1):
        await archive.plan(PROBLEMS[1], at=NOW - timedelta(days=days))
    assert "the same 3 plans" in tenon().stdout
    assert "the same 4 plans" in tenon("--since", "50d").stdout
    assert "the same 1 plan." in tenon("--since", "36h").stdout
    assert "the same 2 plans" in tenon("--limit", "2").stdout
    assert "the same 2 plans" in tenon("--until", "36h").stdout
    assert tenon("--since", "yesterday").exit_code == 2


DRIFT = "DIS-03-a-drifted-node-is-replaced"
REPLACED = "DIS-13-another-value-of-do-not-disrupt-holds-nothing"
HELD = "DIS-13-do-not-disrupt-on-a-pod-holds-its-node"


async def test_the_same_engine_makes_the_same_disruption_decisions(archive: Archive, tenon: Tenon) -> None:
    for name in (DRIFT, REPLACED, HELD):
        await archive.decision(name)
    await archive.decision(HELD, lacking="the search ended before it had tried every node")
    done = tenon()
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "No disruption decision changes: today's engine makes the same 3 decisions.",
        "",
        "Not replayed:",
        "  1 decision: the search ended before it had tried every node",
    ]


async def test_a_weakened_rule_is_found(archive: Archive, tenon: Tenon, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that moves pods although `karpenter.sh/do-not-disrupt` protects them."""
    for name in (DRIFT, REPLACED, HELD):
        await archive.decision(name)
    table = {key: tuple(row for row in rows if row.name != "pod") for key, rows in blockers._APPLYING.items()}
    monkeypatch.setattr(blockers, "_APPLYING", table)
    done = tenon()
    assert done.exit_code == 1
    assert "1 of 3 disruption decisions changes: today's commands save $0." in done.stdout
    assert done.stdout.splitlines()[0].endswith(" an hour more in sum.")
    assert "0 commands for 0 nodes become 1 command for 1 node" in done.stdout
    assert "it takes what a rule kept: a (pod default/a-0-0: annotation karpenter.sh/do-not-disrupt" in done.stdout
    answer = json.loads(tenon("-o", "json").stdout)["disruption"]
    assert (answer["decisions"], answer["changed"], answer["regressions"]) == (3, 1, 1)
    assert answer["verdicts"] == {"same": 2, "takes-refused": 1}
    assert answer["changePerHour"] == pytest.approx(answer["worst"][0]["changePerHour"])


async def test_a_drifted_node_that_stays_and_a_lost_saving_are_found(
    archive: Archive, tenon: Tenon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drift has no saving to lose, so the nodes count; a lost saving counts in dollars."""
    for name in (DRIFT, REPLACED):
        await archive.decision(name)
    for method in (Drift, Consolidation):
        monkeypatch.setattr(method, "propose", lambda *_: Proposal())
    assert tenon().exit_code == 1
    answer = json.loads(tenon("-o", "json").stdout)["disruption"]
    assert answer["verdicts"] == {"fewer-nodes": 1, "saves-less": 1}
    assert json.loads(tenon("-o", "json", "--tolerance", "100").stdout)["disruption"]["regressions"] == 1


async def test_a_method_that_fails_is_found(archive: Archive, tenon: Tenon, monkeypatch: pytest.MonkeyPatch) -> None:
    await archive.decision(REPLACED)
    monkeypatch.setattr(Consolidation, "propose", lambda *_: 1 / 0)
    done = tenon()
    assert done.exit_code == 1
    assert "today's engine fails: consolidation: ZeroDivisionError" in done.stdout


def test_without_a_record_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CLUSTER_NAME", "TENON_RECORD", "RECORD_SINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TENON_SANDBOX_DIR", str(tmp_path / "no-sandbox"))
    done = CliRunner().invoke(app, [])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Name a file or s3://BUCKET/PREFIX with --record" in done.stderr
    done = CliRunner().invoke(app, ["--record", str(tmp_path / "none.jsonl")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "none.jsonl cannot be read: No such file or directory" in done.stderr
