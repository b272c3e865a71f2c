"""Links into Temporal's UI: pages of workflows, and lists of workflows by query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlsplit

from temporalio.client import Client

from tenon.errors import TenonError
from tenon.kube.timestamps import format_instant
from tenon.node import ids
from worker.runtime.temporal.temporal_cloud import is_cloud_host
from workflows import names

CLOUD = "https://cloud.temporal.io"
DEV_SERVER_PORTS = {"7233": "8233"}
"""The port of the UI of `temporal server start-dev`, by the port of its server."""
EXPIRING_WITHIN = timedelta(days=7)
ENDED_WITHIN = timedelta(days=1)
METADATA = "user-metadata"
"""The tab of a workflow's page with its current details."""


class NoUiError(TenonError):
    """Nothing says where Temporal's UI is. The message is one sentence."""


@dataclass(frozen=True)
class View:
    """A list of workflows that people look for again and again."""

    name: str
    about: str
    query: Callable[[str, datetime], str]
    """Returns its query for a cluster and the current time."""


@dataclass(frozen=True)
class TemporalUi:
    """The UI of one namespace."""

    url: str
    namespace: str

    @classmethod
    def of(cls, url: str | None, target_host: str, namespace: str) -> TemporalUi:
        """Return the UI at ``url``, else that of Temporal Cloud or of a dev server at ``target_host``.

        Raises:
            NoUiError: it is a server whose UI may be anywhere, or the URL is none.
        """
        host, _, port = target_host.rpartition(":")
        if url:
            if urlsplit(url).scheme not in ("http", "https"):
                raise NoUiError(f"{url!r} is not the URL of Temporal's UI: write https://temporal.example.com.")
            return cls(url.rstrip("/"), namespace)
        if is_cloud_host(host):
            return cls(CLOUD, namespace)
        if host in ("localhost", "127.0.0.1") and port in DEV_SERVER_PORTS:
            return cls(f"http://{host}:{DEV_SERVER_PORTS[port]}", namespace)
        raise NoUiError("Where is Temporal's UI? Name it with --ui-url or TEMPORAL_UI_URL.")

    def workflow(self, workflow_id: str, run_id: str = "", tab: str = METADATA) -> str:
        """Return the link of a workflow's page; without a run, that of its newest run, on the tab Timeline."""
        page = f"{self._workflows}/{quote(workflow_id, safe='')}"
        return f"{page}/{run_id}/{tab}" if run_id else page

    def workflows(self, query: str) -> str:
        """Return the link of the list of workflows that a query selects."""
        return f"{self._workflows}?query={quote(query, safe='')}"

    @property
    def _workflows(self) -> str:
        return f"{self.url}/namespaces/{quote(self.namespace, safe='')}/workflows"


def ui_of(client: Client, url: str | None) -> TemporalUi:
    """Return the UI of the client's namespace.

    Raises:
        NoUiError: nothing says where it is.
    """
    return TemporalUi.of(url, client.service_client.config.target_host, client.namespace)


def nodes(cluster: str) -> str:
    """Return the query for the nodes that exist or are starting."""
    return ids.open_nodeclaims_query(cluster)


def leaving(cluster: str) -> str:
    """Return the query for the nodes that leave."""
    return f"{nodes(cluster)} AND {names.STAGE.name} = 'leaving'"


def expiring(cluster: str, now: datetime, within: timedelta) -> str:
    """Return the query for the nodes that expire within a time."""
    return f"{nodes(cluster)} AND {names.EXPIRES.name} < '{format_instant(now + within)}'"


def ended(cluster: str, now: datetime, within: timedelta) -> str:
    """Return the query for the nodes that left within a time.

    A run that continued as new is closed too, but its node lives. A NodeClaim whose launch was refused has no instance.
    """
    return (
        f"{ids.workflows_query(cluster, ids.NODECLAIM_WORKFLOW)} "
        f"AND ExecutionStatus = 'Completed' AND {names.INSTANCE.name} IS NOT NULL "
        f"AND CloseTime > '{format_instant(now - within)}'"
    )


def commands(cluster: str) -> str:
    """Return the query for disruption commands."""
    return ids.workflows_query(cluster, ids.COMMAND_WORKFLOW)


def saving_commands(cluster: str) -> str:
    """Return the query for the disruption commands that ended and save something."""
    return f"{commands(cluster)} AND ExecutionStatus = 'Completed' AND {names.SAVING.name} > 0"


def rollouts(cluster: str) -> str:
    """Return the query for the workflows of NodeRollouts."""
    return f"{ids.workflows_query(cluster, 'Rollout')} AND ExecutionStatus = 'Running'"


def schedules(cluster: str) -> str:
    """Return the query for what NodeSchedules asked for; the newest run of each says what it asks for now."""
    return ids.workflows_query(cluster, "NodeSchedule")


def commands_of(cluster: str, node: str) -> str:
    """Return the query for the disruption commands of a NodeClaim or Node."""
    return f"{commands(cluster)} AND {names.COMMAND_NODES.name} = '{node}'"


def in_pool(query: str, pool: str) -> str:
    """Return the query for those of a NodePool."""
    return f"{query} AND {names.POOL.name} = '{pool}'"


VIEWS = (
    View("nodes", "nodes that exist or start", lambda cluster, _: nodes(cluster)),
    View("blocked", "nodes that wait for you", lambda cluster, _: ids.blocked_nodeclaims_query(cluster)),
    View("leaving", "nodes that leave", lambda cluster, _: leaving(cluster)),
    View("expiring", "nodes that expire within 7 days", lambda cluster, now: expiring(cluster, now, EXPIRING_WITHIN)),
    View("ended", "nodes that left in the last 24 hours", lambda cluster, now: ended(cluster, now, ENDED_WITHIN)),
    View("commands", "disruption commands", lambda cluster, _: commands(cluster)),
    View("savings", "disruption commands that save something", lambda cluster, _: saving_commands(cluster)),
    View("rollouts", "rollouts of new versions of NodePools", lambda cluster, _: rollouts(cluster)),
    View("schedules", "what NodeSchedules ask for", lambda cluster, _: schedules(cluster)),
)
"""The lists that `tenon ui` prints."""


def singletons(cluster: str) -> dict[str, str]:
    """Return what the cluster's own workflows do, by their ID."""
    return {
        names.provisioner_id(cluster): "buys nodes: last batches, and what EC2 refuses",
        names.disruption_id(cluster): "decides which nodes leave: commands under way and the last ones",
    }
