"""Docstrings describe parameters that exist, and have no lines of one or two words that a second wrapping left."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("activities", "cli", "sandbox", "tenon", "tools", "worker", "workflows")
WIDTH = 120


def texts(source: str) -> Iterator[str]:
    """The docstrings of a module: its own, and those of classes, functions and attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def wrapped_twice(text: str) -> list[str]:
    """Lines of one to three words that the first word of the next line, which continues the sentence, fits on."""
    return [
        line.strip()
        for line, following in pairwise(text.splitlines()[1:])
        if 0 < len(line.split()) <= 3
        and following.lstrip()[:1].islower()
        and not line.rstrip().endswith((".", ":"))
        and len(line) - len(line.lstrip()) == len(following) - len(following.lstrip())
        and len(line.rstrip()) + 1 + len(following.split()[0]) <= WIDTH
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_docstring_has_a_short_line_in_a_sentence(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    names = {
        f"{file.relative_to(ROOT)}": [line for text in texts(file.read_text()) for line in wrapped_twice(text)]
        for file in files
    }
    assert {name: lines for name, lines in names.items() if lines} == {}
    assert files


def test_a_line_that_a_second_wrapping_left_is_found() -> None:
    text = "A summary.\n\n    This process waits, and so does\n    the worker\n    that it started.\n"
    assert wrapped_twice(text) == ["the worker"]


def unknown_arguments(source: str) -> list[str]:
    """Names in the part ``Args:`` of a docstring that the function does not have as parameters."""
    unknown = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        arguments = node.args
        parameters = {arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        parameters |= {arg.arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None}
        _, _, described = (ast.get_docstring(node) or "").partition("Args:\n")
        names = re.findall(r"^    (\w+):", described.partition("\n\n")[0], re.MULTILINE)
        unknown += [f"{node.name}: {name}" for name in names if name not in parameters]
    return unknown


@pytest.mark.parametrize("package", PACKAGES)
def test_each_argument_that_a_docstring_describes_exists(package: str) -> None:
    unknown = {
        f"{file.relative_to(ROOT)}": unknown_arguments(file.read_text()) for file in (ROOT / package).rglob("*.py")
    }
    assert {name: arguments for name, arguments in unknown.items() if arguments} == {}


def test_an_argument_that_does_not_exist_is_found() -> None:
    text = 'def plan(pods):\n    """Plan.\n\n    Args:\n        pods: the pods.\n        nodes: the nodes.\n    """\n'
    assert unknown_arguments(text) == ["plan: nodes"]


def identifiers(source: str) -> set[str]:
    """The identifiers of a module's code, without its docstrings and comments."""
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"""[^"]*(?:"(?!"")[^"]*)*"""|#.*', "", source)))


def names_in_backticks(text: str) -> set[str]:
    """Names of Python in backticks: those with a capital or an underscore, which no word of prose has."""
    names = (name.split(".")[-1] for name in re.findall(r"(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)", text))
    return {name for name in names if re.search(r"[A-Z_]", name)}


def test_each_name_in_backticks_exists() -> None:
    """A rename must not leave readers of docstrings and comments behind."""
    sources = {file: file.read_text() for package in (*PACKAGES, "tests") for file in (ROOT / package).rglob("*.py")}
    known_names = {name for source in sources.values() for name in identifiers(source)} | {
        file.stem for file in sources
    }
    unknown = {
        f"{file.relative_to(ROOT)}": names
        for file, source in sources.items()
        if file.relative_to(ROOT).parts[0] != "tests" and (names := names_in_backticks(source) - known_names)
    }
    assert unknown == {}


def test_a_name_in_backticks_that_no_code_has_is_found() -> None:
    text = 'def plan():\n    """Plan as `Old.plan_all` does, or `plan`."""\n'
    assert names_in_backticks(text) - identifiers(text) == {"plan_all"}
