"""`PreloadedCommand`: commands that fork from a process with loaded modules behave as those of a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.preloaded_command import PreloadedCommand

pytestmark = pytest.mark.integration
SECONDS = 280


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PreloadedCommand]:
    running = PreloadedCommand(tmp_path_factory.mktemp("tenon"))
    yield running
    running.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("node", "list", "--help"),
        ("convert", "-f", "no-such-file.yaml"),
        ("no-such-command",),
    ],
    ids=" ".join,
)
def test_a_command_answers_as_in_a_process_of_its_own(command: PreloadedCommand, arguments: tuple[str, ...]) -> None:
    env = {"PATH": os.environ["PATH"], "COLUMNS": "100"}
    alone = subprocess.run(
        [sys.executable, "-m", "cli", *arguments], env=env, capture_output=True, text=True, check=False
    )
    preloaded = command.run(arguments, env, SECONDS)
    assert (preloaded.returncode, preloaded.stdout, preloaded.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_each_command_has_only_its_own_environment(command: PreloadedCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "of-the-test")

    def cluster_name(environment: dict[str, str]) -> str | None:
        rows = json.loads(command.run(("settings", "-o", "json"), environment, SECONDS).stdout)["settings"]
        value: str | None = next(row["value"] for row in rows if row["name"] == "CLUSTER_NAME")
        return value

    with ThreadPoolExecutor() as threads:
        names = threads.map(cluster_name, [{"CLUSTER_NAME": "a"}, {"CLUSTER_NAME": "b"}, {}])
    assert [*names] == ["a", "b", None]


def test_a_command_runs_in_the_folder_of_its_caller(
    command: PreloadedCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pool.yaml").write_text("kind: NodePool\napiVersion: karpenter.sh/v9\n")
    monkeypatch.chdir(tmp_path)
    assert "karpenter.sh/v9" in command.run(("validate", "-f", "pool.yaml"), {}, SECONDS).stdout


def test_a_command_that_does_not_end_in_time_is_killed(command: PreloadedCommand, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never-written")
    with pytest.raises(subprocess.TimeoutExpired):
        command.run(("validate", "-f", str(tmp_path / "never-written")), {}, 1)
