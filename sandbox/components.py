"""The sandbox's components: the command line of each, its readiness check, and the components that it depends on."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, fields
from pathlib import Path

from sandbox import kubelet
from sandbox.audit import audit_flags
from sandbox.kubelet.api_server import node_flags
from sandbox.kwok import NODE_GRACE_SECONDS
from sandbox.layout import CLUSTER_NAME, SERVICE_CIDR, Layout
from sandbox.metrics import API_SERVICE
from sandbox.metrics import COMPONENT as METRICS
from sandbox.metrics import MODULE as METRICS_MODULE
from sandbox.ports import LOOPBACK, free_ports
from sandbox.temporal import COMPONENT as TEMPORAL
from sandbox.temporal import DATABASE_COMPONENT, DYNAMIC_CONFIG, TemporalKind
from workflows.names import SEARCH_ATTRIBUTES

API_SERVER = "kube-apiserver"
BOOTSTRAP = "bootstrap"
MANIFESTS = "manifests"
"""The part of the bootstrap after which the API server serves all kinds of objects."""
EC2_MODULE = "sandbox.ec2.server"

CLIENT_RATE = ("--kube-api-qps=1000", "--kube-api-burst=2000")
"""Request limits for kube-scheduler and the controller manager. With their defaults (50 and 100 for kube-scheduler), a
load test would measure the limits.
"""
GO_MEMORY = (("GOGC", "400"), ("GOMEMLIMIT", "2GiB"))
"""Trades memory for CPU. By default Go collects garbage each time the heap has doubled, which takes a quarter of the
API server's CPU time in a burst. Near the limit it collects as often as necessary.
"""
NO_FSYNC = ("--sqlite-pragma=journal_mode=wal", "--sqlite-pragma=synchronous=off")
"""A database that is deleted with its sandbox must survive an end of Temporal, but not a crash of the machine."""


@dataclass(frozen=True)
class Ports:
    """A free port for each listener."""

    etcd: int
    etcd_peer: int
    kubernetes: int
    controller_manager: int
    scheduler: int
    kwok: int
    temporal: int
    temporal_ui: int
    temporal_http: int
    temporal_metrics: int
    temporal_frontend_membership: int
    temporal_history: int
    temporal_history_membership: int
    temporal_matching: int
    temporal_matching_membership: int
    temporal_worker: int
    temporal_worker_membership: int
    temporal_ready: int
    postgresql: int
    postgresql_ready: int
    ec2: int
    metrics: int
    node: int
    node_proxy: int

    @classmethod
    def free(cls) -> Ports:
        """Ports that are free now."""
        return cls(*free_ports(len(fields(cls))))


@dataclass(frozen=True)
class Options:
    """Options that a caller may set."""

    boot_delay: float | None = None
    """Seconds between an instance's launch and its Node. None uses the EC2 server's default."""
    nodeadm: Path | None = None
    """The program that reads user data. Without it no instance becomes a node."""
    keep_history: bool = False
    """Keep Temporal's histories across `down` and `up`. They always survive a stop and start of Temporal alone."""
    audit: bool = False
    """Write every request to the API server to the audit log."""
    kubelet: bool = False
    """Run a real node, whose kubelet runs real pods."""
    temporal: TemporalKind = TemporalKind.DEV
    cluster_name: str = CLUSTER_NAME


@dataclass(frozen=True)
class Component:
    """One process."""

    name: str
    argv: tuple[str, ...]
    ready: str
    """A URL that answers 200 when the component serves."""
    after: tuple[str, ...] = ()
    on_demand: bool = False
    """Start the component only on request, and not together with the others."""
    leaves: tuple[str, ...] = ()
    """The object (kind and name) to delete after the component ends, if the component did not delete it."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables for the component, unless the caller has set them."""


def has_ec2() -> bool:
    """Whether the EC2 server is installed."""
    return importlib.util.find_spec(EC2_MODULE) is not None


