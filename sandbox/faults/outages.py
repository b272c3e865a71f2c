"""Outages: a component of the control plane is stopped, killed or frozen until the fault is healed."""

from __future__ import annotations

from typing import Annotated

from sandbox.cluster import Sandbox
from sandbox.components import API_SERVER
from sandbox.faults.registry import Done, Heal, fault
from sandbox.status import State

TEMPORAL = "temporal"
Kill = Annotated[bool, "SIGKILL instead of SIGTERM."]


def _started(name: str) -> Heal:
    def heal(sandbox: Sandbox) -> None:
        part = sandbox.status().components.get(name)
        if part is not None and part.state is State.STOPPED:
            sandbox.start_component(name)

    return heal


def _thawed(sandbox: Sandbox) -> None:
    for name, part in sandbox.status().components.items():
        if part.state is State.FROZEN:
            sandbox.thaw_component(name)


def _all_started(sandbox: Sandbox) -> None:
    for name, part in sandbox.status().components.items():  # in their original start order
        if part.state is State.STOPPED:
            sandbox.start_component(name)


# Healed in this order: frozen components first, then those that others need in order to start.


@fault("component-frozen", heal=_thawed)
def component_frozen(
    sandbox: Sandbox, component: Annotated[str, "As `tenon sandbox status` names it."] = TEMPORAL
) -> Done:
    """One component keeps its connections and answers nothing."""
    sandbox.freeze_component(component)
    return [{"component": component}]


@fault("component-stopped", heal=_all_started)
def component_stopped(
    sandbox: Sandbox, component: Annotated[str, "As `tenon sandbox status` names it."], kill: Kill = False
) -> Done:
    """One component is stopped. EC2 forgets all instances by that: use ec2-down for an outage of EC2."""
    sandbox.stop_component(component, kill=kill)
    return [{"component": component}]


@fault("temporal-down", heal=_started(TEMPORAL))
def temporal_down(sandbox: Sandbox, kill: Kill = False) -> Done:
    """Temporal is stopped; its histories are kept for its start."""
    sandbox.stop_component(TEMPORAL, kill=kill)
    return [{"component": TEMPORAL}]


@fault("api-down", heal=_started(API_SERVER))
def api_down(sandbox: Sandbox, kill: Kill = False) -> Done:
    """The API server is stopped; etcd keeps all objects."""
    sandbox.stop_component(API_SERVER, kill=kill)
    return [{"component": API_SERVER}]
