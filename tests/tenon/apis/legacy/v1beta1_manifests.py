"""Manifests of v1beta1."""

from __future__ import annotations

NODE = {"requirements": [], "nodeClassRef": {"name": "foo"}}
DISCOVERED = [{"tags": {"karpenter.sh/discovery": "c"}}]
CLASS = {"amiFamily": "AL2", "role": "r", "subnetSelectorTerms": DISCOVERED, "securityGroupSelectorTerms": DISCOVERED}
