"""Writes objects as readable YAML, with comments next to or above the fields that they describe.

It extends PyYAML's writer because ruamel.yaml cannot choose a comment's position by line width or keep short lists on
one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

from tenon.manifests.paths import Path
from tenon.manifests.source_map import Lines, find_documents
from tenon.manifests.yaml_scalars import UnreadableDocumentError, plain_value

MAX_WIDTH = 120
"""Maximum columns of a line including its comment. A longer comment goes above the line."""
_MAX_ROW = 80
"""Maximum columns of a list that is written on one line."""
_RARE_BREAKS = frozenset("\x85\u2028\u2029")
"""Additional line breaks of YAML 1.1. Unless escaped, they change the text when it is read back."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - yaml's signature
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - yaml's signature
        return True


def _text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text.strip("\n") else '"' if '"' not in text and _is_quoted(text) else None
    try:
        reads_back = isinstance(plain_value(text), str) and _RARE_BREAKS.isdisjoint(text)
    except UnreadableDocumentError:
        reads_back = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style if reads_back else '"')


@lru_cache(4096)
def _is_quoted(text: str) -> bool:
    return yaml.safe_dump(text, width=10_000).startswith("'")


def _list(dumper: Any, values: list[Any]) -> Any:
    row = bool(values) and not any(isinstance(value, (dict, list)) or "\n" in str(value) for value in values)
    short = sum(len(str(value)) + 2 for value in values) <= _MAX_ROW
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=(row and short) or not values)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


@dataclass(slots=True)
class Comments:
    """Comments by the path of the field that they describe."""

    above: dict[Path, list[str]] = field(default_factory=dict)
    inline: dict[Path, list[str]] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)

    def add_above(self, path: Path, text: str) -> None:
        """Add a comment on its own line above the field."""
        self.above.setdefault(path, []).append(text)

    def add_inline(self, path: Path, text: str) -> None:
        """Add a comment on the same line as the field, if there is room."""
        self.inline.setdefault(path, []).append(text)


def as_yaml(value: Any) -> str:
    """Format a value as YAML, keeping the order of its fields."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def comment_line(text: str) -> str:
    """Replace characters that would end a comment's line. Names in it are untrusted, also on a terminal."""
    return "".join(character if character.isprintable() or character == "\t" else " " for character in text)


def with_comments(body: Mapping[str, Any], comments: Comments) -> str:
    """Format an object as YAML with its comments. Comments on the empty path come first."""
    text = as_yaml(dict(body))
    (stretch,) = find_documents(text)
    lines = Lines(text)
    above: dict[int, list[str]] = {}
    inline: dict[int, list[str]] = {}
    places = dict(stretch.root.walk()) if stretch.root else {}
    for store, comments_by_path in ((above, comments.above), (inline, comments.inline)):
        for path, texts in comments_by_path.items():
            known_path = next(path[:length] for length in range(len(path), -1, -1) if path[:length] in places)
            at = lines.number(places[known_path].begin) if known_path else 1
            store.setdefault(at, []).extend(map(comment_line, texts))
    written = text.splitlines()
    output: list[str] = []
    for number, line in enumerate(written, 1):
        comment = "; ".join(inline.get(number, ()))
        fits = len(line) + len(comment) + 3 <= MAX_WIDTH and not line.rstrip().endswith(("|", "|-", "|+"))
        indent = line[: len(line) - len(line.lstrip())]
        remarks = [*above.get(number, ()), *([comment] if comment and not fits else [])]
        output += [f"{indent}# {remark}".rstrip() for remark in remarks]
        output.append(f"{line} # {comment}" if comment and fits else line)
    output += [f"# {comment_line(remark)}".rstrip() for remark in comments.below]
    return "\n".join(output) + "\n"
