"""Makes the page of all log lines: each message with its logger, level and fields, and what each field holds.

The lines are read from the syntax of the packages. A field without a meaning in `activities.log_fields`, or a meaning
that no line uses, is an error, so that the page cannot miss one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from activities import loggers
from activities.log_fields import FIXED, MEANINGS
from tenon.errors import TenonError

ROOT = Path(__file__).parent.parent
LOG_LINES = Path("docs/log-lines.md")
PACKAGES = ("tenon", "workflows", "activities", "worker")
LEVELS = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR", "exception": "ERROR"}
NAMES = {"log", "_log", "logger"}
"""What modules call their logger."""

_TOP = """# Every log line

<!-- Made by `make generate` from the code and activities/log_fields.py. Change them there, not this page. -->

Each line of the log is one JSON object. Messages never change with values: search for `message`, and read the values in
the other fields. [metrics.md](metrics.md#where-are-the-metrics-the-health-checks-and-the-logs) says where the log is.

## Which fields does each line have?

| field | holds |
|---|---|
"""


class LogLineError(TenonError):
    """The code has a log line that the page cannot describe."""


@dataclass(frozen=True, order=True)
class LogLine:
    """One message."""

    logger: str
    message: str
    level: str
    fields: tuple[str, ...]


def log_page() -> str:
    """Return the page.

    Raises:
        LogLineError: a line has a field without a meaning, or a meaning belongs to no line.
    """
    lines = log_lines()
    used_fields = {name for line in lines for name in line.fields}
    if missing := sorted(used_fields - MEANINGS.keys()):
        raise LogLineError(f"Log fields without a meaning in activities/log_fields.py: {', '.join(missing)}")
    if unused := sorted(MEANINGS.keys() - used_fields):
        raise LogLineError(f"activities/log_fields.py describes fields that no log line has: {', '.join(unused)}")
    text = _TOP + "".join(f"| `{name}` | {meaning} |\n" for name, meaning in FIXED.items())
    text += "\n## Which fields do some lines have?\n\n| field | holds |\n|---|---|\n"
    text += "".join(f"| `{name}` | {meaning} |\n" for name, meaning in sorted(MEANINGS.items()))
    for logger in sorted({line.logger for line in lines}):
        text += f"\n## {logger}\n\n| message | level | fields |\n|---|---|---|\n"
        for line in lines:
            if line.logger == logger:
                fields = ", ".join(f"`{name}`" for name in line.fields)
                text += f"| {line.message} | {line.level} | {fields} |\n"
    return text


@cache
def log_lines() -> Sequence[LogLine]:
    """Return all different log lines of the product."""
    return sorted(set(_lines()))


def _lines() -> Iterator[LogLine]:
    modules = [_Module(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    shared = _Shared()
    for module in modules:
        module.add_to(shared)
    for module in modules:
        yield from module.lines(shared)


@dataclass
class _Shared:
    """What modules use of each other."""

    returned: dict[str, list[tuple[_Module, ast.expr]]] = field(default_factory=dict)
    """By name of a function, what it returns."""
    constants: dict[str, list[tuple[_Module, ast.expr]]] = field(default_factory=dict)
    """By name, what constants and class attributes are."""


class _Module:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._nodes = list(ast.walk(ast.parse(path.read_text())))

    def add_to(self, shared: _Shared) -> None:
        """Add what other modules may use."""
        for node in self._nodes:
            if isinstance(node, ast.FunctionDef):
                for part in ast.walk(node):
                    if isinstance(part, ast.Return) and part.value is not None:
                        shared.returned.setdefault(node.name, []).append((self, part.value))
        for name, values in self._assigned.items():
            shared.constants.setdefault(name, []).extend((self, value) for value in values)

    @cached_property
    def _assigned(self) -> dict[str, list[ast.expr]]:
        """What the names of the module are, wherever they are assigned."""
        return _assigned(self._nodes)

    @cached_property
    def _functions(self) -> list[tuple[range, dict[str, list[ast.expr]]]]:
        """For each function, its lines and what names are in it; an inner one comes after the outer one."""
        return [
            (range(node.lineno, (node.end_lineno or node.lineno) + 1), _assigned(ast.walk(node)))
            for node in self._nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    def _values(self, name: ast.Name) -> list[ast.expr]:
        """What a name is: in the innermost function that assigns it, else in the module."""
        for lines, assigned in reversed(self._functions):
            if name.lineno in lines and name.id in assigned:
                return assigned[name.id]
        return self._assigned.get(name.id, [])

    def lines(self, shared: _Shared) -> Iterator[LogLine]:
        """Yield the log lines of the module."""
        for node in self._nodes:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            method, logger = node.func.attr, ast.unparse(node.func.value)
            if method not in {*LEVELS, "log"} or not _is_logger(logger):
                continue
            place = f"{self._path.relative_to(ROOT)}:{node.lineno}"
            extra = next((keyword.value for keyword in node.keywords if keyword.arg == "extra"), None)
            fields = dict.fromkeys(self._fields(extra, shared, place)) if extra is not None else {}
            for message in self._messages(node.args[method == "log"], shared, place):
                level = LEVELS.get(method) or "INFO or WARN"
                yield LogLine(self._logger_name(logger, place), message, level, tuple(fields))

    def _messages(self, node: ast.expr, shared: _Shared, place: str) -> Iterator[str]:
        match node:
            case ast.Constant(value=str() as text):
                yield from filter(None, [text])
            case ast.JoinedStr(values=parts):
                yield "".join(self._part(part, place) for part in parts)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._messages(body, shared, place)
                yield from self._messages(orelse, shared, place)
            case ast.Dict(values=values):
                for value in values:
                    yield from self._messages(value, shared, place)
            case ast.Subscript(value=ast.Name(id=name)) if name in shared.constants:
                for module, value in shared.constants[name]:
                    yield from module._messages(value, shared, place)
            case ast.Name() if values := self._values(node):
                for value in values:
                    yield from self._messages(value, shared, place)
            case ast.Call(func=ast.Name(id=name)) if name in shared.returned:
                for module, value in shared.returned[name]:
                    yield from module._messages(value, shared, place)
            case _:
                raise LogLineError(f"{place}: the message {ast.unparse(node)} is no constant")

    def _part(self, node: ast.expr, place: str) -> str:
        match node:
            case ast.Constant(value=text):
                return str(text)
            case ast.FormattedValue(value=ast.Name(id=name)) if name in self._assigned:
                return self._part(self._assigned[name][0], place)
            case _:
                raise LogLineError(f"{place}: {ast.unparse(node)} in a message is no constant of its module")

    def _fields(self, node: ast.expr, shared: _Shared, place: str) -> Iterator[str]:
        match node:
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if key is None:
                        yield from self._fields(value, shared, place)
                    else:
                        yield from _field_names(key, shared, place)
            case ast.Name() if values := self._values(node):
                for value in values:
                    yield from self._fields(value, shared, place)
            case ast.BinOp(left=left, right=right):
                yield from self._fields(left, shared, place)
                yield from self._fields(right, shared, place)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._fields(body, shared, place)
                yield from self._fields(orelse, shared, place)
            case ast.Call(func=ast.Attribute(value=ast.Constant())):
                raise LogLineError(f"{place}: {ast.unparse(node)} is a text, not the fields of a log line")
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in shared.returned:
                for module, value in shared.returned[name]:
                    with suppress(LogLineError):  # a function elsewhere of the same name may return something else
                        yield from module._fields(value, shared, place)
            case _:
                raise LogLineError(f"{place}: cannot tell the fields of {ast.unparse(node)}: write a dictionary")

    def _logger_name(self, text: str, place: str) -> str:
        if text.startswith("workflow."):
            return "temporalio.workflow"
        if text == "self._log":  # of the base class of all controllers
            return "controller.NAME"
        for value in (text, *map(ast.unparse, self._assigned.get(text, []))):
            if value.startswith("loggers."):
                return str(getattr(loggers, value.removeprefix("loggers.")).name)
        raise LogLineError(f"{place}: cannot tell which logger {text} is")


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return what is assigned to each name. An assignment to an item counts as a dictionary with that item."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.expr() as key)], value=value):
                assigned.setdefault(name, []).append(ast.Dict([key], [value]))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.NamedExpr(ast.Name(id=name), value):
                assigned.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                assigned.setdefault(name, []).append(value)
    return assigned


def _field_names(key: ast.expr, shared: _Shared, place: str) -> Iterator[str]:
    match key:
        case ast.Constant(value=str() as name):
            yield name
        case ast.Attribute(attr=attribute) if attribute in shared.constants:
            for _, value in shared.constants[attribute]:
                yield from _field_names(value, shared, place)
        case _:
            raise LogLineError(f"{place}: the field {ast.unparse(key)} is no constant")


def _is_logger(text: str) -> bool:
    return text.startswith("loggers.") or text.rpartition(".")[2] in NAMES
