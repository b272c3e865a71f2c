"""The commands of ``tenon``: what its help says of each before any command's module is loaded."""

from __future__ import annotations

from typing import NamedTuple


class CommandModule(NamedTuple):
    """One command. The module in `cli` that has its name contains its ``app``."""

    sentence: str
    """The first sentence of its help."""
    extra: str = ""
    """The extra that it needs. One without runs with the plain wheel, as long as it reads only files."""


COMMANDS = {
    "approve": CommandModule(
        "Approve commands that wait for it: each is validated again, and its nodes leave within the budgets.",
        extra="worker",
    ),
    "catalog": CommandModule(
        "Print the instance types and prices of a region, for the option --catalog of commands that plan.",
        extra="worker",
    ),
    "codec-server": CommandModule("Decrypt payloads for Temporal's UI, until Ctrl-C.", extra="worker"),
    "completion": CommandModule(
        "Print a script that completes commands, options and names of objects in bash, zsh or fish."
    ),
    "convert": CommandModule("Convert Karpenter's manifests of any version to v1, or node groups."),
    "cost": CommandModule("Show what the cluster costs, now or in a window, and who causes it.", extra="worker"),
    "demo": CommandModule(
        "Start the sandbox and a worker, scale a Deployment up and down, and show what happens to its nodes.",
        extra="sandbox",
    ),
    "disruptions": CommandModule(
        "Show the commands that remove nodes: why, what for, what they save, and what they wait for.", extra="worker"
    ),
    "doctor": CommandModule(
        "Check settings, Temporal, Kubernetes and AWS with the worker's environment, and say what to do.",
        extra="worker",
    ),
    "drain-node-group": CommandModule(
        "Move the pods of a node group to nodes of Tenon, a few nodes at a time, and make the group smaller.",
        extra="worker",
    ),
    "explain": CommandModule("Explain decisions about an object, from the cluster or from files."),
    "handback": CommandModule(
        "Move the cluster from Tenon to Karpenter: the same nodes, and no pod moves.", extra="worker"
    ),
    "history": CommandModule("Show what happened, why and by whom: plans, launches, refusals, commands and removals."),
    "node": CommandModule("Watch and control nodes through their workflows.", extra="worker"),
    "pause": CommandModule(
        "Pause disruption: no node is consolidated, replaced for drift, or removed because it is empty.", extra="worker"
    ),
    "playground": CommandModule(
        "Serve a page on this machine: plan for manifests, change them or prices, and see what differs, until Ctrl-C.",
        extra="worker",
    ),
    "pods": CommandModule(
        "Show the pods that wait for a node, by cause: what each NodePool lacks, what is bought, and the next attempt.",
        extra="worker",
    ),
    "prices": CommandModule(
        "Print a table of a region's list prices, for the worker's setting PRICE_TABLE.", extra="worker"
    ),
    "refuse": CommandModule(
        "Refuse commands that wait for approval: they touch nothing, and their nodes are left alone for a time.",
        extra="worker",
    ),
    "replay": CommandModule(
        "Replay past plans and disruptions with today's engine, and show which decisions change and what that costs.",
        extra="worker",
    ),
    "report": CommandModule(
        "Write one page about a cluster: nodes, cost, the last days, what comes, advice.", extra="worker"
    ),
    "resume": CommandModule("Lift pauses, so that nodes are disrupted again.", extra="worker"),
    "rollout": CommandModule(
        "Show how far new versions of nodes are, and start, approve, pause or end their rollouts.", extra="worker"
    ),
    "sandbox": CommandModule("Run Temporal, Kubernetes and EC2 on this machine, to try Tenon.", extra="sandbox"),
    "schedule": CommandModule("Show what NodeSchedules ask for.", extra="worker"),
    "settings": CommandModule(
        "Show a worker's settings for this environment and these flags, and where each comes from.", extra="worker"
    ),
    "shadow": CommandModule("Watch a cluster of Karpenter's, and report what Tenon would do and save.", extra="worker"),
    "simulate": CommandModule(
        "Show which nodes Tenon would launch for the pods in these manifests, and what they cost."
    ),
    "takeover": CommandModule(
        "Move the cluster from Karpenter to Tenon: the same nodes, and no pod moves.", extra="worker"
    ),
    "teardown": CommandModule("End all that Tenon has bought and made for a cluster.", extra="worker"),
    "top": CommandModule(
        "Show nodes live: use, price, stage, what keeps them; with keys to show, drain and keep.", extra="worker"
    ),
    "ui": CommandModule(
        "Print links into Temporal's UI: a node's or a command's page, lists of them, or all lists.", extra="worker"
    ),
    "validate": CommandModule(
        "Check Karpenter's manifests of any version as the API server and the worker would, without a cluster."
    ),
    "why": CommandModule(
        "Say why, on one page: why a node was bought and who removed it, or why a pod is pending.", extra="worker"
    ),
    "worker": CommandModule("Run the worker: workflows and activities, cluster cache and planning.", extra="worker"),
}
"""By name, in the order of the help."""


def module_of(name: str) -> str:
    """Return the module that contains the ``app`` of a command."""
    return f"cli.{name.replace('-', '_')}"
