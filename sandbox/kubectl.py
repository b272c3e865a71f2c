"""Runs kubectl against the sandbox, and turns its errors into one exception."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from sandbox.parent_death import dying_with_parent
from sandbox.tools import tool
from tenon.errors import TenonError

Manifest = Path | dict[str, Any]


class KubectlError(TenonError):
    """kubectl failed. The message contains its output."""


def kubectl(kubeconfig: Path, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
    """Run kubectl and return its output.

    Raises:
        KubectlError: kubectl failed or timed out.
        MissingToolError: kubectl is not installed.
    """
    try:
        done = subprocess.run(
            command(kubeconfig, *arguments), input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise KubectlError(f"`kubectl {' '.join(arguments)}` took more than {timeout:g} s") from error
    if done.returncode != 0:
        raise KubectlError(f"`kubectl {' '.join(arguments)}`: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def command(kubeconfig: Path, *arguments: str) -> list[str]:
    """The command of `kubectl`, for who runs it in another way.

    Raises:
        MissingToolError: kubectl is not installed.
    """
    cache = kubeconfig.parent / "kubectl-cache"  # otherwise each sandbox leaves a cache in the user's home
    return dying_with_parent(str(tool("kubectl")), f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}", *arguments)


def apply(kubeconfig: Path, *manifests: Manifest) -> str:
    """Apply files (of one or more documents) and objects server-side with the field manager ``sandbox``, forcing
    conflicts.
    """
    documents: list[str] = []
    for manifest in manifests:
        documents.append(manifest.read_text() if isinstance(manifest, Path) else yaml.safe_dump(manifest))
    if not documents:
        return ""
    arguments = ("apply", "--server-side", "--force-conflicts", "--field-manager=sandbox", "-f", "-")
    return kubectl(kubeconfig, *arguments, stdin="\n---\n".join(documents))
