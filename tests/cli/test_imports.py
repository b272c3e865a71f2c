"""What commands that people call often do not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.commands import COMMANDS, module_of

CODE = """
import sys

from cli.main import main

try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""

pytestmark = pytest.mark.integration


def loaded_modules(code: str, *arguments: str) -> set[str]:
    """The modules that a process has loaded, which the last line of its standard error names."""
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.splitlines()[-1].split())


def test_the_list_of_commands_loads_none_of_them() -> None:
    modules = loaded_modules(CODE, "--help")
    assert "cli.main" in modules
    prepared = {"cli.completion"}  # at each start
    assert modules.isdisjoint(set(map(module_of, COMMANDS)) - prepared)


def test_lists_of_nodes_load_no_library_for_pages() -> None:
    modules = loaded_modules("import sys, cli.node, cli.top; print(*sys.modules, file=sys.stderr)")
    assert "cli.top" in modules
    assert modules.isdisjoint({"markdown_it", "pygments"})
