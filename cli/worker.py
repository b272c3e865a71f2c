"""``tenon worker``: what the Deployment runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from worker import main
from worker.settings import SettingsError, load

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def worker(
    cluster_name: Annotated[str | None, typer.Option(help="Name of the cluster (CLUSTER_NAME).")] = None,
    cluster_endpoint: Annotated[str | None, typer.Option(help="Its API server (CLUSTER_ENDPOINT).")] = None,
    batch_max_duration: Annotated[str | None, typer.Option(help="Longest batch window (BATCH_MAX_DURATION).")] = None,
    batch_idle_duration: Annotated[str | None, typer.Option(help="Idle time that ends a batch.")] = None,
    preference_policy: Annotated[
        str | None, typer.Option(help="Respect or Ignore preferred affinities and ScheduleAnyway spread.")
    ] = None,
    min_values_policy: Annotated[
        str | None, typer.Option(help="minValues of NodePools: Strict, or BestEffort, which lowers them where it must.")
    ] = None,
    ignore_dra_requests: Annotated[
        str | None, typer.Option(help="true: pods with dynamic resource claims are left out.")
    ] = None,
    node_charge: Annotated[
        str | None, typer.Option(help="Dollars an hour that a node counts beside its price, 0 to 1000.")
    ] = None,
    max_workload_share_per_node: Annotated[
        str | None, typer.Option(help="Part of a workload's pods that one new node may carry, above 0 up to 1.")
    ] = None,
    garbage_collection_interval: Annotated[
        str | None, typer.Option(help="Time between two searches for orphans, 30s to 24h.")
    ] = None,
    initialization_timeout: Annotated[
        str | None, typer.Option(help="How long a registered node may take to initialize; 0 or Never: for ever.")
    ] = None,
    watch_silence_limit: Annotated[
        str | None, typer.Option(help="Silence after which a watch is begun anew, 1s to 10m.")
    ] = None,
    vm_memory_overhead_percent: Annotated[float | None, typer.Option(help="Memory the hypervisor takes.")] = None,
    reserved_enis: Annotated[int | None, typer.Option(help="Network interfaces not used for pods.")] = None,
    kube_client_qps: Annotated[float | None, typer.Option(help="Kubernetes requests a second.")] = None,
    kube_client_burst: Annotated[int | None, typer.Option(help="Kubernetes requests at once.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of /metrics.")] = None,
    health_probe_port: Annotated[int | None, typer.Option(help="Port of /healthz and /readyz.")] = None,
    disable_leader_election: Annotated[bool | None, typer.Option(help="Run without a Lease.")] = None,
    leader_election_name: Annotated[str | None, typer.Option(help="Name of the Lease.")] = None,
    leader_election_namespace: Annotated[str | None, typer.Option(help="Namespace of the Lease.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warn or error.")] = None,
) -> None:
    """Run the worker: workflows and activities, cluster cache and planning. Every flag has an environment variable."""
    flags = dict(locals())
    try:
        settings = load(**flags)
    except SettingsError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(main.EXIT_UNUSABLE) from None
    raise typer.Exit(main.run(settings))
