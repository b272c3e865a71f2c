"""The order in which a run takes test files: those that need longest first, so that no process works alone at the end.

`slow_files.json` says how long the slow ones take. ``python -m tests.file_order build/test-records`` writes it from
what `make test` recorded. ``--random-files SEED`` takes the files in random order instead, to find tests that rely on
what another file did. Only the slowest files of each folder still come first, in random order too.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.sandbox_fixture import TESTS, needs_sandbox

TABLE = Path(__file__).with_name("slow_files.json")
SLOW_SECONDS = 15.0
"""A file that takes less is not in the table: its place makes no difference."""
SLOWEST_SECONDS = 100.0
"""A file that takes longer would keep a run waiting for minutes if a random order began it last."""


def in_order(items: list[pytest.Item], seed: int | None) -> list[pytest.Item]:
    """The tests file by file.

    Files that need a sandbox come last, because an unused one takes processor time from the other tests. Of these,
    files with a test that must be alone come first: other processes have no sandbox then. Files of a folder follow each
    other, because they share a worker: in mixed order each process starts a worker again for almost every file.
    """
    alone = {item.path for item in items if item.get_closest_marker("alone") is not None}
    files = list(dict.fromkeys(item.path for item in items))
    seconds: dict[str, float] = json.loads(TABLE.read_text(encoding="utf-8"))
    if seed is None:
        files.sort(key=lambda file: -seconds.get(_name(file), 0.0))
    else:
        random.Random(seed).shuffle(files)
        files.sort(key=lambda file: seconds.get(_name(file), 0.0) < SLOWEST_SECONDS)
    without = [file for file in files if not needs_sandbox(file)]
    on_sandbox = [file for file in files if needs_sandbox(file)]
    folders = list(dict.fromkeys(file.parent for file in on_sandbox))
    on_sandbox.sort(key=lambda file: (file not in alone, folders.index(file.parent)))
    place = {file: number for number, file in enumerate([*without, *on_sandbox])}
    return sorted(items, key=lambda item: place[item.path])


def measured(records: Path, earlier: Mapping[str, float]) -> dict[str, float]:
    """How long the slow files took, in seconds, by the records of a run; the slowest first.

    A file that the run did not take, such as a drill, is as slow as ``earlier`` says.
    """
    from tests.audit import read

    seconds = defaultdict[str, float](float)
    for run in read(records):
        for test in run.tests:
            seconds[test.test.partition("::")[0].removeprefix("tests/")] += test.ended - test.began
    slowest = sorted({**earlier, **seconds}.items(), key=lambda second: -second[1])
    return {file: round(occupancy) for file, occupancy in slowest if occupancy >= SLOW_SECONDS}


def _name(file: Path) -> str:
    return file.relative_to(TESTS).as_posix() if file.is_relative_to(TESTS) else str(file)


# --- pytest ---


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--random-files", type=int, metavar="SEED", help="take the test files in random order")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = in_order(items, config.getoption("random_files"))


if __name__ == "__main__":
    table = measured(Path(sys.argv[1]), json.loads(TABLE.read_text(encoding="utf-8")))
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
