"""The documents as a site: it builds without a warning, draws its drawings, and loads nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import mermaidx
import pytest

from docs.mkdocs_hooks import MERMAID, PAGES, anchor, links, lists
from tests.docs.documents import DOCUMENTS, ROOT, anchors, name_of, text_of

LOADED = re.compile(r"<(?:script|img|iframe)\b[^>]*?\bsrc=\"?([^\s\">]+)|<link\b[^>]*?rel=\"?stylesheet[^>]*?>")
HREF = re.compile(r"href=\"?([^\s\">]+)")
DRAWING = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRAWINGS = [
    pytest.param(source, id=f"{name_of(document)}-{number}")
    for document in DOCUMENTS
    for number, source in enumerate(DRAWING.findall(text_of(document)), 1)
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. The build fails on a warning, and a proxy that answers nothing keeps it from the network."""
    folder = tmp_path_factory.mktemp("site")
    closed = "http://127.0.0.1:9"
    answer = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "http_proxy": closed, "https_proxy": closed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "WARNING" not in answer.stderr
    return folder


@pytest.mark.integration
def test_every_document_is_a_page(site: Path) -> None:
    pages = {PAGES.get(name_of(document), document.name) for document in DOCUMENTS}
    missing = [page for page in pages if not (site / Path(page).with_suffix(".html")).is_file()]
    assert missing == []


@pytest.mark.integration
def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    loaded = set()
    for page in site.glob("*.html"):
        for match in LOADED.finditer(page.read_text()):
            address = match[1] or HREF.findall(match[0])[0]
            loaded.add(address.removeprefix("/"))
    assert [address for address in loaded if re.match(r"\w+:|/", address)] == []
    assert MERMAID in loaded, "without this script the theme loads Mermaid from another host"
    assert [address for address in loaded if not (site / address).is_file()] == []


@pytest.mark.integration
def test_links_to_other_files_of_the_repository_lead_to_them(site: Path) -> None:
    copied = [path.relative_to(site / "repository") for path in (site / "repository").rglob("*") if path.is_file()]
    assert copied
    for path in copied:
        assert (site / "repository" / path).read_bytes() == (ROOT / path).read_bytes()


@pytest.mark.parametrize("source", DRAWINGS)
def test_each_drawing_can_be_drawn(source: str) -> None:
    assert "<svg" in mermaidx.render(source).svg()


@pytest.mark.integration
@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_headings_have_the_anchors_of_the_repository_host(site: Path, document: Path) -> None:
    page = Path(PAGES.get(name_of(document), document.name)).with_suffix(".html")
    assert anchors(document) - set(re.findall(r"<h\d id=\"?([^\s\">]+)", (site / page).read_text())) == set()


def test_anchors_of_headings() -> None:
    headings = ("How do I add ...?", "Why? A pod's `spec`", "Über <code>tenon/</code>")
    assert [anchor(heading, "-") for heading in headings] == ["how-do-i-add-", "why-a-pods-spec", "über-tenon"]


def test_links_point_to_places_in_the_site() -> None:
    text = "[a](../README.md#use-it) [b](eks.md) [c](../examples/web-load.yaml) [d](https://temporal.io) `[e](f.md)`"
    assert links(text, "docs/design.md") == (
        "[a](index.md#use-it) [b](eks.md) [c](repository/examples/web-load.yaml) [d](https://temporal.io) `[e](f.md)`"
    )
    assert links("[a](docs/eks.md)", "README.md") == "[a](eks.md)"
    assert links("```\n[a](b)\n```", "README.md") == "```\n[a](b)\n```"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Text:\n- one\n- two", "Text:\n\n- one\n- two"),
        ("1. one\n\n       code\n\n   more\n2. two", "1. one\n\n        code\n\n    more\n\n2. two"),
        ("- one\n  - inner\n  more\n- two", "- one\n    - inner\n        more\n- two"),
        ("Text\n\n    - code", "Text\n\n    - code"),
        ("```\n1. one\n   x\n```", "```\n1. one\n   x\n```"),
        ("- one\ncontinued\n\nText", "- one\n    continued\n\nText"),
    ],
)
def test_lists_are_indented_for_the_site(value: str, expected: str) -> None:
    assert lists(value) == expected
