"""Compares Tenon's own figures about AWS with those that Karpenter publishes: `make compare-aws KARPENTER=CLONE`.

CLONE is a clone of github.com/aws/karpenter-provider-aws. Compared are the IAM policy, labels and allocatable resources
of every instance type, the built-in prices, and the fields of the CRDs. A difference need not be a fault: the instance
types here are those of the sandbox's EC2, and some differences are meant. Read them after a release of Karpenter.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from moto.ec2.models.instance_types import INSTANCE_TYPES

from activities.ec2.price_tables import built_in_table
from tenon.apis.crd import custom_resource_definitions
from tenon.ec2.families import FAMILIES
from tenon.ec2.types.capacity import NodeSettings
from tenon.ec2.types.instance_types import Prices, build
from tenon.errors import TenonError
from tenon.resources import to_units
from tools.cloudformation import POLICY, PSEUDO_PARAMETERS

STACK = "website/content/en/docs/getting-started/getting-started-with-karpenter/cloudformation.yaml"
TYPES = "website/content/en/docs/reference/instance-types.md"
PRICES = "pkg/providers/pricing"
CRDS = "pkg/apis/crds"
SHOWN = 5
"""How many of the differences of one kind are printed."""
_COMPARED = ("type", "default", "enum")
"""What is compared of a field. Tenon bounds many texts and numbers that Karpenter does not, on purpose."""


class CloneError(TenonError):
    """The folder is no clone of the published project, or of a version whose files are elsewhere."""


@dataclass
class Comparison:
    """What was compared, how many of it, and by kind what differs."""

    subject: str
    compared: int = 0
    differences: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def lines(self) -> Iterator[str]:
        """The comparison for a person to read."""
        total = sum(map(len, self.differences.values()))
        yield f"{self.subject}: {self.compared} compared, {total} different"
        for kind, result in sorted(self.differences.items()):
            more = f" and {len(result) - SHOWN} more" if len(result) > SHOWN else ""
            yield f"  {kind} ({len(result)}): {'; '.join(result[:SHOWN])}{more}"


def compare_rights(clone: Path) -> Comparison:
    """Compare the statements of the worker's policy with those of Karpenter's stack, action by action."""
    comparison = Comparison("IAM policy, by action")
    stack = yaml.load(_text(clone, STACK), _Stack)
    theirs: Counter[tuple[str, str]] = Counter()
    for resource in stack["Resources"].values():
        if resource["Type"] == "AWS::IAM::ManagedPolicy":
            text = resource["Properties"]["PolicyDocument"]
            text = text.replace("${KarpenterNodeRole.Arn}", f"{_ARN}:iam::{_ACCOUNT}:role/KarpenterNodeRole-{_CLUSTER}")
            text = text.replace("${KarpenterInterruptionQueue.Arn}", f"{_ARN}:sqs:{_REGION}:{_ACCOUNT}:{_CLUSTER}")
            theirs.update(_grants(json.loads(text)))
    text = POLICY.read_text()
    for placeholder, parameter in PSEUDO_PARAMETERS.items():
        text = text.replace(placeholder, parameter)
    ours = Counter(_grants(json.loads(text)))
    for name, grants in (("only Karpenter", theirs - ours), ("only Tenon", ours - theirs)):
        for action, scope in sorted(grants):
            comparison.differences[f"{action}, {name}"].append(scope)
    comparison.compared = len({action for action, _ in theirs | ours})
    return comparison


def compare_instance_types(clone: Path) -> Comparison:
    """Compare labels and allocatable resources of every type on Karpenter's page that the sandbox's EC2 knows."""
    comparison = Comparison("instance types")
    for name, (declaration, resources) in _page(_text(clone, TYPES)).items():
        if name not in INSTANCE_TYPES:
            comparison.differences["type that the sandbox's EC2 does not know"].append(name)
            continue
        settings = NodeSettings(family=FAMILIES["AL2023"])
        zones = {"us-west-2a": "usw2-az1"}
        built = build(INSTANCE_TYPES[name], "us-west-2", settings, zones, Prices(on_demand={name: 1.0}))
        if built is None:
            comparison.differences["type that Tenon does not use"].append(name)
            continue
        comparison.compared += 1
        for key, value in declaration.items():
            rule = built.requirements.get(key)
            own = ",".join(sorted(rule.values)) if rule is not None else ""
            if own != value:
                comparison.differences[key].append(f"{name} {value} (Tenon {own or 'none'})")
        for key, text in resources.items():
            unit = to_units(key, re.sub(r"[\d.]+", "1", text))
            mine = built.allocatable.get(key, 0)
            if abs(mine - to_units(key, text)) >= unit:
                comparison.differences[key].append(f"{name} {text} (Tenon {mine / unit:g})")
    return comparison


def compare_prices(clone: Path) -> Comparison:
    """Compare the built-in tables with those that Karpenter is built with."""
    comparison = Comparison("built-in prices")
    files = sorted(_folder(clone, PRICES).glob("zz_generated.pricing_*.go"))
    for region, body in re.findall(
        r'\n\t"([a-z0-9-]+)": \{(.*?)\n\t\},', "".join(map(Path.read_text, files)), re.DOTALL
    ):
        table = built_in_table(region)
        for name, price in re.findall(r'"([\w.-]+)":\s*([\d.]+)', body):
            comparison.compared += 1
            own = table.on_demand.get(name)
            if own is None:
                comparison.differences[f"{region}, not in Tenon's table (as of {table.as_of})"].append(name)
            elif abs(own - float(price)) > 1e-4:
                comparison.differences[f"{region}, another price (as of {table.as_of})"].append(
                    f"{name} {price} (Tenon {own:g})"
                )
    return comparison


def compare_fields(clone: Path) -> Comparison:
    """Compare the fields of each CRD that both have, in the versions that both serve."""
    comparison = Comparison("fields of CRDs")
    for name, ours in custom_resource_definitions().items():
        path = _folder(clone, CRDS) / name
        if not path.is_file():
            continue
        theirs = _versions(yaml.safe_load(path.read_text()))
        for version, own in _versions(ours).items():
            for place, schema in theirs.get(version, {}).items():
                comparison.compared += 1
                if place not in own:
                    comparison.differences[f"{name} {version}, not in Tenon"].append(place)
                    continue
                for key in _COMPARED:
                    declaration, ours_states = _sorted(schema.get(key)), _sorted(own[place].get(key))
                    if declaration != ours_states:
                        text = f"{place} {declaration} (Tenon {ours_states})"
                        comparison.differences[f"{name} {version}, {key}"].append(text)
    return comparison


COMPARISONS: tuple[Callable[[Path], Comparison], ...] = (
    compare_rights,
    compare_instance_types,
    compare_prices,
    compare_fields,
)

_ARN, _REGION, _ACCOUNT, _CLUSTER = "arn:${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}", "${ClusterName}"


class _Stack(yaml.SafeLoader):
    """Reads CloudFormation's short forms, such as !Sub, as what they are about."""


