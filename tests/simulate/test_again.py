"""A problem that the worker wrote is solved again by ``tenon simulate --problem``."""

from __future__ import annotations

import gzip
from pathlib import Path

from typer.testing import CliRunner

from cli.simulate import app
from tenon.provisioning.problem_json import to_json
from tests.tenon.scheduling.builders import node, pod, pool, problem


def test_a_problem_is_solved_again(tmp_path: Path) -> None:
    value = problem([pod("small", "500m"), pod("large", "60"), pod("huge", "5000")], pool(), nodes=[node("n1")])
    path = tmp_path / "problem-1.json.gz"
    path.write_bytes(gzip.compress(to_json(value)))
    done = CliRunner().invoke(app, ["--problem", str(path)])
    assert done.exit_code == 0
    first, second, third = done.stdout.splitlines()
    assert first.startswith("buy for default/large: ")
    assert second == "on n1: default/small"
    assert third.startswith("no place for default/huge: NodePool default: ")


def test_what_is_no_problem_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    for content in (b"text", gzip.compress(b"{}"), gzip.compress(b"x")[:-4]):
        path.write_bytes(content)
        done = CliRunner().invoke(app, ["--problem", str(path)])
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"{path} cannot be read: " in done.stderr


def test_options_that_a_problem_has_no_use_for_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "problem-1.json.gz"
    path.write_bytes(gzip.compress(to_json(problem([pod("small", "500m")], pool()))))
    done = CliRunner().invoke(app, ["--problem", str(path), "-f", "a.yaml", "-o", "json"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "leave out --filename, --output" in " ".join(done.stderr.split())
