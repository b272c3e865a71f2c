"""The documents mark command blocks that anybody can run without a cluster. Each command of them works as it stands.

The line `<!-- runnable -->` marks the next block. If lines of the block begin with `$ `, these are its commands, and
the lines below each are what it prints. Otherwise each line is a command.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, name_of, text_of

MARK = "<!-- runnable -->"
INDENT = "    "
PROMPT = "$ "
FOLDERS = ("deploy", "docs", "examples")
SECONDS = 60
"""Each command needs a second or two. This is for a machine that does much else."""
LEAST = 10
"""Marked commands. Fewer mean that the search no longer finds them."""


@dataclass(frozen=True)
class Command:
    place: str
    text: str
    prints: tuple[str, ...] | None = None
    """The lines that the document shows; None if it shows none."""


def blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """The marked blocks: the number of the first line, and the lines without the indentation or the fence."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line != MARK:
            continue
        start = next((at for at in range(number + 1, len(lines)) if lines[at].strip()), len(lines) - 1)
        if lines[start].startswith("```"):
            end = next(at for at in range(start + 1, len(lines)) if lines[at].startswith("```"))
            yield start + 2, lines[start + 1 : end]
        else:
            end = start
            while end < len(lines) and (lines[end].startswith(INDENT) or not lines[end].strip()):
                end += 1
            yield start + 1, [each.removeprefix(INDENT) for each in lines[start:end]]


def commands(place: str, text: str) -> list[Command]:
    found = []
    for number, lines in blocks(text):
        if not any(line.startswith(PROMPT) for line in lines):
            joined = "\n".join(lines).replace("\\\n", " ").splitlines()
            found += [Command(f"{place}:{number}", line.strip()) for line in joined if line.strip()]
            continue
        for part in "\n".join(lines).removeprefix(PROMPT).split(f"\n{PROMPT}"):
            command, *prints = part.rstrip().splitlines()
            found.append(Command(f"{place}:{number}", command, tuple(prints) or None))
    return found


COMMANDS = [each for document in DOCUMENTS for each in commands(name_of(document), text_of(document))]


@pytest.mark.parametrize("command", COMMANDS, ids=[f"{each.place} {each.text[:60]}" for each in COMMANDS])
def test_each_command_of_a_runnable_block_works(command: Command, tmp_path: Path) -> None:
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    programs = Path(sys.executable).parent
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(programs)
    answer = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.text],
        cwd=tmp_path,
        # No kubeconfig, credentials or settings of the machine that runs the test.
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
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
        marks = sum(line.strip() == MARK for line in text_of(document).splitlines())
        found = [lines for _, lines in blocks(text_of(document)) if any(line.strip() for line in lines)]
        assert len(found) == marks, f"{name_of(document)}: a mark has no block of commands below it"


def test_commands_of_a_block() -> None:
    text = f"Do it:\n\n{MARK}\n\n    one \\\n      two\n    three\n\nText.\n\n{MARK}\n```sh\nfour\n```\n"
    assert [each.text for each in commands("page", text)] == ["one    two", "three", "four"]


def test_output_that_a_block_shows() -> None:
    text = f"{MARK}\n\n    $ one\n    1\n    2\n    $ two\n\nText.\n"
    assert commands("page", text) == [Command("page:3", "one", ("1", "2")), Command("page:3", "two")]
