"""The page of a rollout in Temporal's UI: its NodePools, their waves with evidence, and what an operator can send."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.kube.timestamps import time_text
from tenon.messages.rollout import PoolProgress, RolloutInput, RolloutOperation, WaveRecord
from tenon.sentences import for_temporal_ui, shortened

MAX_EVIDENCE = 160
"""How long the evidence of a gate may be on the page, which the UI passes on in a URL."""
LISTED_POOLS = 10
LISTED_WAVES = 8
LISTED_HELD = 3
LISTED_OPERATIONS = 3
ABOUT = """This workflow replaces the nodes of the NodePools that one NodeRollout selects, wave by wave, when they
have a new version. It waits while no NodePool has one."""

START = "Replaces all nodes of a NodePool although their version is the current one, wave by wave."
APPROVE = "Lets the wave begin that waits for an approval, or the one with the number `wave`."
PAUSE = "Replaces no more nodes until the rollout is resumed."
RESUME = "Continues a paused rollout, or begins again with a version that failed."
ABORT = "Stops the rollout where it is. Nodes with the new version stay."
ROLLBACK = "Replaces the nodes of the new version by the last good one, and holds the new one."
EXAMPLE = '{"pool": "web", "by": "ann", "reason": "why", "ticket": "OPS-1"}'
WHO = f"Input: `{EXAMPLE}`."
HINT = f"For example: {EXAMPLE}."
"""What a sentence about a wrong input ends with."""


def first_input(
    cluster: str, name: str, plan_queue: str = "", uid: str = "", pools: Sequence[PoolProgress] = ()
) -> RolloutInput:
    """Return the input of the workflow of a NodeRollout."""
    return RolloutInput(
        headline=f"Rolls new versions of nodes out as NodeRollout {name} of cluster {cluster} says",
        why="A version that fails must not reach all nodes",
        cluster=cluster,
        name=name,
        plan_queue=plan_queue,
        uid=uid,
        pools=list(pools),
    )


def current_details(name: str, pools: Sequence[PoolProgress]) -> str:
    """Render the page as Markdown."""
    lines = [f"### NodeRollout {name}", ""]
    for progress in pools[:LISTED_POOLS]:
        lines += [*_pool(progress), ""]
    if (more := len(pools) - LISTED_POOLS) > 0:
        lines += [f"- and {more} more NodePools", ""]
    lines += ["#### What you can send", ""]
    for update, effect in (
        ("start", START),
        ("approve", APPROVE),
        ("pause", PAUSE),
        ("resume", RESUME),
        ("abort", ABORT),
        ("rollback", ROLLBACK),
    ):
        lines.append(f"- Update `{update}`: {effect}")
    return for_temporal_ui("\n".join(lines))


def _pool(progress: PoolProgress) -> list[str]:
    versions = f"version {progress.current or 'not known yet'}"
    if progress.target and progress.target != progress.current:
        versions += f", new version {progress.target}"
    lines = [f"#### NodePool {progress.pool}: {progress.phase}", "", f"- {versions}"]
    if progress.cause:
        lines.append(f"- began because: {shortened(progress.cause, MAX_EVIDENCE)}")
    if progress.message and progress.message != progress.cause:
        lines.append(f"- {shortened(progress.message, MAX_EVIDENCE)}")
    for operation in progress.operations[-LISTED_OPERATIONS:]:
        lines.append(f"- {shortened(operation_sentence(operation), MAX_EVIDENCE)}")
    for held_node in progress.held_nodes[-LISTED_HELD:]:
        lines.append(f"- {held_node.claim} cannot leave: {shortened(held_node.why, MAX_EVIDENCE)}")
    if (more := len(progress.held_nodes) - LISTED_HELD) > 0:
        lines.append(f"- and {more} more cannot leave")
    if progress.history:
        lines += ["", "|wave|began (UTC)|ended (UTC)|outcome|evidence|", "|-|-|-|-|-|"]
        lines += map(_row, progress.history[-LISTED_WAVES:])
    return lines


def operation_sentence(operation: RolloutOperation) -> str:
    """Say who asked for what, when and why: '2026-01-31 12:00:00 UTC ann: pause (OPS-1, the disks are slow)'."""
    wave = f" of wave {operation.wave}" if operation.wave is not None else ""
    why = ", ".join(" ".join(text.split()) for text in (operation.ticket, operation.reason) if text)
    request = f"{operation.by or 'somebody'}: {operation.action}{wave}"
    return f"{time_text(operation.at)} {request}" + (f" ({why})" if why else "")


def _row(wave: WaveRecord) -> str:
    evidence = shortened("; ".join(wave.evidence), MAX_EVIDENCE)
    cells = (wave.name, f"{wave.began:%m-%d %H:%M}", f"{wave.ended:%m-%d %H:%M}", wave.outcome, evidence)
    return "|" + "|".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + "|"
