"""The documents mark command blocks that anybody can run without a cluster. Each command of them works as it stands.

`tests.docs.runnable` says how they are marked. Those that need a sandbox run in `tests/e2e/test_documents.py`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, name_of, text_of
from tests.docs.runnable import ANYWHERE, ON_SANDBOX, Command, blocks, commands, folder_of_a_reader

SECONDS = 60
"""Each command needs a second or two. This is for a machine that does much else."""
LEAST = 10
"""Marked commands. Fewer mean that the search no longer finds them."""

COMMANDS = [command for document in DOCUMENTS for command in commands(name_of(document), text_of(document))]


@pytest.mark.integration
@pytest.mark.parametrize("command", COMMANDS, ids=[f"{command.place} {command.text[:60]}" for command in COMMANDS])
def test_each_command_of_a_runnable_block_works(command: Command, tmp_path: Path) -> None:
    path = folder_of_a_reader(tmp_path)
    answer = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.text],
        cwd=tmp_path,
        # No kubeconfig, credentials or settings of the machine that runs the test.
        env={"PATH": path, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert answer.returncode == 0, f"{command.place}: {command.text}\n{answer.stdout}\n{answer.stderr}"
    if command.prints is not None:
        assert tuple(line.rstrip() for line in answer.stdout.rstrip().splitlines()) == command.prints


def test_marked_blocks_are_found() -> None:
    assert len(COMMANDS) >= LEAST
    for document in DOCUMENTS:
        for mark in (ANYWHERE, ON_SANDBOX):
            marks = sum(line.strip() == mark for line in text_of(document).splitlines())
            result = [lines for _, lines in blocks(text_of(document), mark) if any(line.strip() for line in lines)]
            assert len(result) == marks, f"{name_of(document)}: a mark has no block of commands below it"


def test_commands_of_a_block() -> None:
    text = f"Do it:\n\n{ANYWHERE}\n\n    one \\\n      two\n    three\n\nText.\n\n{ANYWHERE}\n```sh\nfour\n```\n"
    assert [command.text for command in commands("page", text)] == ["one    two", "three", "four"]


def test_output_that_a_block_shows() -> None:
    text = f"{ANYWHERE}\n\n    $ one\n    1\n    2\n    $ two\n\nText.\n"
    assert commands("page", text) == [Command("page:3", "one", ("1", "2")), Command("page:3", "two")]
