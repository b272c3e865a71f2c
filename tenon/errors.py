"""The root of the exceptions of the project, which tells them apart from those of Python and of libraries."""

from __future__ import annotations


class TenonError(Exception):
    """Every exception class of the project inherits from this one, and its name ends in ``Error``.

    Temporal records the class name of an exception that an activity raises as the type of the failure. Give an
    exception that a workflow tells apart its own type string, as in `tenon.messages.base.ErrorType`, so that
    the class can be renamed.
    """
