"""`docs/reference.md` explains the rows that tests, scenarios, code and pages cite, and no others.

A row has an id such as `SCH-071` or `NP-V4`. Text and file names cite it as it is or as a range (`EC-S1..S9`). The name
of a test cites it in lower case: `test_sch071_...`, `test_ecs7_...`, `..._sch_003_096`, `test_gat01_to_gat06_...`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "reference.md"
PRODUCT = ("tenon", "workflows", "activities", "worker", "sandbox", "cli")
FOLDERS = (*PRODUCT, "tests", "docs", "benchmarks", "deploy", "examples", "tools")
SUFFIXES = frozenset({".py", ".md", ".yaml", ".yml"})
NOT_ROWS = frozenset({"KEP-753", "SHA-256", "UTF-16"})
"""Texts that look like a row and are none."""
UNUSED = frozenset({"SET-19", *(f"LEG-{number}" for number in (*range(16, 20), *range(23, 30), *range(44, 50)))})
"""Numbers inside cited ranges that have no row."""
MAX_LENGTH = 160
MIN_ROWS = 500
"""Cited rows. Fewer mean that the search no longer finds them."""

ROW = r"[A-Z][A-Z0-9]{1,2}-(?:[SV]\d{1,2}|\d{2,3})(?!\d)"
LINE = re.compile(rf"^\| ({ROW}|[A-Z]\d) \| (.+) \|$", re.MULTILINE)
CITED = re.compile(rf"(?<![\w-])({ROW})(?:\.\.((?:[A-Z][A-Z0-9]{{1,2}}-)?[SV]?\d+)| to ({ROW}))?(?!\w)")
TEST_NAME = re.compile(r"\bdef (test_\w+)")
FINDING = re.compile(r"test_([chms]\d)_")
"""A test that answers a finding of a review begins with the finding's id."""


def test_each_cited_row_has_a_line_in_the_reference() -> None:
    rows = dict(_lines())
    cited = _citations(rows)
    assert len(cited) >= MIN_ROWS
    missing = {row: sorted(files) for row, files in cited.items() if row not in rows}
    assert not missing, f"add a line to {PAGE.name}, or to NOT_ROWS what is no row: {missing}"


def test_each_line_of_the_reference_is_cited() -> None:
    rows = dict(_lines())
    unused = sorted(rows.keys() - _citations(rows).keys())
    assert not unused, f"nothing cites these rows, remove them from {PAGE.name}: {unused}"


def test_each_row_of_aws_is_in_the_parity_tables_and_has_a_test() -> None:
    """The tables say of each row what works and which test shows it, so a row without a test would be a claim."""
    cited = _citations(rows := dict(_lines()))
    of_aws = [row for row in rows if row.startswith("AWS-")]
    assert len(of_aws) > 100
    assert [row for row in of_aws if "docs/parity.md" not in cited[row]] == []
    assert [row for row in of_aws if not any(file.startswith("tests/") for file in cited[row])] == []


def test_a_line_of_the_reference_is_one_short_sentence() -> None:
    lines = _lines()
    assert [row for row, count in Counter(row for row, _ in lines).items() if count > 1] == [], "listed twice"
    assert [row for row, sentence in lines if len(sentence) > MAX_LENGTH or not sentence.endswith(".")] == []


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SCH-071-a-volume.yaml", ["SCH-071"]),
        ("(NP-V4, EC-S10): see NP-12 to 5 minutes", ["NP-V4", "EC-S10", "NP-12"]),
        ("EC-S9..S11 and AWS-009..011", ["EC-S9", "EC-S10", "EC-S11", "AWS-009", "AWS-010", "AWS-011"]),
        ("V1B-01 to V1B-03, SCH-040..SCH-041", ["V1B-01", "V1B-02", "V1B-03", "SCH-040", "SCH-041"]),
        ("LEG-15..20", ["LEG-15", "LEG-20"]),
        ("UTF-8, KEP-753, P-256, m5-12", []),
    ],
)
def test_rows_in_a_text(text: str, rows: list[str]) -> None:
    assert set(_in_text(text)) == set(rows)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("test_sch071_a_volume", ["SCH-071"]),
        ("test_nps5_ecs11_columns", ["NP-S5", "EC-S11"]),
        ("test_pods_that_cannot_be_planned_sch_003_096", ["SCH-003", "SCH-096"]),
        ("test_gat01_to_gat03_defaults", ["GAT-01", "GAT-02", "GAT-03"]),
        ("test_h7_two_clusters", ["H7"]),
        ("test_v1_that_ec2_refuses_after_10_minutes", []),
    ],
)
def test_rows_in_the_name_of_a_test(name: str, rows: list[str]) -> None:
    assert set(_in_test_name(name, {"SCH": 3, "NP": 2, "EC": 2, "GAT": 2})) == set(rows)


def _lines() -> list[tuple[str, str]]:
    return LINE.findall(PAGE.read_text())


def _citations(rows: Iterable[str]) -> Mapping[str, set[str]]:
    """Each cited row with the files that cite it."""
    families = {family: len(number) for family, kind, number in map(_parts, rows) if family and not kind}
    names: dict[str, set[str]] = defaultdict(set)
    for path in _files():
        file = str(path.relative_to(REPOSITORY))
        text = path.read_text()
        for row in _in_text(f"{file}\n{text}"):
            names[row].add(file)
        for name in TEST_NAME.findall(text):
            for row in _in_test_name(name, families):
                names[row].add(file)
    return names


def _files() -> Iterator[Path]:
    yield from REPOSITORY.glob("*.md")
    for folder in FOLDERS:
        for path in (REPOSITORY / folder).rglob("*"):
            if path.suffix in SUFFIXES and path not in {PAGE, Path(__file__)}:
                yield path


def _in_text(text: str) -> Iterator[str]:
    for first, short, full in CITED.findall(text):
        if first not in NOT_ROWS:
            yield from _range(first, full or short)


def _in_test_name(name: str, families: Mapping[str, int]) -> Iterator[str]:
    """`families` has the number of digits of each family, which tells `ec07` from `ec2`."""
    if finding := FINDING.match(name):
        yield finding[1].upper()
    family, last, up_to = "", "", False
    for word in name.split("_"):
        if row := _as_row(word, family, families):
            yield from _range(last, row) if up_to else (row,)
            family, last, up_to = _parts(row)[0], row, False
        else:
            up_to = word == "to" and last != ""
            family = word.upper() if word.upper() in families else ""
            last = last if up_to else ""


def _as_row(word: str, family: str, families: Mapping[str, int]) -> str | None:
    """The row that a word names: `sch071`, or `096` after another row of its family."""
    for key, digits in families.items():
        if match := re.fullmatch(rf"{key.lower()}([sv]\d{{1,2}}|\d{{{digits}}})", word):
            return f"{key}-{match[1].upper()}"
    return f"{family}-{word}" if family and re.fullmatch(rf"\d{{{families[family]}}}", word) else None


def _range(first: str, last: str) -> Iterator[str]:
    """All rows from `first` to `last`, which may lack the family; `first` alone if `last` is empty."""
    family, kind, number = _parts(first)
    end = _parts(last)[2] if last else number
    for item in range(int(number), int(end) + 1):
        row = f"{family}-{kind}{item:0{len(number)}}"
        if row not in UNUSED:
            yield row


def _parts(row: str) -> tuple[str, str, str]:
    """Family, kind (S, V or none) and number; a finding has no family."""
    match = re.fullmatch(r"(?:(\w+)-)?([A-Z]?)(\d+)", row)
    assert match, f"{row!r} is not the id of a row"
    return match[1] or "", match[2], match[3]
