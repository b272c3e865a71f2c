"""Finds the blocks of commands in the documents that a test runs.

The line `<!-- runnable -->` marks the next block: anybody can run it without a cluster.
`<!-- runnable on the sandbox -->` marks one that needs a sandbox with a worker. If lines of the block begin with `$ `,
these are its commands, and the lines below each are what it prints. Otherwise each line is a command.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.documents import ROOT

ANYWHERE = "<!-- runnable -->"
ON_SANDBOX = "<!-- runnable on the sandbox -->"
INDENT = "    "
PROMPT = "$ "
FOLDERS = ("deploy", "docs", "examples")


@dataclass(frozen=True)
class Command:
    place: str
    text: str
    prints: tuple[str, ...] | None = None
    """The lines that the document shows; None if it shows none."""


def blocks(text: str, mark: str = ANYWHERE) -> Iterator[tuple[int, list[str]]]:
    """The marked blocks: the number of the first line, and the lines without the indentation or the fence."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line != mark:
            continue
        start = next((at for at in range(number + 1, len(lines)) if lines[at].strip()), len(lines) - 1)
        if lines[start].startswith("```"):
            end = next(at for at in range(start + 1, len(lines)) if lines[at].startswith("```"))
            yield start + 2, lines[start + 1 : end]
        else:
            end = start
            while end < len(lines) and (lines[end].startswith(INDENT) or not lines[end].strip()):
                end += 1
            yield start + 1, [line.removeprefix(INDENT) for line in lines[start:end]]


def commands(place: str, text: str, mark: str = ANYWHERE) -> list[Command]:
    result = []
    for number, lines in blocks(text, mark):
        if not any(line.startswith(PROMPT) for line in lines):
            joined = "\n".join(lines).replace("\\\n", " ").splitlines()
            result += [Command(f"{place}:{number}", line.strip()) for line in joined if line.strip()]
            continue
        for part in "\n".join(lines).removeprefix(PROMPT).split(f"\n{PROMPT}"):
            command, *prints = part.rstrip().splitlines()
            result.append(Command(f"{place}:{number}", command, tuple(prints) or None))
    return result


def folder_of_a_reader(folder: Path) -> str:
    """Make ``folder`` a copy of what commands name. Returns the PATH on which they find ``tenon`` and ``kubectl``."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    programs = Path(sys.executable).parent
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(programs)
    return f"{programs}:/usr/bin:/bin"
