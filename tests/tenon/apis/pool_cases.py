"""NodePools and NodeClaims that are accepted or refused."""

# fmt: off - a table

from __future__ import annotations

from tenon.apis import labels
from tests.tenon.apis.case import REMOVED, RUNTIME, Case, taint, term

REQUIREMENTS = "template/spec/requirements"
BUDGETS = "disruption/budgets"
TYPE = labels.INSTANCE_TYPE

POOL_CASES = [
    Case("the least", "pool", {}),
    Case("unknown field", "pool", {"template/spec/colour": "blue"}),
    Case("no template", "pool", {"template": REMOVED}, "required"),
    Case("no requirements", "pool", {REQUIREMENTS: REMOVED}, "required"),
    Case("100 requirements", "pool", {REQUIREMENTS: [term(f"k{i}", "Exists") for i in range(100)]}),
    Case("101 requirements", "pool", {REQUIREMENTS: [term(f"k{i}", "Exists") for i in range(101)]}, "requirements"),
    Case(
        "every operator",
        "pool",
        {
            REQUIREMENTS: [
                term(TYPE, "In", "m5.large"),
                term("a", "NotIn", "b"),
                term("c", "Exists"),
                term("d", "DoesNotExist"),
                term("e", "Gt", "1"),
                term("f", "Lt", "2"),
                term("g", "Gte", "0"),
                term("h", "Lte", "9"),
            ]
        },
    ),
    Case("unknown operator", "pool", {REQUIREMENTS: [term("a", "Like", "b")]}, "operator"),
    Case("In without values", "pool", {REQUIREMENTS: [term("a", "In")]}, "at least one value"),
    Case("Gt with two values", "pool", {REQUIREMENTS: [term("a", "Gt", "1", "2")]}, "exactly one value"),
    Case("Gte without values", "pool", {REQUIREMENTS: [term("a", "Gte")]}, "exactly one value"),
    Case("Lt below zero", "pool", {REQUIREMENTS: [term("a", "Lt", "-1")]}, "whole number from 0"),
    Case("Lte with a word", "pool", {REQUIREMENTS: [term("a", "Lte", "many")]}, "whole number"),
    Case("value of 63", "pool", {REQUIREMENTS: [term("a", "In", "v" * 63)]}),
    Case("value of 64", "pool", {REQUIREMENTS: [term("a", "In", "v" * 64)]}, "not a label value", RUNTIME),
    Case("value in typographic quotes", "pool", {REQUIREMENTS: [term("a", "In", "“b”")]}, "not a label value", RUNTIME),
    Case("value of 254", "pool", {REQUIREMENTS: [term("a", "In", "v" * 254)]}, "values"),
    Case("Gt of the largest number", "pool", {REQUIREMENTS: [term("a", "Gt", str(2**63 - 1))]}),
    Case("Gt of a larger number", "pool", {REQUIREMENTS: [term("a", "Gt", str(2**63))]}, "whole number"),
    Case("Gt of 20 digits", "pool", {REQUIREMENTS: [term("a", "Gt", "9" * 20)]}, "whole number"),
    Case("key of 64", "pool", {REQUIREMENTS: [term("a" * 64, "Exists")]}, "not a label name", RUNTIME),
    Case("value with a blank", "pool", {REQUIREMENTS: [term("a", "In", "b c")]}, "not a label value", RUNTIME),
    Case("Exists with values", "pool", {REQUIREMENTS: [term("a", "Exists", "b")]}),
    Case("minValues met", "pool", {REQUIREMENTS: [term(TYPE, "In", "a.b", "c.d", min_values=2)]}),
    Case("minValues over values", "pool", {REQUIREMENTS: [term(TYPE, "In", "a.b", min_values=2)]}, "minValues"),
    Case("minValues 0", "pool", {REQUIREMENTS: [term(TYPE, "Exists", min_values=0)]}, "minValues"),
    Case("minValues 50", "pool", {REQUIREMENTS: [term(TYPE, "Exists", min_values=50)]}),
    Case("minValues 51", "pool", {REQUIREMENTS: [term(TYPE, "Exists", min_values=51)]}, "minValues"),
    Case("key too long", "pool", {REQUIREMENTS: [term("a" * 317, "Exists")]}, "key"),
    Case("key malformed", "pool", {REQUIREMENTS: [term("a b", "Exists")]}, "key"),
    Case("own domain", "pool", {REQUIREMENTS: [term("karpenter.sh/colour", "Exists")]}, "reserved"),
    Case("below the own domain", "pool", {REQUIREMENTS: [term("x.karpenter.sh/colour", "Exists")]}, "reserved"),
    Case("next to the own domain", "pool", {REQUIREMENTS: [term("mykarpenter.sh/colour", "Exists")]}),
    Case("AWS domain", "pool", {REQUIREMENTS: [term("karpenter.k8s.aws/colour", "Exists")]}, "reserved"),
    Case("Tenon's domain", "pool", {REQUIREMENTS: [term(labels.BATCH, "Exists")]}, "reserved"),
    Case(
        "every AWS label",
        "pool",
        {
            REQUIREMENTS: [term(key, "Exists") for key in sorted(labels.WELL_KNOWN) if key != labels.NODEPOOL]
            + [term(labels.EC2NODECLASS, "Exists")]
        },
    ),
    Case("nodepool required", "pool", {REQUIREMENTS: [term(labels.NODEPOOL, "In", "x")]}, "reserved"),
    Case("hostname required", "pool", {REQUIREMENTS: [term(labels.HOSTNAME, "Exists")]}, "reserved"),
    Case("kubernetes.io is open", "pool", {REQUIREMENTS: [term("example.kubernetes.io/rack", "Exists")]}),
    Case("old arch label", "pool", {REQUIREMENTS: [term("beta.kubernetes.io/arch", "In", "arm64")]}),
    Case(
        "no known capacity type",
        "pool",
        {REQUIREMENTS: [term(labels.CAPACITY_TYPE, "In", "free")]},
        "'free' is not a value of this label: use one of on-demand, reserved, spot",
        RUNTIME,
    ),
    Case("one known capacity type", "pool", {REQUIREMENTS: [term(labels.CAPACITY_TYPE, "In", "free", "spot")]}),
    Case(
        "too few known capacity types",
        "pool",
        {REQUIREMENTS: [term(labels.CAPACITY_TYPE, "In", "free", "spot", min_values=2)]},
        "known",
        RUNTIME,
    ),
    Case("labels", "pool", {"template/metadata/labels": {"team": "a", "example.com/tier": "b"}}),
    Case("101 labels", "pool", {"template/metadata/labels": {f"k{i}": "v" for i in range(101)}}, "labels"),
    Case("label of own domain", "pool", {"template/metadata/labels": {"karpenter.sh/x": "y"}}, "reserved"),
    Case("label nodepool", "pool", {"template/metadata/labels": {labels.NODEPOOL: "y"}}, "reserved"),
    Case("label hostname", "pool", {"template/metadata/labels": {labels.HOSTNAME: "y"}}, "reserved"),
    Case("label value malformed", "pool", {"template/metadata/labels": {"a": "b c"}}, "labels"),
    Case("label key of 64", "pool", {"template/metadata/labels": {"a" * 64: "b"}}, "not a label name", RUNTIME),
    Case("label key malformed", "pool", {"template/metadata/labels": {"a b": "c"}}, "not a label name"),
    Case(
        "label capacity type free",
        "pool",
        {"template/metadata/labels": {labels.CAPACITY_TYPE: "free"}},
        "is not a value",
    ),
    Case(
        "taints",
        "pool",
        {
            "template/spec/taints": [taint("a"), taint("a", "NoExecute")],
            "template/spec/startupTaints": [taint("a", "PreferNoSchedule")],
        },
    ),
    Case("taint of no effect", "pool", {"template/spec/taints": [taint("a", "Sometimes")]}, "effect"),
    Case("taint without key", "pool", {"template/spec/taints": [{"effect": "NoSchedule"}]}, "key"),
    Case(
        "taint twice",
        "pool",
        {"template/spec/taints": [taint("a")], "template/spec/startupTaints": [taint("a")]},
        "2 times",
        RUNTIME,
    ),
    Case("ref without name", "pool", {"template/spec/nodeClassRef/name": ""}, "name"),
    Case("ref with a version", "pool", {"template/spec/nodeClassRef/group": "karpenter.k8s.aws/v1"}, "group"),
    Case("expireAfter in parts", "pool", {"template/spec/expireAfter": "1h30m5s"}),
    Case("expireAfter Never", "pool", {"template/spec/expireAfter": "Never"}),
    Case("expireAfter in days", "pool", {"template/spec/expireAfter": "30d"}, "expireAfter"),
    Case("expireAfter negative", "pool", {"template/spec/expireAfter": "-1h"}, "expireAfter"),
    Case("grace period", "pool", {"template/spec/terminationGracePeriod": "24h"}),
    Case("grace period Never", "pool", {"template/spec/terminationGracePeriod": "Never"}, "terminationGracePeriod"),
    Case("policy Balanced", "pool", {"disruption/consolidationPolicy": "Balanced"}),
    Case("policy unknown", "pool", {"disruption/consolidationPolicy": "Always"}, "consolidationPolicy"),
    Case("consolidateAfter Never", "pool", {"disruption/consolidateAfter": "Never"}),
    Case("consolidateAfter a number", "pool", {"disruption/consolidateAfter": 30}, "consolidateAfter"),
    Case("no budgets", "pool", {BUDGETS: []}),
    Case("budgets", "pool", {BUDGETS: [{"nodes": "0"}, {"nodes": "100%", "reasons": ["Empty", "Drifted"]}]}),
    Case("51 budgets", "pool", {BUDGETS: [{"nodes": "1"}] * 51}, "budgets"),
    Case("budget of 101 %", "pool", {BUDGETS: [{"nodes": "101%"}]}, "nodes"),
    Case("budget below zero", "pool", {BUDGETS: [{"nodes": "-1"}]}, "nodes"),
    Case("budget of a number", "pool", {BUDGETS: [{"nodes": 5}]}, "nodes"),
    Case("budget reason unknown", "pool", {BUDGETS: [{"nodes": "1", "reasons": ["Expired"]}]}, "reasons"),
    Case("budget scheduled", "pool", {BUDGETS: [{"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h30m"}]}),
    Case("budget @daily", "pool", {BUDGETS: [{"nodes": "0", "schedule": "@daily", "duration": "10m0s"}]}),
    Case(
        "budget @sometimes", "pool", {BUDGETS: [{"nodes": "0", "schedule": "@sometimes", "duration": "1h"}]}, "schedule"
    ),
    Case(
        "budget of four fields",
        "pool",
        {BUDGETS: [{"nodes": "0", "schedule": "* * * *", "duration": "1h"}]},
        "schedule",
    ),
    Case(
        "budget at minute 61",
        "pool",
        {BUDGETS: [{"nodes": "0", "schedule": "61 * * * *", "duration": "1h"}]},
        "cron",
    ),
    Case(
        "budget at random",
        "pool",
        {BUDGETS: [{"nodes": "0", "schedule": "R R * * *", "duration": "1h"}]},
        "cron",
    ),
    Case("schedule alone", "pool", {BUDGETS: [{"nodes": "0", "schedule": "@daily"}]}, "together"),
    Case("duration alone", "pool", {BUDGETS: [{"nodes": "0", "duration": "1h"}]}, "together"),
    Case(
        "duration in seconds", "pool", {BUDGETS: [{"nodes": "0", "schedule": "@daily", "duration": "90s"}]}, "duration"
    ),
    Case("limits", "pool", {"limits": {"cpu": 1000, "memory": "1000Gi", "nvidia.com/gpu": "2", "nodes": 10}}),
    Case("limits malformed", "pool", {"limits": {"cpu": "many"}}, "limits"),
    Case("limits negative", "pool", {"limits": {"cpu": "-1"}}, "below zero", RUNTIME),
    Case("weight 1", "pool", {"weight": 1}),
    Case("weight 0", "pool", {"weight": 0}, "weight"),
    Case("weight 101", "pool", {"weight": 101}, "weight"),
    Case("replicas", "pool", {"replicas": 0, "limits": {"nodes": 5}}),
    Case("replicas negative", "pool", {"replicas": -1}, "replicas"),
    Case("replicas and weight", "pool", {"replicas": 1, "weight": 1}, "weight is not allowed"),
    Case("replicas and cpu limit", "pool", {"replicas": 1, "limits": {"cpu": 5}}, "limits may only bound nodes"),
]

CLAIM_CASES = [
    Case("the least", "claim", {}),
    Case(
        "of a pool",
        "claim",
        {"requirements": [term(labels.NODEPOOL, "In", "default")], "resources/requests": {"cpu": "1500m", "pods": 4}},
    ),
    Case("hostname required", "claim", {"requirements": [term(labels.HOSTNAME, "Exists")]}, "reserved"),
    Case("AWS domain", "claim", {"requirements": [term("karpenter.k8s.aws/x", "Exists")]}, "reserved"),
    Case("no class", "claim", {"nodeClassRef": REMOVED}, "required"),
    Case("requests malformed", "claim", {"resources/requests": {"cpu": "1 core"}}, "requests"),
    Case("expireAfter malformed", "claim", {"expireAfter": "never"}, "expireAfter"),
]
