"""The directory of the certificates and keys that a kubeconfig holds inline. The official client writes them to files.

Python deletes the directory when it exits. A process that skips Python's own shutdown calls `remove` before it ends.
"""

from __future__ import annotations

import functools
from tempfile import TemporaryDirectory


def path() -> str:
    """The path of this process's directory, which other users cannot read."""
    return _directory().name


def remove() -> None:
    """Delete the directory, if this process has one. The process reads no kubeconfig afterwards.

    What cannot be deleted stays, because the process must exit with its own status.
    """
    if _directory.cache_info().currsize:
        _directory().cleanup()


@functools.cache
def _directory() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="tenon-credentials-", ignore_cleanup_errors=True)
