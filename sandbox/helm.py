"""Builds Helm once from pinned Go modules, so that charts are rendered with the tool that users have.

It uses the control plane's Kubernetes libraries, which are already in Go's cache; the rest takes about half a minute.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from sandbox.go_tool import GoTool
from sandbox.parent_death import dying_with_parent
from tenon.errors import TenonError

HELM = GoTool(
    name="helm",
    source=Path(__file__).parent / "charttools",
    code="tools.go",
    package="helm.sh/helm/v3/cmd/helm",
    duration="about half a minute if a control plane was built here before",
)


class HelmError(TenonError):
    """Helm rejected a chart or its values, or could not install it. The message is Helm's own."""


def install(
    chart: Path, release: str, namespace: str, kubeconfig: Path, *, values: Sequence[Path], timeout: int
) -> str:
    """Install or upgrade a release, and return when its pods are ready. Returns what Helm printed.

    Raises:
        HelmError: Helm rejected the chart, or the pods were not ready after ``timeout`` seconds.
    """
    files = [part for path in values for part in ("--values", str(path))]
    where = ("--namespace", namespace, "--kubeconfig", str(kubeconfig))
    return run("upgrade", "--install", release, str(chart), *where, *files, "--wait", f"--timeout={timeout}s")


def rollback(release: str, namespace: str, kubeconfig: Path, *, timeout: int) -> str:
    """Go back to the revision of a release before this one, and wait for its pods. Returns what Helm printed.

    Raises:
        HelmError: there is no earlier revision, or the pods were not ready after ``timeout`` seconds.
    """
    where = ("--namespace", namespace, "--kubeconfig", str(kubeconfig))
    return run("rollback", release, *where, "--wait", f"--timeout={timeout}s")


def template(chart: Path, *arguments: str, values: Sequence[Path] = ()) -> str:
    """Render the manifests of a chart, as the release ``tenon``.

    Raises:
        HelmError: Helm rejected the chart or its values.
    """
    files = [part for path in values for part in ("--values", str(path))]
    return run("template", "tenon", str(chart), "--namespace", "tenon", *files, *arguments)


def run(*arguments: str) -> str:
    """Run Helm and return what it printed.

    Raises:
        HelmError: Helm did not do it.
    """
    command = dying_with_parent(str(HELM.ensure()), *arguments)
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise HelmError(answer.stderr.strip() or answer.stdout.strip())
    return answer.stdout
