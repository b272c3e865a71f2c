"""Tenon's image in a real pod, installed by the chart, for the tests that otherwise run `tenon worker` as a process."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

import psutil
import yaml

from sandbox import bootstrap, helm
from sandbox.cluster import Sandbox
from sandbox.kubelet.release import CHART, RELEASE
from sandbox.tools import tool
from tests.e2e.worker import READY_SECONDS, Worker
from tests.realpod.footprint import processes

GATES = {"FEATURE_GATES": "featureGates", "AWS_FEATURE_GATES": "awsFeatureGates"}
METRICS_PORT = 8080
STOP_SECONDS = 90
"""More than the chart's grace period for a pod."""
POLL_SECONDS = 0.2
NAMESPACE = f"--namespace={Sandbox.namespace}"


def chart_values(settings: dict[str, str]) -> dict[str, Any]:
    """The chart's values for settings that are given as variables of the environment.

    Raises:
        KeyError: the chart has no value for one of them.
    """
    variables: dict[str, str] = yaml.safe_load((CHART / "files" / "settings.yaml").read_text())
    names = {variable: name for name, variable in variables.items()}
    result: dict[str, Any] = {}
    for variable, text in settings.items():
        if variable in GATES:
            gates = (gate.split("=") for gate in text.split(","))
            result[GATES[variable]] = {name[0].lower() + name[1:]: on == "true" for name, on in gates}
        else:
            result[names[variable]] = text
    return {"settings": result}


class WorkerPods(Worker):
    """The chart's Deployment with one replica, so that its metrics and its log are those of the leader."""

    def __init__(self, sandbox: Sandbox, name: str = "e2e-worker", **settings: str) -> None:
        super().__init__(sandbox, name)
        self._sandbox = sandbox
        self._values = chart_values(settings) | {"replicas": 1, "aws": {"region": sandbox.region}}
        self._pod = ""

    def start(self) -> None:
        """Install or upgrade the release, and return once the pod is ready."""
        self._sandbox.install(values=self._values)
        # Tests run commands of Tenon with its own rights, next to the pods.
        bootstrap.write_worker_kubeconfig(self._sandbox.layout, self._sandbox.kubernetes_endpoint)
        self._pod = self._kubectl("get", "pods", "--output=jsonpath={.items[*].metadata.name}")
        with self.log.open("ab") as log:
            subprocess.Popen(self._command("logs", "--follow", self._pod), stdout=log)  # it ends with the container

    def stop(self) -> int:
        """Scale the Deployment to zero, as before a return to Karpenter; the exit status of the worker."""
        return self._end(lambda: self._kubectl("scale", f"deployment/{RELEASE}", "--replicas=0"))

    def uninstall(self) -> int:
        """Uninstall the release while the worker runs; the exit status of the worker."""
        where = (NAMESPACE, f"--kubeconfig={self._sandbox.kubeconfig}")
        return self._end(lambda: helm.run("uninstall", RELEASE, *where))

    def crash(self) -> int:
        """Kill all processes of the worker; the exit status of its container, which the kubelet restarts."""
        count = "{.status.containerStatuses[0].restartCount}"
        before = self._kubectl("get", "pod", self._pod, f"--output=jsonpath={count}")
        for item in processes(self._sandbox):
            process = psutil.Process(item.pid)
            if any(part.startswith("worker.") for part in process.cmdline()):
                process.kill()
        deadline = time.monotonic() + READY_SECONDS
        while self._kubectl("get", "pod", self._pod, f"--output=jsonpath={count}") == before:
            assert time.monotonic() < deadline, "the kubelet did not restart the container"
            time.sleep(POLL_SECONDS)
        ended = "{.status.containerStatuses[0].lastState.terminated.exitCode}"
        return int(self._kubectl("get", "pod", self._pod, f"--output=jsonpath={ended}"))

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since."""
        return bool(self._pod)

    def page(self, path: str) -> str:
        """What its metrics port answers for a path, through the API server."""
        pod = f"/api/v1/namespaces/{Sandbox.namespace}/pods/{self._pod}:{METRICS_PORT}"
        return self._sandbox.kubectl("get", "--raw", f"{pod}/proxy{path}")

    def _end(self, ask: Callable[[], object]) -> int:
        """Watch the pod while it ends: what it leaves behind goes with it."""
        pod, self._pod = self._pod, ""
        status = 'jsonpath={.status.containerStatuses[0].state.terminated.exitCode}{"\\n"}'
        watching = self._command("get", "pod", pod, "--watch", f"--output={status}")
        with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as watch:
            assert watch.stdout is not None
            watch.stdout.readline()  # the pod as it is now
            try:
                ask()
                self._kubectl("wait", "--for=delete", f"pod/{pod}", f"--timeout={STOP_SECONDS}s")
            finally:
                watch.terminate()
            text = watch.stdout.read().split()
        assert text, f"{pod} is gone, and how it ended was never said: see {self.log}"
        return int(text[-1])

    def _kubectl(self, *arguments: str) -> str:
        return self._sandbox.kubectl(*arguments, NAMESPACE)

    def _command(self, *arguments: str) -> list[str]:
        return [str(tool("kubectl")), f"--kubeconfig={self._sandbox.kubeconfig}", *arguments, NAMESPACE]
