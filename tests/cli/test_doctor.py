"""`tenon doctor` where nothing that a worker needs is there."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cli.doctor import app


def test_without_a_cluster_doctor_says_what_is_missing(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"
    nothing = {"KUBECONFIG": str(missing), "TEMPORAL_ADDRESS": "127.0.0.1:9", "CLUSTER_NAME": ""}
    nothing["TENON_SANDBOX_DIR"] = str(tmp_path)
    answer = CliRunner().invoke(app, ["-o", "json"], env=nothing)
    assert answer.exit_code == 1, answer.output
    found = {each["check"]: each for each in json.loads(answer.stdout)}
    assert {check: each["state"] for check, each in found.items()} == dict.fromkeys(
        ("API server", "settings", "Temporal"), "fault"
    )
    assert str(missing) in found["API server"]["sentence"]
    assert "CLUSTER_NAME" in found["settings"]["sentence"]
