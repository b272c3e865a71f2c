"""A sandbox as an object, which tests, the demo and the command line start, use and stop.

``sandbox = Sandbox.start(folder)``, a worker with ``sandbox.worker_env()`` in its environment,
``sandbox.apply(Path("examples/inflate.yaml"))``, ``sandbox.stop()``.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from sandbox import build, helm, kubectl, metrics
from sandbox.control import order
from sandbox.ec2.authorization import identities
from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.region import REGION, UnknownRegionError, check_region
from sandbox.errors import SandboxError
from sandbox.kubelet import programs, release
from sandbox.kubelet.machine import too_deep, unable
from sandbox.layout import CLUSTER_NAME, NAMESPACE, Layout
from sandbox.metrics.usage import parse_load
from sandbox.nodeadm import NODEADM
from sandbox.ports import LOOPBACK, free_ports
from sandbox.progress import OnProgress, silent
from sandbox.status import Addresses, State, Status, read
from sandbox.supervisor_process import end, launch, stop, until_ready
from sandbox.temporal import TemporalKind, UnknownTemporalError, chosen
from sandbox.temporal import programs as temporal_programs

METRICS_SECONDS = 180
"""How long the API server may take to serve metrics: a busy machine starts them late, and it asks again after 30 s."""


class Sandbox:
    """A running sandbox."""

    namespace = NAMESPACE

    def __init__(
        self,
        layout: Layout,
        addresses: Addresses,
        owned: subprocess.Popen[bytes] | None = None,
        region: str = REGION,
        cluster_name: str = CLUSTER_NAME,
    ) -> None:
        self.layout = layout
        self.cluster_name = cluster_name
        self.region = region
        self.kubeconfig = layout.kubeconfig
        """The administrator's kubeconfig."""
        self.worker_kubeconfig = layout.worker_kubeconfig
        """Tenon's kubeconfig: the ServiceAccount tenon/tenon with only its own permissions."""
        self.record = layout.record
        """The file with the record of its workers."""
        self.logs = layout.logs
        self.kubernetes_endpoint = addresses.kubernetes
        self.temporal_address = addresses.temporal
        self.temporal_ui = addresses.temporal_ui or ""
        """Empty with Temporal on PostgreSQL, which has no UI."""
        self.ec2_endpoint = addresses.ec2 or ""
        self._owned = owned
        self._worker_ports: dict[int, list[int]] = {}

    @classmethod
    def start(
        cls,
        state_dir: Path | str | None = None,
        *,
        on_progress: OnProgress = silent,
        boot_delay: float | None = None,
        keep_history: bool = False,
        audit: bool = False,
        kubelet: bool = False,
        detach: bool = False,
        region: str = REGION,
        temporal: TemporalKind | None = None,
        cluster_name: str = CLUSTER_NAME,
    ) -> Sandbox:
        """Start a sandbox in ``state_dir`` (default: see layout) and return when it is ready.

        It ends with ``stop`` or when this process ends for any reason. With ``detach`` it outlives this process.
        ``boot_delay`` is in seconds. ``audit`` writes every request to the API server to ``layout.audit_log``.
        ``region`` is that of its AWS. ``kubelet`` adds a real node that runs real pods (see sandbox.kubelet).
        ``temporal`` is which Temporal runs; the default is that of TENON_SANDBOX_TEMPORAL, or the dev server.
        ``cluster_name`` tells clusters apart that share one Temporal.

        Raises:
            SandboxError: the sandbox did not start, one already runs in this folder, its region or its Temporal is
                unknown, or this machine cannot run a kubelet or PostgreSQL.
            BuildError: a program could not be built.
            MissingToolError: a program is not installed.
        """
        layout = Layout.at(state_dir)
        temporal = _checked(layout, region, temporal, kubelet=kubelet)
        binaries = build.ensure(on_progress)
        nodeadm = NODEADM.ensure(on_progress)
        if kubelet:
            programs.ensure(on_progress)
        if temporal is TemporalKind.POSTGRESQL:
            temporal_programs.ensure(on_progress)
        try:
            layout.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SandboxError(f"The state folder {layout.root} cannot be used: {error}.") from error
        options = [f"--binaries={binaries}", f"--nodeadm={nodeadm}"]
        options += [f"--temporal={temporal}", f"--cluster={cluster_name}"]
        options += [] if boot_delay is None else [f"--boot-delay={boot_delay}"]
        options += ["--keep-history"] if keep_history else []
        options += ["--audit"] if audit else []
        options += ["--kubelet"] if kubelet else []
        process = launch(layout, options, region, detach=detach)
        try:
            status = until_ready(layout, process, on_progress)
        except BaseException:
            end(layout, process)
            raise
        assert status.addresses is not None
        return cls(layout, status.addresses, process, region, cluster_name)

    @classmethod
    def attach(cls, state_dir: Path | str | None = None) -> Sandbox:
        """The running sandbox in ``state_dir``.

        Raises:
            SandboxError: no sandbox is ready there.
        """
        layout = Layout.at(state_dir)
        status = read(layout.status)
        if status is None or status.state is not State.READY or status.addresses is None:
            text = f"it is {status.state}: {status.message}" if status else "it does not exist"
            raise SandboxError(f"No sandbox is ready in {layout.root} ({text}); `tenon sandbox up` starts one.")
        return cls(layout, status.addresses)

    @classmethod
    def find(cls, state_dir: Path | str | None = None) -> Sandbox | None:
        """The running sandbox in ``state_dir``. None if no sandbox is ready there."""
        try:
            return cls.attach(state_dir)
        except SandboxError:
            return None

    def ec2(self) -> Ec2Admin:
        """The admin API of the sandbox's EC2: faults, capacity, instances, rejected pods."""
        return Ec2Admin(self.ec2_endpoint)

    def stop_component(self, name: str, *, kill: bool = False) -> None:
        """Stop one component, such as ``temporal``, and keep the others running.

        Temporal and etcd keep their data. EC2 forgets its instances.

        Raises:
            SandboxError: the component does not exist or does not run.
        """
        self._order("kill" if kill else "stop", name)

    def start_component(self, name: str) -> None:
        """Start a stopped component again, and return when it serves.

        Raises:
            SandboxError: the component is not stopped.
        """
        self._order("start", name)

    def freeze_component(self, name: str) -> None:
        """Suspend a component: its connections stay open, but it answers nothing.

        Raises:
            SandboxError: the component does not run.
        """
        self._order("freeze", name)

    def thaw_component(self, name: str) -> None:
        """Resume a frozen component.

        Raises:
            SandboxError: the component does not run.
        """
        self._order("thaw", name)

    def start_metrics(self) -> None:
        """Serve metrics.k8s.io from now on, for HorizontalPodAutoscalers and `kubectl top`.

        Raises:
            SandboxError: the component could not be started.
        """
        component = self.status().components.get(metrics.COMPONENT)
        if component is None or component.state is State.STOPPED:
            self.start_component(metrics.COMPONENT)
        available = "wait", "--for=condition=Available", f"apiservice/{metrics.API_SERVICE}"
        kubectl.kubectl(self.kubeconfig, *available, f"--timeout={METRICS_SECONDS}s", timeout=METRICS_SECONDS + 20)

    def load(self, deployment: str, amount: str, namespace: str = "default") -> None:
        """Set the CPU usage of a Deployment's pods, in the form of `sandbox.metrics.usage`: ``90%``, ``1500m``.

        Raises:
            SandboxError: the amount is malformed, or metrics cannot be served.
            KubectlError: the Deployment does not exist.
        """
        try:
            parse_load(amount)
        except ValueError as error:
            raise SandboxError(f"{error}.") from error
        self.start_metrics()
        marked = f"{metrics.LOAD}={amount.strip()}"
        self.kubectl("annotate", "--overwrite", f"--namespace={namespace}", f"deployment/{deployment}", marked)

    def install(
        self, archive: Path = release.IMAGE, values: dict[str, Any] | None = None, chart: Path = release.CHART
    ) -> None:
        """Install or upgrade Tenon by its chart on the real node, with the image in this archive, and return when it is
        ready.

        ``values`` are more values for the chart.

        Raises:
            SandboxError: the sandbox has no real node, there is no such image or chart, or the worker did not
                become ready.
        """
        if not self.layout.node_process.exists():
            raise SandboxError("The sandbox has no real node: start it with `tenon sandbox up --kubelet`.")
        if not archive.exists():
            raise SandboxError(f"There is no image in {archive}: run `make image`, or name another archive.")
        if not chart.exists():
            raise SandboxError(f"There is no chart in {chart}, as in an installed wheel: give one with --chart.")
        try:
            release.install(self.layout, self.kubernetes_endpoint, archive, values, chart)
        except (OSError, ValueError, helm.HelmError, kubectl.KubectlError) as error:
            raise SandboxError(f"Tenon could not be installed: {error}.") from error

    def rollback(self) -> None:
        """Go back to what was installed before the last `install`, and return when it is ready.

        Raises:
            SandboxError: Helm did not roll back, or the worker did not become ready.
        """
        try:
            release.rollback(self.layout)
        except (helm.HelmError, kubectl.KubectlError) as error:
            raise SandboxError(f"Tenon could not be rolled back: {error}.") from error

    def _order(self, do: str, component: str) -> None:
        try:
            order(self.layout.control, do, component)
        except (OSError, ValueError) as error:
            raise SandboxError(f"Cannot {do} {component}: {error}.") from error

    def status(self) -> Status:
        """The current status."""
        status = read(self.layout.status)
        return status or Status(state=State.STOPPED, message="never started")

    def worker_env(self, replica: int = 0, *, kubeconfig: Path | str | None = None) -> dict[str, str]:
        """The environment of a Tenon worker in this sandbox. A replica always gets the same ports.

        ``kubeconfig`` replaces the worker's own, for example with an `ApiProxy`'s.
        """
        worker_ports = {port for ports in self._worker_ports.values() for port in ports}
        while replica not in self._worker_ports:
            numbers = free_ports(3)  # the ports of a replica that does not run yet look free too
            if not worker_ports.intersection(numbers):
                self._worker_ports[replica] = numbers
        metrics, health, webhook = self._worker_ports[replica]
        return {
            "KUBECONFIG": str(kubeconfig or self.worker_kubeconfig),
            "TEMPORAL_ADDRESS": self.temporal_address,
            "TEMPORAL_NAMESPACE": "default",
            "AWS_ENDPOINT_URL": self.ec2_endpoint,
            "AWS_REGION": self.region,
            **identities.environment(identities.worker_key(self.cluster_name)),
            "CLUSTER_NAME": self.cluster_name,
            "CLUSTER_ENDPOINT": self.kubernetes_endpoint,
            "METRICS_PORT": str(metrics),
            "HEALTH_PROBE_PORT": str(health),
            "WEBHOOK_PORT": str(webhook),
            "WEBHOOK_URL": f"https://{LOOPBACK}:{webhook}",
            "RECORD_SINKS": f"stdout,{self.record.as_uri()}?megabytes=20&files=3",
        }

    def aws(self, service: Any) -> Any:
        """The administrator's client of an AWS service."""
        import boto3

        return boto3.Session().client(  # a session of its own, because the default one is not thread-safe
            service,
            endpoint_url=self.ec2_endpoint,
            region_name=self.region,
            aws_access_key_id=identities.ADMINISTRATOR_KEY,
            aws_secret_access_key=identities.SECRET,
        )

    def apply(self, *manifests: kubectl.Manifest | Iterable[kubectl.Manifest]) -> str:
        """Apply files and objects, alone or in lists, server-side and as the administrator.

        Raises:
            KubectlError: kubectl failed.
        """
        flat: list[kubectl.Manifest] = []
        for manifest in manifests:
            flat.extend([manifest] if isinstance(manifest, (Path, dict)) else manifest)
        return kubectl.apply(self.kubeconfig, *flat)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return its output.

        Raises:
            KubectlError: kubectl failed.
        """
        return kubectl.kubectl(self.kubeconfig, *arguments, stdin=stdin)

    def wait(self) -> Status:
        """Block until the sandbox ends or another process stops it."""
        while (status := self.status()).running:
            time.sleep(0.5)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop every process.

        Raises:
            SandboxError: a process did not end.
        """
        stop(self.layout, self._owned)


def _checked(layout: Layout, region: str, temporal: TemporalKind | None, *, kubelet: bool) -> TemporalKind:
    """Return which Temporal a sandbox with these choices runs.

    Raises:
        SandboxError: one of them is unknown, or cannot run on this machine, or a sandbox runs in this folder.
    """
    try:
        check_region(region)
        temporal = temporal or chosen()
    except (UnknownRegionError, UnknownTemporalError) as error:
        raise SandboxError(f"{error}.") from error
    status = read(layout.status)
    if status is not None and status.running:
        raise SandboxError(f"A sandbox runs in {layout.root} already: `tenon sandbox down` stops it.")
    if kubelet and (reason := unable() or too_deep(layout.root)):
        raise SandboxError(reason)
    if temporal is TemporalKind.POSTGRESQL and (reason := temporal_programs.unable()):
        raise SandboxError(reason)
    return temporal
