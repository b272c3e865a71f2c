"""Builds the site from documents that are written for the repository host.

The documents link to files outside of docs/, indent lists and name anchors as the host does, and draw with Mermaid.
MkDocs does each of these in another way, so these hooks translate, and the documents stay readable in both places.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import mermaidx
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "deploy/README.md": "deploy.md",
    "benchmarks/README.md": "running-benchmarks.md",
    "benchmarks/loads/README.md": "public-loads.md",
    "examples/seeds/README.md": "examples-seeds.md",
    "examples/simulate/README.md": "examples-simulate.md",
}
"""Pages of the site that are outside of docs/ in the repository."""
FILES = "repository"
"""Folder of the site with the other files of the repository that pages link to."""
MERMAID = "assets/javascripts/mermaid.js"
"""Mermaid for the browser. Material loads it from a CDN unless a script of the site has defined it."""

LINK = re.compile(r"(?<=\]\()([^()\s#]+)")
FENCE = re.compile(r"(?P<indent> *)(?P<mark>```|~~~)")
ITEM = re.compile(r"(?P<indent> *)(?P<mark>[-*+]|\d+\.) +(?=\S)")
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the anchors that the repository host gives them."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, the files that pages link to, and Mermaid."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for path in sorted({path for document in documents() for path in linked(document) if _place(path) == path}):
        if not (ROOT / path).is_file():
            raise PluginError(f"A page links to {path}, which is not a file of the repository.")
        files.append(File.generated(config, f"{FILES}/{path}", abs_src_path=str(ROOT / path)))
    script = Path(mermaidx.__file__).parent / "assets" / "mermaid.js"
    files.append(File.generated(config, MERMAID, abs_src_path=str(script)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Translate a document for MkDocs."""
    origin = next((source for source, name in PAGES.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")
    return lists(links(markdown, origin))


def anchor(heading: str, separator: str) -> str:
    """The anchor that the repository host gives to a heading."""
    plain = re.sub(r"<[^>]+>", "", heading).strip().lower()
    return "".join(c for c in plain if c in "-_ " or unicodedata.category(c)[0] in "LN").replace(" ", separator)


def documents() -> list[str]:
    """The paths of all documents of the site in the repository."""
    return [*PAGES, *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def linked(document: str) -> Iterator[str]:
    """The paths that a document links to, in the repository."""
    paths: list[str] = []

    def note(path: str) -> str:
        paths.append(path)
        return path

    _each_link((ROOT / document).read_text(), document, note)
    yield from paths


def links(markdown: str, document: str) -> str:
    """Point the links of a document to where the site has their targets. All pages are at the top of the site."""

    def place(path: str) -> str:
        name = _place(path)
        return f"{FILES}/{name}" if name == path else name

    return _each_link(markdown, document, place)


def lists(markdown: str) -> str:
    """Indent what belongs to a list item by four columns for each level, as Python-Markdown requires.

    Python-Markdown also requires a blank line before a list, and before an item that follows the second paragraph of
    another item.
    """
    result: list[str] = []
    levels: list[int] = []  # columns at which the contents of the open items begin
    fence, apart = "", True  # whether the last lines are a paragraph of their own, and no part of an item's first one
    for line in markdown.split("\n"):
        column = len(line) - len(line.lstrip(" "))
        item = None if fence else ITEM.match(line)
        blank = not result or not result[-1].strip()
        if line.strip() and not fence and (item or blank):
            while levels and column < levels[-1]:
                levels.pop()
        if fence:
            fence = "" if line.strip().startswith(fence) else fence
        elif opening := FENCE.match(line):
            fence = opening["mark"]
        if item and column - (levels[-1] if levels else 0) < 4:  # otherwise it is code
            if apart and not blank:
                result.append("")
            result.append(" " * 4 * len(levels) + line[column:])
            levels.append(item.end())
            apart = False
        else:
            apart = apart or not line.strip()
            result.append(_indented(line, column, levels))
    return "\n".join(result)


def _indented(line: str, column: int, levels: list[int]) -> str:
    if not levels or not line.strip():
        return line
    return " " * (4 * len(levels) + max(column - levels[-1], 0)) + line[column:]


def _place(path: str) -> str:
    """Where the site has a file of the repository: a page's name, or the path itself for other files."""
    return PAGES.get(path, path.removeprefix("docs/"))


def _each_link(markdown: str, document: str, change: Callable[[str], str]) -> str:
    """Replace the path of each relative link, in the repository, by what `change` makes of it. Code stays."""

    def replace(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", match[1]):
            return match[1]
        return change(posixpath.normpath(posixpath.join(posixpath.dirname(document), match[1])))

    lines, fence = [], ""
    for line in markdown.split("\n"):
        opening = FENCE.match(line)
        if fence or opening:
            fence = "" if fence and line.strip().startswith(fence) else fence or (opening["mark"] if opening else "")
            lines.append(line)
            continue
        parts, last = [], 0
        for code in CODE.finditer(line):
            parts += [LINK.sub(replace, line[last : code.start()]), code[0]]
            last = code.end()
        lines.append("".join(parts) + LINK.sub(replace, line[last:]))
    return "\n".join(lines)
