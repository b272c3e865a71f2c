"""All log lines have one style: loggers from one module, a plain sentence as the message, and values in fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("tenon", "workflows", "activities", "worker", "cli", "sandbox", "tools")
MAKERS = {"getLogger", "getChild", "Logger", "LoggerAdapter"}
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
SENTENCE = re.compile(r"[A-Z][^%{}]*[^.%{}]")
FIELD = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """What logs or makes a logger in the packages, with its place. The whole syntax would fill the memory."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Call) and called(node) in METHODS | MAKERS)
        or (isinstance(node, ast.alias) and node.name in MAKERS)
    ]


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def log_calls() -> Iterator[tuple[str, ast.Call, list[ast.expr]]]:
    """Every call that logs, with its place, and its positional arguments from the message on."""
    for place, node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            logger = ast.unparse(node.func.value)
            if logger.startswith("loggers.") or logger.rpartition(".")[2] in {"log", "_log", "logger"}:
                yield place, node, node.args[node.func.attr == "log" :]


def test_loggers_come_from_one_module() -> None:
    partitions = {
        place.partition(":")[0]
        for place, node in nodes()
        if isinstance(node, ast.alias) or (isinstance(node, ast.Call) and called(node) in MAKERS)
    }
    assert partitions == {"activities/loggers.py"}


def test_a_message_is_a_sentence_without_values() -> None:
    result = list(log_calls())
    assert len(result) > 100, "the search has lost the project's log lines"
    for place, _, (message, *values) in result:
        assert not values, f"{place}: values are fields"
        if not isinstance(message, ast.Name):  # a sentence that is used elsewhere too
            assert isinstance(message, ast.Constant), f"{place}: the message is no constant"
            assert isinstance(message.value, str), f"{place}: the message is no text"
            assert SENTENCE.fullmatch(message.value), f"{place}: {message.value}"


def test_fields_are_spelled_alike() -> None:
    for place, call, _ in log_calls():
        for keyword in call.keywords:
            if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
                names = [name.value for name in keyword.value.keys if isinstance(name, ast.Constant)]
                assert [name for name in names if not FIELD.fullmatch(str(name))] == [], place
