"""The documents name files, modules, tests and headings. All of them exist: a rename must not leave readers behind."""

import re
from functools import cache
from pathlib import Path

import pytest

from activities.tracing.catalogue import Attribute
from tenon.apis.reasons import Reason, camel_case
from tenon.ec2.instances.interruption import NoticeKind
from tests.declared_metrics import declared
from tests.docs.documents import DOCUMENTS, FENCED, ROOT, anchors, name_of, text_of

PACKAGES = ("activities", "benchmarks", "cli", "sandbox", "tenon", "tests", "tools", "worker", "workflows")
FOLDERS = (*PACKAGES, "deploy", "docs", "examples")
QUOTED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?(?:::\w+)?")
MODULE = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
CODE = {".py", ".yaml", ".txt", ".tpl"}
# Built by `make`, never committed.


BUILT = {".venv/bin"}


@cache
def file_names() -> frozenset[str]:
    return frozenset(path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file())


def broken_link(document: Path, link: str) -> bool:
    if link.startswith(("http:", "https:")):
        return False
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


def missing_path(document: Path, text: str) -> bool:
    """Whether a text between backticks is meant as a path of this repository and leads nowhere."""
    path, _, test = text.partition("::")
    endswith = path.endswith(".py") or (path.split("/")[0] in FOLDERS and "/" in path) or bool(test)
    if not PATH.fullmatch(text) or not endswith or path in BUILT:
        return False
    # docs/parity.md names tests from tests/ on. A bare file name belongs to the folder that its sentence is about.
    roots = [ROOT, ROOT / "tests", document.parent]
    result = [root / path for root in roots if (root / path).exists()]
    if not result:
        return "/" in path or path not in file_names()
    return bool(test) and not any(re.search(rf"^(async )?def {test}\(", text_of(file), re.MULTILINE) for file in result)


def missing_module(text: str) -> bool:
    """Whether a dotted name of this repository names neither a module nor something in one."""
    if not MODULE.fullmatch(text) or text in set(Attribute):
        return False
    parts = text.split(".")
    for length in (len(parts), len(parts) - 1):
        folder = ROOT.joinpath(*parts[:length])
        for file in (folder.with_suffix(".py"), folder / "__init__.py"):
            if file.exists():
                rest = parts[length:]
                return bool(rest) and re.search(rf"\b{rest[0]}\b", text_of(file)) is None
    return True


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = LINK.findall(FENCED.sub("", text_of(document)))
    assert [link for link in links if broken_link(document, link)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_file_test_and_module_exists(document: Path) -> None:
    quoted = [word for text in QUOTED.findall(FENCED.sub("", text_of(document))) for word in text.split()]
    assert [text for text in quoted if missing_path(document, text) or missing_module(text)] == []


def test_every_document_that_the_code_names_exists() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    files = [path for path in paths if path.suffix in CODE and path.is_file()]
    name_ofs = {(name_of(path), name) for path in files for name in re.findall(r"\bdocs/[\w-]+\.md", text_of(path))}
    assert [(path, name) for path, name in name_ofs if not (ROOT / name).exists()] == []
    assert name_ofs


def test_the_readme_lists_every_document() -> None:
    readme = text_of(ROOT / "README.md")
    assert [path.name for path in sorted((ROOT / "docs").glob("*.md")) if f"(docs/{path.name}" not in readme] == []


def test_contributing_says_what_each_package_and_module_of_tenon_is_for() -> None:
    layers = (
        text_of(ROOT / "CONTRIBUTING.md")
        .split("each package imports only those below it:")[1]
        .split("Inside `worker/`")[0]
    )
    listed_names = set(re.findall(r"\w+", layers))
    parts = {
        path.stem for path in (ROOT / "tenon").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - listed_names - {"__init__"} == set()


def test_rules_of_the_design_are_numbered_without_gap_or_repeat() -> None:
    rules = text_of(ROOT / "docs" / "design.md").partition("\n## Rules")[2].partition("\n## ")[0]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", rules, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers


def test_every_metric_is_documented_with_its_labels() -> None:
    text = text_of(ROOT / "docs" / "metrics.md")
    documented = {}
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+)(?:; ([^|]*))? \|", text, re.MULTILINE):
        documented[name] = (kind, tuple(re.findall(r"`(\w+)`", labels)))
    assert documented == declared()


def test_every_value_of_tenonreason_is_documented_as_it_is_written() -> None:
    """Temporal compares them with their case, so a reader who guesses finds nothing."""
    section = (ROOT / "docs/operations.md").read_text().partition("\n## Which values does TenonReason have?")[2]
    documented = set(QUOTED.findall(section.partition("\n## ")[0]))
    values = {camel_case(reason) for reason in [*Reason, *(kind for kind in NoticeKind if kind.ends_node)]}
    assert values <= documented