def _short_form(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True) if isinstance(node, yaml.MappingNode) else None


_Stack.add_multi_constructor("!", _short_form)


def _grants(policy: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each action of the statements with a resource and the conditions, in a form that can be compared."""
    for statement in policy["Statement"]:
        conditions = sorted(
            f"{operator} {key}={','.join(sorted(values)) if isinstance(values, list) else values}"
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
        for action in _listed(statement["Action"]):
            for resource in _listed(statement["Resource"]):
                short = resource.rpartition("}:")[2] if resource.startswith("arn:") else resource
                yield action, f"{short} if {' and '.join(conditions)}" if conditions else short


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _page(text: str) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Labels and resources by instance type."""
    types: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    for part in re.split(r"^### `", text, flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("`")
        declaration, _, resources = rest.partition("#### Resources")
        types[name] = (_rows(declaration), _rows(resources))
    return types


def _rows(table: str) -> dict[str, str]:
    rows = re.findall(r"^ ?\|([^|\n]+)\|([^|\n]*)\|", table, re.MULTILINE)
    return {key: value for key, value in rows if key.strip() not in ("Label", "Resource", "--")}


def _versions(definition: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The schema of each field by its path, for each version."""
    return {
        version["name"]: dict(_fields("", version["schema"]["openAPIV3Schema"]))
        for version in definition["spec"]["versions"]
    }


def _fields(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from _fields(f"{path}.{name}", inner)
    if isinstance(values := schema.get("additionalProperties"), dict):
        yield from _fields(f"{path}.*", values)
    if "items" in schema:
        yield from _fields(f"{path}[]", schema["items"])


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _text(clone: Path, name: str) -> str:
    try:
        return (clone / name).read_text()
    except OSError:
        raise CloneError(_missing(clone, name)) from None


def _folder(clone: Path, name: str) -> Path:
    if not (clone / name).is_dir():
        raise CloneError(_missing(clone, name))
    return clone / name


def _missing(clone: Path, name: str) -> str:
    return f"{clone} has no {name}: give the path of a clone of github.com/aws/karpenter-provider-aws"


def main() -> None:
    """Print the differences from a clone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare_aws", description=__doc__)
    parser.add_argument("clone", type=Path, nargs="?", help="a clone of github.com/aws/karpenter-provider-aws")
    clone = parser.parse_args().clone
    if clone is None:
        parser.exit(
            2,
            "Nothing is compared without a clone: git clone --depth 1 "
            "https://github.com/aws/karpenter-provider-aws, then make compare-aws KARPENTER=PATH\n",
        )
    try:
        for compare in COMPARISONS:
            print(*compare(clone).lines(), sep="\n")
    except CloneError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
