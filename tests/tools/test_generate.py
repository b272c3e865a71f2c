"""``make generate`` where its files cannot be written, or hold what is no text."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tenon.provisioning.gates import AWS_GATES, GATES
from tools.generate import app
from worker.settings import Settings
from worker.settings.chart_names import OTHER_VALUE_NAMES, gate_value_name, value_name

FRESH = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FRESH)


def test_a_file_that_is_no_text_is_stale(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["--directory", str(tmp_path)]).exit_code == 0
    broken = sorted(tmp_path.iterdir())[0]
    broken.write_bytes(b"\xff\xfe")
    answer = CliRunner().invoke(app, ["--check", "--directory", str(tmp_path)])
    assert (answer.exit_code, broken.name in answer.stderr) == (1, True)


def test_a_file_in_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    answer = CliRunner().invoke(app, ["--directory", str(file)])
    assert answer.exit_code == 2
    assert answer.stderr == f"{file}: cannot be written: File exists\n"


def test_the_values_of_the_chart_have_each_setting_and_gate() -> None:
    """One without a value there works, but nobody who reads the values learns of it."""
    settings = yaml.safe_load((FRESH / "deploy/chart/values.yaml").read_text())["settings"]
    fields = {field: value_name(field) for field in Settings.model_fields if field not in OTHER_VALUE_NAMES}
    assert set(fields.values()) <= settings.keys()
    assert set(map(gate_value_name, GATES)) <= settings["featureGates"].keys()
    assert set(map(gate_value_name, AWS_GATES)) <= settings["awsFeatureGates"].keys()
    default_values = {field: settings[name] for field, name in fields.items()} | {"cluster_name": "production"}
    assert Settings.model_validate(default_values) == Settings(cluster_name="production"), "the values are the defaults"
