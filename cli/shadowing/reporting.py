"""Makes the report of a running shadow."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from cli.shadowing.shadow import Shadow
from tenon.apis.managed import KIND
from tenon.kube.records import ObjectRecord
from tenon.manifests.checking import check
from tenon.sentences import counted
from tenon.shadow.report import Risks, ShadowReport

WITHOUT_PRICE = "Nodes without a known price count for nothing on both sides"


class Reporter:
    """Makes reports, and remembers what does not change between two of them."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._checked: tuple[object, Sequence[str]] = ((), ())

    def report(self, now: float) -> ShadowReport:
        """Return the report of now."""
        shadow = self._shadow
        unplaced = {
            pod.live.pod.key: why
            for uid, why in shadow.model.unplaced.items()
            if (pod := shadow.model.pods.get(uid)) is not None
        }
        return ShadowReport(
            at=now,
            totals=shadow.totals,
            rates=shadow.rates(),
            risks=Risks(unplaced, self._refused(), list(self._left_out())),
            boot=shadow.boot,
            drain=shadow.theirs.drain_seconds,
            notes=[*shadow.inputs.notes, *self._notes()],
        )

    def _notes(self) -> Iterator[str]:
        shadow = self._shadow
        if offerings := shadow.unpriced_offerings():
            names = ", ".join(" ".join(filter(None, offering)) for offering in sorted(offerings)[:5])
            yield f"{WITHOUT_PRICE}: {names}; --catalog names instance types with their prices"
        if shadow.inputs.is_built_in:
            yield from (note.rstrip(".") for note in shadow.inputs.price_notes)
        if shadow.totals.ledger.unobserved_seconds:
            yield f"Nothing watched for {shadow.totals.ledger.unobserved_seconds:.0f} s, which are not counted"
        if shadow.bound is None:
            yield "The lower bound is not computed yet"
        for part, why in sorted(shadow.failures.items()):
            yield f"The model could not decide about {part}: {why}"

    def _left_out(self) -> Iterator[str]:
        cache = self._shadow.observed.cache
        nodes = Counter(claim.pool for claim in cache.claims if claim.pool not in cache.pools)
        for name, count in sorted(nodes.items()):
            if name not in cache.pools.left_out:
                yield (
                    f"NodePool {name or '(none)'}: the model does not have it, so its {counted(count, 'node')} and the "
                    "pods on them do not count; -f must name a NodePool of the same name"
                )
        for name in sorted(cache.pools.left_out):
            yield (
                f"NodePool {name}: its nodeClassRef names no {KIND}, so its nodes and pods do not count; "
                f"-f must name a file that has this NodePool with an {KIND}"
            )

    def _refused(self) -> Sequence[str]:
        """What Tenon refuses of the manifests. They are checked again only after a change."""
        cache = self._shadow.observed.cache
        objects: list[ObjectRecord] = [*cache.pools, *cache.nodeclasses]
        version = tuple((record.uid, record.resource_version) for record in objects)
        if self._checked[0] != version:
            texts = [(f"{_kind(record)} {record.name}", json.dumps(dict(record.body))) for record in objects]
            findings = check(texts).findings
            sentences = [f"{f.subject}: {f.path + ': ' if f.path else ''}{f.sentence}" for f in findings]
            self._checked = version, sentences
        return self._checked[1]


def _kind(record: ObjectRecord) -> str:
    return str(record.body.get("kind") or "object")