def components(layout: Layout, ports: Ports, binaries: Path, temporal: Path, options: Options) -> list[Component]:
    """All components, each after its dependencies."""
    postgresql = options.temporal is TemporalKind.POSTGRESQL
    parts = [
        _etcd(layout, ports, binaries),
        _api_server(layout, ports, binaries, options),
        _controller_manager(layout, ports, binaries),
        _scheduler(layout, ports, binaries),
        _kwok(layout, ports, binaries),
        *(_server(layout, ports, options) if postgresql else (_dev_server(layout, ports, temporal, options),)),
        _metrics(layout, ports),
    ]
    if has_ec2():
        parts.append(_ec2(layout, ports, options))
    if options.kubelet:
        parts.append(_kubelet(layout, ports))
    return parts


def _etcd(layout: Layout, ports: Ports, binaries: Path) -> Component:
    client, peer = f"http://{LOOPBACK}:{ports.etcd}", f"http://{LOOPBACK}:{ports.etcd_peer}"
    argv = (
        str(binaries / "etcd"),
        f"--data-dir={layout.etcd}",
        "--name=sandbox",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=sandbox={peer}",
        "--unsafe-no-fsync",  # the cluster ends with its processes, so it need not survive a crash of the machine
        "--log-level=warn",
    )
    return Component("etcd", argv, f"{client}/health", environment=GO_MEMORY)


def _api_server(layout: Layout, ports: Ports, binaries: Path, options: Options) -> Component:
    pki = layout.pki
    argv = (
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://{LOOPBACK}:{ports.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.kubernetes}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",  # Endpoints may not hold loopback addresses
        f"--cert-dir={pki}",
        f"--tls-cert-file={pki / 'server.crt'}",
        f"--tls-private-key-file={pki / 'server.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--authorization-mode={'Node,RBAC' if options.kubelet else 'RBAC'}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-accounts.key'}",
        f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
        "--allow-privileged=true",
        "--profiling=false",
        *(audit_flags(layout) if options.audit else ()),
        *(node_flags(layout) if options.kubelet else ()),
    )
    ready = f"https://{LOOPBACK}:{ports.kubernetes}/readyz"
    return Component(API_SERVER, argv, ready, after=("etcd",), environment=GO_MEMORY)


def _kubelet(layout: Layout, ports: Ports) -> Component:
    argv = (
        sys.executable,
        "-m",
        kubelet.MODULE,
        f"--state={layout.root}",
        f"--port={ports.node}",
        f"--proxy={ports.node_proxy}",
        f"--kubernetes={ports.kubernetes}",
        f"--temporal={ports.temporal}",
        f"--ec2={ports.ec2}",
    )
    return Component(kubelet.COMPONENT, argv, f"http://{LOOPBACK}:{ports.node}/readyz", after=(API_SERVER,))


def _client(layout: Layout, name: str, port: int) -> tuple[str, ...]:
    """Flags that the scheduler and the controller manager share."""
    return (
        f"--kubeconfig={layout.component_kubeconfig(name)}",
        "--leader-elect=false",
        *CLIENT_RATE,
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.pki / 'server.crt'}",
        f"--tls-private-key-file={layout.pki / 'server.key'}",
        "--profiling=false",
    )


def _controller_manager(layout: Layout, ports: Ports, binaries: Path) -> Component:
    name = "kube-controller-manager"
    argv = (
        str(binaries / name),
        *_client(layout, name, ports.controller_manager),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.pki / 'service-accounts.key'}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        "--horizontal-pod-autoscaler-sync-period=1s",  # it sends no requests until there is an autoscaler
    )
    ready = f"https://{LOOPBACK}:{ports.controller_manager}/healthz"
    # Its garbage collector reads the kinds at its start and then every 30 seconds, and orphans no objects of others.
    return Component(name, argv, ready, after=(API_SERVER, MANIFESTS), environment=GO_MEMORY)


def _scheduler(layout: Layout, ports: Ports, binaries: Path) -> Component:
    name = "kube-scheduler"
    argv = (str(binaries / name), *_client(layout, name, ports.scheduler))
    ready = f"https://{LOOPBACK}:{ports.scheduler}/healthz"
    return Component(name, argv, ready, after=(API_SERVER,), environment=GO_MEMORY)


