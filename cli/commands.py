"""The commands of ``tenon``: what its help says of each before any command's module is loaded."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command. The module in `cli` that has its name contains its ``app``."""

    sentence: str
    """The first sentence of its help."""
    extra: str = ""
    """The extra that it needs. One without runs with the plain wheel, as long as it reads only files."""


COMMANDS = {
    "approve": Command(
        "Approve commands that wait for it: each is validated again, and its nodes leave within the budgets.",
        extra="worker",
    ),
    "codec-server": Command("Decrypt payloads for Temporal's UI, until Ctrl-C.", extra="worker"),
    "completion": Command("Print a script that completes commands, options and names of objects in bash, zsh or fish."),
    "convert": Command("Convert Karpenter's manifests of any version to v1, or node groups."),
    "cost": Command("Show what the cluster costs, now or in a window, and who causes it.", extra="worker"),
    "demo": Command(
        "Start the sandbox and a worker, scale a Deployment up and down, and show what happens to its nodes.",
        extra="sandbox",
    ),
    "disruptions": Command(
        "Show the commands that remove nodes: why, what for, what they save, and what they wait for.", extra="worker"
    ),
    "doctor": Command(
        "Check settings, Temporal, Kubernetes and AWS with the worker's environment, and say what to do.",
        extra="worker",
    ),
    "drain-node-group": Command(
        "Move the pods of a node group to nodes of Tenon, a few nodes at a time, and make the group smaller.",
        extra="worker",
    ),
    "explain": Command("Explain decisions about an object, from the cluster or from files."),
    "handback": Command("Move the cluster from Tenon to Karpenter: the same nodes, and no pod moves.", extra="worker"),
    "history": Command("Show what happened, why and by whom: plans, launches, refusals, commands and removals."),
    "node": Command("Watch and control nodes through their workflows.", extra="worker"),
    "pause": Command(
        "Pause disruption: no node is consolidated, replaced for drift, or removed because it is empty.", extra="worker"
    ),
    "playground": Command(
        "Serve a page on this machine: plan for manifests, change them or prices, and see what differs, until Ctrl-C.",
        extra="worker",
    ),
    "pods": Command(
        "Show the pods that wait for a node, by cause: what each NodePool lacks, what is bought, and the next attempt.",
        extra="worker",
    ),
    "prices": Command("Print a table of a region's list prices, for the worker's setting PRICE_TABLE.", extra="worker"),
    "refuse": Command(
        "Refuse commands that wait for approval: they touch nothing, and their nodes are left alone for a time.",
        extra="worker",
    ),
    "replay": Command(
        "Replay past plans and disruptions with today's engine, and show which decisions change and what that costs.",
        extra="worker",
    ),
    "report": Command(
        "Write one page about a cluster: nodes, cost, the last days, what comes, advice.", extra="worker"
    ),
    "resume": Command("Lift pauses, so that nodes are disrupted again.", extra="worker"),
    "rollout": Command(
        "Show how far new versions of nodes are, and start, approve, pause or end their rollouts.", extra="worker"
    ),
    "sandbox": Command("Run Temporal, Kubernetes and EC2 on this machine, to try Tenon.", extra="sandbox"),
    "schedule": Command("Show what NodeSchedules ask for.", extra="worker"),
    "settings": Command(
        "Show a worker's settings for this environment and these flags, and where each comes from.", extra="worker"
    ),
    "shadow": Command("Watch a cluster of Karpenter's, and report what Tenon would do and save.", extra="worker"),
    "simulate": Command("Show which nodes Tenon would launch for the pods in these manifests, and what they cost."),
    "takeover": Command("Move the cluster from Karpenter to Tenon: the same nodes, and no pod moves.", extra="worker"),
    "teardown": Command("End all that Tenon has bought and made for a cluster.", extra="worker"),
    "top": Command(
        "Show nodes live: use, price, stage, what keeps them; with keys to show, drain and keep.", extra="worker"
    ),
    "ui": Command(
        "Print links into Temporal's UI: a node's or a command's page, lists of them, or all lists.", extra="worker"
    ),
    "validate": Command(
        "Check Karpenter's manifests of any version as the API server and the worker would, without a cluster."
    ),
    "why": Command(
        "Say why, on one page: why a node was bought and who removed it, or why a pod is pending.", extra="worker"
    ),
    "worker": Command("Run the worker: workflows and activities, cluster cache and planning.", extra="worker"),
}
"""By name, in the order of the help."""


def module_of(name: str) -> str:
    """Return the module that contains the ``app`` of a command."""
    return f"cli.{name.replace('-', '_')}"
