"""Refuses names that do not say what they hold: `python -m tools.names`, a part of `make check`.

A reader of `found = await self._decide()` must look at the right-hand side to learn what is found, in each function.
Ruff and mypy cannot tell a bare participle or pronoun from a noun, so docs/style.md has a list of such words.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_BARE_WORDS = """
    alike answered asked asking both came chosen coming each found given gone got had has held here kept known left made
    named one promised put said seen sent sold some stated such taken there thing told wanted what which who
"""
BARE_WORDS = frozenset(_BARE_WORDS.split())
"""Participles and pronouns that are no name alone; with a noun, as in `known_types`, they are."""


def bare_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each variable, parameter, field, attribute and class that is a bare word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        elif isinstance(node, ast.ClassDef):
            name = node.name
        else:
            continue
        word = name.lower() if isinstance(node, ast.ClassDef) else name  # a constant in capitals may be a bare word
        if word.strip("_") in BARE_WORDS:
            yield node.lineno, name


def check(texts: Mapping[str, str]) -> list[str]:
    """Return one sentence for each fault of these modules, given as path to text."""
    return [
        f"{file}:{line}: the name {name} does not say what it holds: use a noun"
        for file, text in texts.items()
        for line, name in sorted(set(bare_names(ast.parse(text))))
    ]


def main() -> int:
    """Print a line for each fault of the repository's modules. Return 1 if there is one."""
    files = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
    faults = check({file: Path(file).read_text(encoding="utf-8") for file in files if Path(file).exists()})
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
