"""Reads the descriptions of a model's fields from the docstrings below them.

Only schemas need them. Pydantic would read the source of each model when its class is created, which takes a quarter
of the start of a worker and of each command.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise


@cache
def field_descriptions(model: type) -> dict[str, str]:
    """Return the docstrings of the fields that the class itself declares, by the fields' names in Python."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        statement.target.id: inspect.cleandoc(docstring.value.value)
        for statement, docstring in pairwise(definition.body)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(docstring, ast.Expr)
        and isinstance(docstring.value, ast.Constant)
        and isinstance(docstring.value.value, str)
    }
