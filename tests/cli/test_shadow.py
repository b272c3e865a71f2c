"""The state of ``tenon shadow`` on disk, and its report in a terminal."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from activities import loggers
from cli.shadow import app
from cli.shadowing.inputs import InputsError, read_inputs
from cli.shadowing.metrics import ShadowMetrics
from cli.shadowing.store import ShadowFile, StoreError
from cli.shadowing.table import fitting, show
from cli.shadowing.warning_lines import shown_warnings
from tenon.shadow.cluster import Disturbance
from tenon.shadow.ledger import Ledger, Rates
from tenon.shadow.report import Risks, document
from tenon.shadow.saved import VERSION, ShadowTotals, node_text, places_of
from tests.tenon.shadow.models import NOW, Steps, live, node_pool
from tests.tenon.shadow.test_report import TWO, a_report, comparison

PAGE = Path(__file__).parents[2] / "docs" / "shadow.md"


def a_model(count: int = 5) -> Steps:
    steps = Steps()
    steps.feed(*(live(f"web-{number}") for number in range(count)))
    steps.pass_time(2)
    return steps


def totals(steps: Steps, version: int = VERSION) -> ShadowTotals:
    ledger = Ledger()
    ledger.note(NOW, Rates(1.0, 0.5, 2, 1))
    return ShadowTotals(version, "uid", steps.cluster.bought, steps.cluster.disturbance, Disturbance(), ledger)


def test_the_file_has_what_was_written_and_forgets_what_is_gone(tmp_path: Path) -> None:
    steps = a_model()
    store = ShadowFile(tmp_path / "shadow.db")
    store.save(steps.cluster, totals(steps))
    steps.feed(ended=["uid-web-0"])
    steps.feed(live("huge", cpu="60"))
    steps.pass_time(2)
    store.save(steps.cluster, totals(steps))
    store.close()

    again = ShadowFile(tmp_path / "shadow.db")
    nodes, places = again.model()
    assert sorted(nodes) == sorted(node_text(node) for node in steps.cluster.nodes.values())
    assert places == places_of(steps.cluster)
    assert again.totals() == totals(steps)
    steps.cluster.nodes.clear()
    steps.cluster.pods.clear()
    again.save(steps.cluster, totals(steps))
    assert again.model() == ([], {})
    again.close()


@pytest.mark.parametrize("version", [1, VERSION + 1])
def test_a_file_of_another_version_is_refused(tmp_path: Path, version: int) -> None:
    """In a file of the first version, the places of pods have no creation."""
    steps = a_model(1)
    store = ShadowFile(tmp_path / "shadow.db")
    store.save(steps.cluster, totals(steps, version=version))
    with pytest.raises(StoreError, match="name another file with --state"):
        store.totals()
    store.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shadow.db"
    file.write_text("not a database, but long enough to be one of some other kind" * 20)
    with pytest.raises(StoreError, match="cannot be used as the state"):
        ShadowFile(file)


def test_a_second_shadow_does_not_begin_the_file_of_the_first_again(tmp_path: Path) -> None:
    """It would clear the sums of hours, and both would write their models into one file."""
    file = tmp_path / "shadow.db"
    first = ShadowFile(file, exclusive=True)
    with pytest.raises(StoreError, match=r"Another tenon shadow watches with .*shadow\.db: .* --last"):
        ShadowFile(file, exclusive=True)
    ShadowFile(file).close()
    first.close()
    ShadowFile(file, exclusive=True).close()


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    steps = a_model()
    store = ShadowFile(tmp_path / "shadow.db")
    store.save(steps.cluster, totals(steps))
    before = store.model()
    steps.feed(ended=[f"uid-web-{number}" for number in range(5)])
    store._database.execute("CREATE TRIGGER fails BEFORE INSERT ON totals BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(sqlite3.Error):
        store.save(steps.cluster, totals(steps))
    assert store.model() == before
    store.close()


def test_the_last_report_needs_no_cluster(tmp_path: Path) -> None:
    file = tmp_path / "shadow.db"
    missing = CliRunner().invoke(app, ["--last", "--state", str(file)])
    assert missing.exit_code == 2
    assert "--state names the file" in missing.stderr
    store = ShadowFile(file)
    store.save_report(json.dumps(document(a_report())))
    store.close()
    printed = CliRunner().invoke(app, ["--last", "--state", str(file), "-o", "json"])
    assert json.loads(printed.stdout)["cost"]["savedDollars"] == pytest.approx(2.0)
    page = CliRunner().invoke(app, ["--last", "--state", str(file), "-o", "html"])
    assert page.stdout.startswith("<!doctype html>")


def test_a_last_report_of_another_version_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "shadow.db"
    report = document(a_report())
    del report["purchases"]
    store = ShadowFile(file)
    store.save_report(json.dumps(report))
    store.close()
    for form in ("table", "html"):
        refused = CliRunner().invoke(app, ["--last", "--state", str(file), "-o", form])
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr == f"The report in {file} is of another version of Tenon: -o json prints it as it is\n"


@pytest.mark.parametrize("table", ["report (day TEXT)", "other (id INTEGER)"])
def test_the_last_report_of_another_database_is_a_sentence_and_changes_nothing(tmp_path: Path, table: str) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"CREATE TABLE {table}")
    before = file.read_bytes()
    refused = CliRunner().invoke(app, ["--last", "--state", str(file)])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"{file} cannot be used as the state of tenon shadow: no such ")
    assert file.read_bytes() == before


def test_the_table_has_both_and_what_differs() -> None:
    console = Console(width=200, record=True, force_terminal=False)
    with console.capture() as printed:
        show(document(a_report()), console)
    text = printed.get()
    for part in ("Karpenter", "Tenon", "lower bound", "m5.4xlarge", "Underutilized", "would have saved $2.0000"):
        assert part in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 40), (120, 60), (200, 24)])
def test_the_live_report_fits_the_screen_and_says_what_it_leaves_out(width: int, height: int) -> None:
    """Risks and notes are at its end, which the screen would cut off."""
    shadow_report = a_report(risks=Risks({}, [], ["NodePool a: left out"]))
    for number in range(12):
        shadow_report.totals.compared(comparison(ours=replace(TWO, price=0.1 + number / 100)))
    report = document(shadow_report)
    console = Console(width=width, height=height, force_terminal=False)
    with console.capture() as printed:
        console.print(fitting(report, console))
    lines = printed.get().splitlines()
    assert len(lines) < height
    assert "- NodePool a: left out" in lines
    _, _, time = report["purchases"]["differMost"][0]["at"].partition("T")
    assert ("more purchase" in printed.get()) == (printed.get().count(time) < 10)


def test_times_of_the_same_day_stay_on_one_line() -> None:
    report = document(a_report())
    console = Console(width=80, force_terminal=False)
    with console.capture() as printed:
        show(report, console)
    day, _, time = report["purchases"]["differMost"][0]["at"].partition("T")
    assert f" {time} " in printed.get()
    assert day not in printed.get()


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {}\n")
    with pytest.raises(InputsError, match=r"pool\.yaml"):
        read_inputs([str(file)], None, [])
    with pytest.raises(InputsError, match="NODE_CHARGE must be"):
        read_inputs([], None, ["NODE_CHARGE=-1"])


def test_the_fingerprint_says_whether_the_options_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    assert read_inputs([], None, []).fingerprint == ""
    fingerprints = {read_inputs([], None, ["NODE_CHARGE=0.01"]).fingerprint}
    for name in ("a", "b", "a"):
        pool = node_pool().model_dump(by_alias=True, exclude_none=True, mode="json")
        file.write_text(json.dumps({**pool, "metadata": {"name": name}}))
        fingerprints.add(read_inputs([str(file)], None, []).fingerprint)
    assert len(fingerprints) == 3


def test_a_warning_says_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_warnings():
        loggers.CACHE.warning("The watch failed", extra={"resource": "pods", "error": "HTTP 503"})
        loggers.CACHE.info("The watch works again", extra={"resource": "pods"})
        loggers.PRICING.warning("Prices may be wrong")
    assert capsys.readouterr().err == "The watch failed: pods, HTTP 503\n"


def test_the_metrics_are_those_that_the_page_names() -> None:
    metrics = ShadowMetrics()
    metrics.update(document(a_report()))
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
    }
    assert values["tenon_shadow_price_per_hour_dollars", "karpenter"] == 3.0
    assert values["tenon_shadow_price_per_hour_dollars", "tenon"] == 2.0
    assert values["tenon_shadow_saved_dollars",] == pytest.approx(2.0)
    assert values["tenon_shadow_nodes_removed", "tenon", "Empty"] == 2.0
    documented = set(re.findall(r"`(tenon_shadow_\w+)`", PAGE.read_text()))
    assert {name for name, *_ in values} == documented
