"""Runs the ``tenon`` command as ``python -m cli``, for environments where its script is not on PATH."""

from cli.main import main

main()
