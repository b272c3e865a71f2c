"""What ``tenon rollout list`` and ``show`` print: tables for people, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.rollout_status import PoolView, RolloutStatus
from tenon.apis.noderollout import NodeRolloutSpec, RolloutGates
from tenon.kube.timestamps import format_instant, time_text
from tenon.messages.rollout import WaveRecord
from tenon.rollout.page import operation_sentence

NO_POOLS = "the status names no NodePool yet"
_UNDER_WAY = ("Progressing", "Paused")


def list_document(rollouts: Sequence[RolloutStatus]) -> list[dict[str, Any]]:
    """Return a row for each NodePool."""
    return [
        {"nodeRollout": rollout.name, **_pool_document(pool)} for rollout in rollouts for pool in _list_pools(rollout)
    ]


def print_list(rollouts: Sequence[RolloutStatus], console: Console) -> None:
    """Print a row for each NodePool."""
    table = _table("NODEROLLOUT", "NODEPOOL", "PHASE", "CURRENT", "TARGET", "WAVE", "MESSAGE")
    for rollout in rollouts:
        for pool in _list_pools(rollout):
            cells = (
                rollout.name,
                pool.pool,
                pool.phase,
                pool.current,
                pool.target,
                rollout.wave_of(pool),
                pool.message,
            )
            table.add_row(*(Text(cell or "-") for cell in cells))
    console.print(table)


def show_document(rollout: RolloutStatus) -> dict[str, Any]:
    """Return a NodeRollout with the waves of its NodePools."""
    return {
        "nodeRollout": rollout.name,
        "spec": rollout.spec.to_dict() if rollout.spec is not None else None,
        "specProblem": rollout.spec_problem,
        "progressProblem": rollout.progress_problem,
        "nodePools": [
            {
                **_pool_document(pool),
                "segment": pool.segment,
                "began": _instant(pool.began),
                "cause": pool.cause,
                "operations": [
                    {
                        "action": operation.action,
                        "at": _instant(operation.at),
                        "by": operation.by,
                        "reason": operation.reason,
                        "ticket": operation.ticket,
                        "wave": operation.wave,
                    }
                    for operation in pool.operations
                ],
                "heldNodes": [
                    {"nodeClaim": held_node.claim, "since": _instant(held_node.since), "reason": held_node.why}
                    for held_node in pool.held_nodes
                ],
                "waves": [_wave_document(wave) for wave in pool.waves],
            }
            for pool in rollout.pools
        ],
    }


def print_rollout(rollout: RolloutStatus, console: Console) -> None:
    """Print a NodeRollout: its spec in short, and each NodePool with its waves."""
    console.print(Text(f"NodeRollout {rollout.name}", style="bold"))
    for title, text in _spec_lines(rollout):
        _print_text(console, f"  {title:<11} {text}")
    if not rollout.pools:
        _print_text(console, f"\nNo NodePool: {NO_POOLS}.")
    for pool in rollout.pools:
        console.print()
        console.print(Text(f"NodePool {pool.pool}: {pool.phase}", style="bold"))
        for line in _pool_lines(pool, rollout):
            _print_text(console, f"  {line}")
        if pool.waves:
            console.print(_wave_table(pool.waves))


def _print_text(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=not console.is_terminal)


def _table(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _list_pools(rollout: RolloutStatus) -> Sequence[PoolView]:
    """Return the NodePools; an empty one with the reason if there are none, so that each NodeRollout is listed."""
    return rollout.pools or [PoolView("", message=rollout.spec_problem or NO_POOLS)]


def _pool_document(pool: PoolView) -> dict[str, Any]:
    return {
        "nodePool": pool.pool,
        "phase": pool.phase,
        "current": pool.current,
        "target": pool.target,
        "wave": pool.wave,
        "message": pool.message,
    }


def _wave_document(wave: WaveRecord) -> dict[str, Any]:
    return {
        "wave": wave.name,
        "began": _instant(wave.began),
        "ended": _instant(wave.ended),
        "outcome": wave.outcome,
        "evidence": wave.evidence,
    }


def _instant(instant: datetime | None) -> str:
    return format_instant(instant) if instant is not None else ""


def _pool_lines(pool: PoolView, rollout: RolloutStatus) -> Iterator[str]:
    yield f"current version {pool.current or 'not known yet'}" + (f", target {pool.target}" if pool.target else "")
    if pool.wave is not None:
        zone = f" in {pool.segment}" if pool.segment else ""
        since = f", began {time_text(pool.began)}" if pool.began is not None and pool.phase in _UNDER_WAY else ""
        yield f"wave {rollout.wave_of(pool)}{zone}{since}"
    if pool.cause:
        yield f"began because: {pool.cause}"
    if pool.message and pool.message != pool.cause:
        yield pool.message
    for operation in pool.operations:
        yield operation_sentence(operation)
    for held_node in pool.held_nodes:
        yield f"{held_node.claim} cannot leave since {time_text(held_node.since)}: {held_node.why}"


def _wave_table(waves: Sequence[WaveRecord]) -> Table:
    table = _table("WAVE", "BEGAN (UTC)", "ENDED (UTC)", "OUTCOME", "EVIDENCE")
    for column in table.columns[1:3]:
        column.no_wrap = True
    for wave in waves:
        times = (f"{instant.astimezone(UTC):%m-%d %H:%M}" for instant in (wave.began, wave.ended))
        table.add_row(*map(Text, (wave.name, *times, wave.outcome, "\n".join(wave.evidence) or "-")))
    return table


def _spec_lines(rollout: RolloutStatus) -> Iterator[tuple[str, str]]:
    """Yield title and text of each line about the spec."""
    if rollout.spec_problem:
        yield "problem", rollout.spec_problem
    if (spec := rollout.spec) is None:
        return
    strategy = spec.strategy
    yield "selects", _selected(spec)
    yield "waves", f"{', '.join(strategy.waves)}; order {strategy.order}"
    yield "pace", f"soak {strategy.soak}, at most {strategy.max_unavailable} unavailable"
    yield "gates", "; ".join(_gates(spec.gates))
    yield "on failure", spec.on_failure
    for window in spec.windows:
        yield "window", f"{window.schedule} for {window.duration} ({window.timezone})"


def _selected(spec: NodeRolloutSpec) -> str:
    """Return the selector as kubectl writes it."""
    selector = spec.node_pool_selector
    if selector is None:
        return "every NodePool that no other NodeRollout selects"
    parts = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for expression in selector.match_expressions:
        values = f" ({','.join(expression.values)})" if expression.values else ""
        parts.append(f"{expression.key} {expression.operator}{values}")
    return f"NodePools with {', '.join(parts)}" if parts else "every NodePool"


def _gates(gates: RolloutGates) -> Iterator[str]:
    yield f"initialized within {gates.initialized_within}"
    yield f"pods Ready within {gates.pods_ready_within}"
    if gates.restarts != "Ignore":
        yield "restarts not above old nodes"
    if gates.node_conditions != "Ignore":
        yield "no new faults"
    yield from (f"query {query.name}" for query in gates.prometheus)
    if gates.approval:
        yield f"approval of wave {', '.join(map(str, gates.approval))}"
