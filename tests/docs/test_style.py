"""The words that docs/style.md rules out are in no document, and in no text of the product."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, FENCED, ROOT, name_of, text_of

STYLE = ROOT / "docs" / "style.md"
PACKAGES = ("activities", "cli", "tenon", "tools", "worker", "workflows")
BULLET = re.compile(r"^- \*\*No archaic or clipped words\*\*: (.*?), and \*for\*", re.MULTILINE)
WORDS = tuple(word for word in re.findall(r"\*([^*]+)\*", BULLET.findall(text_of(STYLE))[0]) if " " not in word)
ARCHAIC = re.compile(rf"(?<![\w-])(?:{'|'.join(WORDS)})(?![\w-])", re.IGNORECASE)


def archaic_words(text: str) -> list[str]:
    return ARCHAIC.findall(text)


def texts(source: str) -> Iterator[str]:
    """The docstrings, strings and comments of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
    yield from re.findall(r"(?:^|\s)# .*", source)


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path != STYLE], ids=name_of)
def test_no_document_has_an_archaic_word(document: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", FENCED.sub("", text_of(document)))
    prose = "\n".join(line for line in prose.splitlines() if not line.startswith("    "))
    assert archaic_words(prose) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_text_of_the_product_has_an_archaic_word(package: str) -> None:
    words = {name_of(file): archaic_words("\n".join(texts(text_of(file)))) for file in (ROOT / package).rglob("*.py")}
    words.pop("tools/names.py", None)  # its list of names has some of them
    assert {name: found_words for name, found_words in words.items() if found_words} == {}


def test_archaic_words_are_found() -> None:
    assert WORDS == ("anew", "beside", "told", "whoever", "nobody")
    assert archaic_words("Nobody was told of a well-told story, besides") == ["Nobody", "told"]
    assert list(texts('x = "a b"  # told\n')) == ["a b", " # told"]
