"""``tenon completion``: prints a script with which a shell completes commands and options. Also answers kubectl."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from typing import Annotated, Literal

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

from cli.application import create_app, examples

COMPLETE = "_TENON_COMPLETE"
"""Environment variable with which the script of a shell asks for completions."""
NO_FILES = ":4"
"""The last line of an answer to kubectl: do not offer file names."""

app = create_app()


@app.command(
    epilog=examples(
        "source <(tenon completion bash)",
        "tenon completion zsh > ~/.zfunc/_tenon",
        "tenon completion fish > ~/.config/fish/completions/tenon.fish",
    )
)
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes commands, options and names of objects in bash, zsh or fish."""
    print(get_completion_script(prog_name="tenon", complete_var=COMPLETE, shell=shell))


def prepare() -> None:
    """Teach Typer the shells, if one of their scripts asks for completions."""
    if COMPLETE in os.environ:
        completion_init()


def answer_kubectl(run: Callable[[], object], words: Sequence[str]) -> None:
    """Print what may follow these words of a command line, one a line, and then a code, as kubectl expects it.

    ``run``: runs the command line of ``tenon``. It is asked as bash would ask it.
    """
    line = shlex.join(["tenon", *words[:-1]])
    os.environ |= {COMPLETE: "complete_bash", "COMP_WORDS": f"{line} {words[-1]}" if words else "tenon "}
    os.environ["COMP_CWORD"] = str(len(words) or 1)
    prepare()
    output = io.StringIO()
    with suppress(SystemExit), redirect_stdout(output):
        run()
    for candidate in filter(None, output.getvalue().splitlines()):
        print(candidate)
    print(NO_FILES)
