"""Joins Nodes and NodeClaims by the provider ID of their instance."""

from __future__ import annotations

from collections.abc import Collection

from tenon.kube.claim_record import instance_id_of


class ProviderIds:
    """Which Nodes and which NodeClaim have a provider ID, updated change by change."""

    def __init__(self) -> None:
        self._node: dict[str, str] = {}
        self._nodes: dict[str, set[str]] = {}
        """All Nodes of an instance. An instance that joined again under another name leaves its first Node behind."""
        self._claim: dict[str, str] = {}
        self._claim_by_instance: dict[str, str] = {}

    def snapshot(self) -> ProviderIds:
        """Return a copy that finds the Node that came last, and no NodeClaim by its instance."""
        copied = ProviderIds()
        copied._node, copied._claim = self._node.copy(), self._claim.copy()
        return copied

    def node(self, provider_id: str) -> str:
        """The name of the Node that came last, or else of the first by name; empty if there is none."""
        name = self._node.get(provider_id, "") if provider_id else ""
        return name or min(self.nodes(provider_id), default="")

    def nodes(self, provider_id: str) -> Collection[str]:
        """The names of all Nodes of an instance."""
        return self._nodes.get(provider_id, ())

    def claim(self, provider_id: str) -> str:
        """The name of the NodeClaim; empty if there is none."""
        return self._claim.get(provider_id, "")

    def claim_of_instance(self, instance_id: str) -> str:
        """The name of the NodeClaim of an EC2 instance; empty if there is none."""
        return self._claim_by_instance.get(instance_id, "")

    def node_changed(self, name: str, before: str, after: str) -> None:
        """Note that a Node's provider ID changed. It is empty if the Node did not exist, or is gone."""
        _reindex(self._node, name, before, after)
        if before and before != after:
            self._nodes[before].discard(name)
            if not self._nodes[before]:
                del self._nodes[before]
        if after:
            self._nodes.setdefault(after, set()).add(name)

    def claim_changed(self, name: str, before: str, after: str) -> None:
        """Note that a NodeClaim's provider ID changed. It is empty if the claim did not exist, or is gone."""
        _reindex(self._claim, name, before, after)
        _reindex(self._claim_by_instance, name, instance_id_of(before), instance_id_of(after))


def _reindex(index: dict[str, str], name: str, before: str, after: str) -> None:
    if before and before != after and index.get(before) == name:
        del index[before]
    if after:
        index[after] = name