def _kwok(layout: Layout, ports: Ports, binaries: Path) -> Component:
    argv = (
        str(binaries / "kwok"),
        f"--kubeconfig={layout.component_kubeconfig('kwok')}",
        f"--config={layout.kwok_config}",
        f"--server-address={LOOPBACK}:{ports.kwok}",
    )
    ready = f"http://{LOOPBACK}:{ports.kwok}/healthz"
    return Component("kwok", argv, ready, after=(API_SERVER,), environment=GO_MEMORY)


def _dev_server(layout: Layout, ports: Ports, temporal: Path, options: Options) -> Component:
    argv = [
        str(temporal),
        "server",
        "start-dev",
        f"--ip={LOOPBACK}",
        f"--port={ports.temporal}",
        f"--ui-ip={LOOPBACK}",
        f"--ui-port={ports.temporal_ui}",
        f"--http-port={ports.temporal_http}",
        f"--metrics-port={ports.temporal_metrics}",
        "--ui-disable-news-fetch",
        "--log-level=warn",
        *(f"--dynamic-config-value={value}" for value in DYNAMIC_CONFIG),
        *(() if options.keep_history else NO_FSYNC),
    ]
    for key in SEARCH_ATTRIBUTES:
        kind = key.indexed_value_type.name.title().replace("_", "")
        argv.append(f"--search-attribute={key.name}={kind}")
    argv.append(f"--db-filename={layout.temporal_db if options.keep_history else layout.temporal_fresh_db}")
    ready = f"http://{LOOPBACK}:{ports.temporal_http}/api/v1/namespaces/default"
    return Component(TEMPORAL, tuple(argv), ready, environment=GO_MEMORY)


def _server(layout: Layout, ports: Ports, options: Options) -> tuple[Component, Component]:
    """PostgreSQL, and temporal-server on it."""
    folder = layout.postgresql if options.keep_history else layout.fresh_postgresql
    database = (
        sys.executable,
        "-m",
        "sandbox.temporal.postgresql",
        f"--folder={folder}",
        f"--port={ports.postgresql}",
        f"--ready={ports.postgresql_ready}",
        *(("--keep",) if options.keep_history else ()),
    )
    listening = (
        *(ports.temporal, ports.temporal_frontend_membership),
        *(ports.temporal_history, ports.temporal_history_membership),
        *(ports.temporal_matching, ports.temporal_matching_membership),
        *(ports.temporal_worker, ports.temporal_worker_membership),
    )
    server = (
        sys.executable,
        "-m",
        "sandbox.temporal.server",
        f"--folder={folder}",
        f"--postgresql={ports.postgresql}",
        f"--ready={ports.temporal_ready}",
        "--ports",
        *map(str, listening),
    )
    ready, after = (f"http://{LOOPBACK}:{port}/readyz" for port in (ports.postgresql_ready, ports.temporal_ready))
    return (
        Component(DATABASE_COMPONENT, database, ready),
        Component(TEMPORAL, server, after, after=(DATABASE_COMPONENT,), environment=GO_MEMORY),
    )


def _metrics(layout: Layout, ports: Ports) -> Component:
    argv = (
        sys.executable,
        "-m",
        METRICS_MODULE,
        f"--port={ports.metrics}",
        f"--kubeconfig={layout.component_kubeconfig(METRICS)}",
        f"--pki={layout.pki}",
    )
    url = f"https://{LOOPBACK}:{ports.metrics}/readyz"
    leaves = ("apiservice", API_SERVICE)
    return Component(METRICS, argv, url, after=(API_SERVER,), on_demand=True, leaves=leaves)


def _ec2(layout: Layout, ports: Ports, options: Options) -> Component:
    """The EC2 server. It is the slowest to load, so it starts first, and its joiner retries until the API server
    answers.
    """
    argv = [
        sys.executable,
        "-m",
        EC2_MODULE,
        f"--port={ports.ec2}",
        f"--state={layout.ec2}",
        f"--kubeconfig={layout.component_kubeconfig('ec2')}",
        f"--cluster={options.cluster_name}",
    ]
    if options.nodeadm is not None:
        argv.append(f"--nodeadm={options.nodeadm}")
    if options.boot_delay is not None:
        argv.append(f"--boot-delay={options.boot_delay}")
    return Component("ec2", tuple(argv), f"http://{LOOPBACK}:{ports.ec2}/sandbox/health")
