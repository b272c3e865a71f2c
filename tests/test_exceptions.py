"""Every exception class of the project has the root `TenonError` and a name that says that it is an error."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from tenon.errors import TenonError

PACKAGES = ("tenon", "workflows", "activities", "worker", "cli", "sandbox", "tools")


def _subclasses(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    for subclass in type.__subclasses__(cls):
        yield subclass
        yield from _subclasses(subclass)


def test_every_exception_class_has_the_root_and_the_suffix() -> None:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith(".__main__"):  # it runs the command when it is imported
                importlib.import_module(module.name)
    ours = {cls for cls in _subclasses(BaseException) if cls.__module__.partition(".")[0] in PACKAGES}
    assert len(ours) > 30, "the walk has lost the project's exceptions"
    rootless = sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in ours if not issubclass(cls, TenonError))
    nameless = sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in ours if not cls.__name__.endswith("Error"))
    assert (rootless, nameless) == ([], [])
