"""Manifests of every age next to what ``tenon convert`` prints for them, each read against the reference of its rows.

To record one again, delete its ``.out.yaml`` and run this test twice; read what was written before it is kept.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tenon.manifests.checking import check
from tenon.manifests.converting import convert, joined

GOLDEN = Path("tests/convert/golden")
PAIRS = sorted(path.name.removesuffix(".in.yaml") for path in GOLDEN.glob("*.in.yaml"))
ROWS = [
    *(f"LEG-{number:02}" for number in (*range(1, 16), *range(20, 23), *range(30, 44), *range(50, 53))),
    *(f"V1B-{number:02}" for number in range(1, 20)),
]
"""V1B-20 to V1B-23 are about no field: `test_rows_without_a_field`."""


def converted(text: str) -> str:
    """What is printed for a file without faults."""
    output = convert([("in.yaml", text)])
    assert output.findings == []
    return joined(output.files["in.yaml"])


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_printed(name: str) -> None:
    written = GOLDEN / f"{name}.out.yaml"
    result = converted((GOLDEN / f"{name}.in.yaml").read_text())
    if not written.exists():
        written.write_text(result)
        pytest.fail(f"{written} was missing: it is recorded now and wants to be read")
    assert result == written.read_text()


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_printed_is_sound_and_of_today(name: str) -> None:
    """Nothing in it is refused or of an older version, and converting it again changes nothing."""
    text = (GOLDEN / f"{name}.out.yaml").read_text()
    result = check([("out.yaml", text)])
    assert [str(finding) for finding in result.faults] == []
    assert not [finding for finding in result.warnings if "`tenon convert`" in finding.sentence]
    assert converted(text) == text


@pytest.mark.parametrize("row", ROWS)
def test_each_row_has_a_pair(row: str) -> None:
    assert [name for name in PAIRS if row in re.findall(r"(?:LEG|V1B)-\d\d", name)]


def test_there_is_nothing_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {
        f"{name}.{side}.yaml" for name in PAIRS for side in ("in", "out")
    }
