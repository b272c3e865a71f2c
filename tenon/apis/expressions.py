"""CEL expressions in kubelet settings, which compute a number for a given instance type (EC-15).

Google's own CEL library compiles and runs them, so an expression means the same as in Kubernetes. The library checks
types before evaluation, and limits the nesting depth and the number of iterations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from tenon.errors import TenonError

MAX_LENGTH = 1024
"""The maximum length of an expression, in characters."""
MAX_VALUE = 2**31 - 1
"""The largest result: the maximum that the kubelet accepts as a number of pods."""
WHOLE_VARIABLES = ("vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods")
VARIABLES = (*WHOLE_VARIABLES, "instance_type")
FORM = rf"[^-][\s\S]*[-+*/%(?<>=][\s\S]*|([^-][\s\S]*)?({'|'.join(VARIABLES)})[\s\S]*"
"""A quick test for an expression: the text contains an operator or names a variable. A mistyped number or quantity does
neither.
"""
_FUNCTIONS = {"min": min, "max": max}
_MAX_COMPILED = 256
_CODE = re.compile(r"^[A-Z_]+: (ERROR: )?(<input>:(?P<line>-?\d+):(?P<column>-?\d+): )?")
_ASIDE = re.compile(r" expecting \{.*\}| \(in container ''\)| \[[A-Z_]+\]$")
_MIXED = re.compile(r"'\((int, double|double, int|bool, int, double|bool, double, int)\)'")
_DOUBLE_HINT = "; a whole number and a fraction do not mix: write double(vcpus) * 2.5"


class ExpressionError(TenonError, ValueError):
    """The expression cannot be parsed or has no usable result. The message says why."""


@cache
def _environment() -> Any:
    from cel_expr_python import cel  # a large library, which only users of expressions need

    whole, real = cel.Type.INT, cel.Type.DOUBLE
    kinds = ((whole, whole, whole), (real, real, real), (whole, real, real), (real, whole, real))
    functions = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{a.name()}_{b.name()}", result_type, [a, b], False, function)
                for a, b, result_type in kinds
            ],
        )
        for name, function in _FUNCTIONS.items()
    ]
    variables = dict.fromkeys(WHOLE_VARIABLES, whole) | {"instance_type": cel.Type.STRING}
    return cel.NewEnv(variables=variables, functions=functions)


@lru_cache(_MAX_COMPILED)
def _compiled(text: str) -> Any:
    """Compile the expression. The cache keeps successes only; a compiled expression never becomes stale."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"it has {len(text)} characters, and {MAX_LENGTH} are allowed")
    try:
        program = _environment().compile(text)
    except RuntimeError as error:
        raise ExpressionError(_error_text(str(error))) from None
    type_name = program.return_type().name()
    if type_name not in {"INT", "DOUBLE"}:
        raise ExpressionError(f"it gives {type_name.lower()}, and a number is needed")
    return program


def check(text: str) -> None:
    """Check that the expression compiles and returns a number.

    Raises:
        ExpressionError: it does not compile, or it does not return a number.
    """
    _compiled(text)


def evaluate(text: str, variables: Mapping[str, int | str]) -> int:
    """Return the value of the expression, truncated to an integer.

    Raises:
        ExpressionError: it does not compile, or its value is not a number from 0 to 2147483647.
    """
    program = _compiled(text)
    try:
        result = program.eval(data=dict(variables))
    except RuntimeError as error:
        raise ExpressionError(_error_text(str(error))) from None
    value = result.value()
    if result.type().name() == "ERROR":
        raise ExpressionError(_error_text(str(value)))
    if not math.isfinite(value):
        raise ExpressionError("its result is not a finite number")
    whole: int = math.trunc(value)
    if not 0 <= whole <= MAX_VALUE:
        raise ExpressionError(f"it gives {value:g}, and a number from 0 to {MAX_VALUE} is needed")
    return whole


def _error_text(text: str) -> str:
    """Turn the library's error into part of a sentence: the first line, without codes."""
    first = text.partition("\n")[0]
    code = _CODE.match(first)
    message = _ASIDE.sub("", first[code.end() :] if code else first).strip()
    at = f" at character {code['column']}" if code and int(code["column"] or 0) > 0 else ""
    return f"{message[:200]}{at}{_DOUBLE_HINT if _MIXED.search(message) else ''}"
