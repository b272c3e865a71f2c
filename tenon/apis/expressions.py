"""Expressions in kubelet settings: what a number is for a given instance type, in CEL (EC-15).

Google's own CEL compiles and runs them, so that a text means what it means to Kubernetes: it checks types before
anything is evaluated, and bounds how deep an expression is and how often it goes around.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

MAX_LENGTH = 1024
"""Characters of an expression."""
MOST = 2**31 - 1
"""The largest result: what a kubelet takes for a number of pods."""
WHOLE_VARIABLES = ("vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods")
VARIABLES = (*WHOLE_VARIABLES, "instance_type")
FORM = rf"[^-][\s\S]*[-+*/%(?<>=][\s\S]*|([^-][\s\S]*)?({'|'.join(VARIABLES)})[\s\S]*"
"""What an expression looks like at first sight: it computes something or names a variable. What people mistype for a
number or a quantity does neither."""
_FUNCTIONS = {"min": min, "max": max}
_MOST_COMPILED = 256
_CODE = re.compile(r"^[A-Z_]+: (ERROR: )?(<input>:(?P<line>-?\d+):(?P<column>-?\d+): )?")
_ASIDE = re.compile(r" expecting \{.*\}| \(in container ''\)| \[[A-Z_]+\]$")
_MIXED = re.compile(r"'\((int, double|double, int|bool, int, double|bool, double, int)\)'")
_DOUBLE_HINT = "; a whole number and a fraction do not mix: write double(vcpus) * 2.5"


class ExpressionError(ValueError):
    """An expression that cannot be read, or that has no usable result; the text says why."""


@cache
def _environment() -> Any:
    from cel_expr_python import cel  # a large library, which only those need who use expressions

    whole, real = cel.Type.INT, cel.Type.DOUBLE
    kinds = ((whole, whole, whole), (real, real, real), (whole, real, real), (real, whole, real))
    functions = [
        cel.FunctionDecl(
            name,
            [cel.Overload(f"{name}_{a.name()}_{b.name()}", given, [a, b], False, function) for a, b, given in kinds],
        )
        for name, function in _FUNCTIONS.items()
    ]
    variables = dict.fromkeys(WHOLE_VARIABLES, whole) | {"instance_type": cel.Type.STRING}
    return cel.NewEnv(variables=variables, functions=functions)


@lru_cache(_MOST_COMPILED)
def _compiled(text: str) -> Any:
    """The expression ready to run. What fails is compiled anew each time; what was compiled never grows stale."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"it has {len(text)} characters, and {MAX_LENGTH} are allowed")
    try:
        program = _environment().compile(text)
    except RuntimeError as error:
        raise ExpressionError(_said(str(error))) from None
    found = program.return_type().name()
    if found not in {"INT", "DOUBLE"}:
        raise ExpressionError(f"it gives {found.lower()}, and a number is needed")
    return program


def check(text: str) -> None:
    """Whether the expression can be read and gives a number.

    Raises:
        ExpressionError: it cannot, or does not.
    """
    _compiled(text)


def evaluate(text: str, variables: Mapping[str, int | str]) -> int:
    """The expression's value, without its fraction.

    Raises:
        ExpressionError: it cannot be read, or its value is no number from 0 to 2147483647.
    """
    program = _compiled(text)
    try:
        result = program.eval(data=dict(variables))
    except RuntimeError as error:
        raise ExpressionError(_said(str(error))) from None
    value = result.value()
    if result.type().name() == "ERROR":
        raise ExpressionError(_said(str(value)))
    if not math.isfinite(value):
        raise ExpressionError("it gives no finite number")
    whole: int = math.trunc(value)
    if not 0 <= whole <= MOST:
        raise ExpressionError(f"it gives {value:g}, and a number from 0 to {MOST} is needed")
    return whole


def _said(text: str) -> str:
    """The library's words as part of a sentence: their first line, without its codes."""
    first = text.partition("\n")[0]
    code = _CODE.match(first)
    said = _ASIDE.sub("", first[code.end() :] if code else first).strip()
    at = f" at character {code['column']}" if code and int(code["column"] or 0) > 0 else ""
    return f"{said[:200]}{at}{_DOUBLE_HINT if _MIXED.search(said) else ''}"
