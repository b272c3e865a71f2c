"""What the list of commands does not load, because people ask for it often and it only prints sentences."""

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


def test_the_list_of_commands_loads_none_of_them() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CODE, "--help"], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    modules = set(ran.stderr.splitlines()[-1].split())
    assert "cli.main" in modules
    prepared = {"cli.completion"}  # at each start
    assert modules.isdisjoint(set(map(module_of, COMMANDS)) - prepared)
