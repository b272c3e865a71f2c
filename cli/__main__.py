"""``python -m cli``: the command, where its script is not on PATH."""

from cli.main import main

main()
