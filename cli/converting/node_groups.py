"""Node groups as the AWS CLI or boto3 describes them, from files and from an account, and their manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from tenon.apis.json_object import JsonObject
from tenon.apis.labels import owned_tag
from tenon.errors import TenonError
from tenon.manifests.checking import check
from tenon.manifests.faults import ManifestError, Source
from tenon.manifests.yaml_writer import as_yaml, comment_line
from tenon.migration.node_group_manifests import Account, ConvertedGroup
from tenon.migration.node_groups import of_auto_scaling, of_managed

NOTE_WIDTH = 100
MANAGED = "eks:nodegroup-name"
"""Tag of the Auto Scaling groups that EKS makes for managed node groups."""
SEPARATOR = re.compile("^---", re.MULTILINE)
"""Between the documents of a file: `read_texts` adds it to JSON documents that follow each other."""
EXAMPLE = "aws eks describe-nodegroup --cluster-name CLUSTER --nodegroup-name GROUP"


class NodeGroupError(TenonError):
    """AWS does not say which node groups a cluster has. The message is one sentence."""


@dataclass(slots=True)
class Described:
    """What was read of an account."""

    managed: list[JsonObject] = field(default_factory=list)
    auto_scaling: list[JsonObject] = field(default_factory=list)
    cluster: JsonObject = field(default_factory=dict)
    templates: dict[str, JsonObject] = field(default_factory=dict)
    _latest: dict[str, int] = field(default_factory=dict)
    """The greatest version of each launch template."""

    def converted(self, faults: list[ManifestError]) -> list[ConvertedGroup]:
        """Return every group as manifests. One that is malformed is a fault."""
        account = Account()
        with _malformed("the cluster", faults):
            account = self._account()
        groups: list[ConvertedGroup] = []
        for convert, name_key, bodies in (
            (of_managed, "nodegroupName", self.managed),
            (of_auto_scaling, "AutoScalingGroupName", self.auto_scaling),
        ):
            for body in bodies:
                name = body.get(name_key) if isinstance(body, dict) else body
                with _malformed(f"node group {name}", faults):
                    groups.append(convert(body, account))
        return groups

    def _account(self) -> Account:
        network = self.cluster.get("resourcesVpcConfig") or {}
        names = [group.get("clusterName") for group in self.managed]
        return Account(
            cluster=str(self.cluster.get("name") or next(filter(None, names), "")),
            security_group=str(network.get("clusterSecurityGroupId") or ""),
            templates=self.templates,
        )

    def add_versions(self, versions: Iterable[JsonObject]) -> None:
        """Add versions of launch templates, as `ec2 describe-launch-template-versions` has them."""
        for version in versions:
            data, number = version.get("LaunchTemplateData") or {}, int(version.get("VersionNumber") or 0)
            for key in ("LaunchTemplateId", "LaunchTemplateName"):
                name = version.get(key)
                self.templates[f"{name}:{number}"] = data
                if version.get("DefaultVersion"):
                    self.templates[f"{name}:$Default"] = data
                if number >= self._latest.get(str(name), 0):  # groups may use several versions, read in any order
                    self._latest[str(name)] = number
                    self.templates[f"{name}:$Latest"] = data


def read_descriptions(texts: Iterable[tuple[str, str]], faults: list[ManifestError]) -> Described:
    """Read what the AWS CLI printed. A file that holds something else is a fault."""
    described = Described()
    for name, text in texts:
        for document in _documents(name, text, faults):
            with _malformed(name, faults):
                _read(name, document, described, faults)
    return described


@contextmanager
def _malformed(name: str, faults: list[ManifestError]) -> Iterator[None]:
    """Turn what a document of another shape than AWS' raises into a fault."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        text = f"is not as AWS describes it ({why}): pass the output of {EXAMPLE}, or the like, as it is"
        faults.append(ManifestError(Source(name), text))


def _documents(name: str, text: str, faults: list[ManifestError]) -> list[Any]:
    """The JSON documents of a file. Several may follow each other, as in the output of a loop."""
    decoder, documents, at = json.JSONDecoder(), [], 0
    text = SEPARATOR.sub("", text).strip()  # no string of JSON has a line break, so a line cannot begin so otherwise
    try:
        while at < len(text):
            document, end = decoder.raw_decode(text, at)
            documents.append(document)
            at = end + len(text[end:]) - len(text[end:].lstrip())
    except (ValueError, RecursionError) as error:
        faults.append(ManifestError(Source(name), f"is not JSON ({error}): pass the output of {EXAMPLE} --output json"))
        return []
    return documents


def _read(name: str, document: Any, described: Described, faults: list[ManifestError]) -> None:
    if not isinstance(document, dict):
        faults.append(ManifestError(Source(name), f"holds no node group: pass the output of {EXAMPLE}"))
    elif isinstance(document.get("nodegroup"), dict):
        described.managed.append(document["nodegroup"])
    elif "nodegroupName" in document:
        described.managed.append(document)
    elif isinstance(document.get("AutoScalingGroups"), list):
        described.auto_scaling += document["AutoScalingGroups"]
    elif isinstance(document.get("cluster"), dict):
        described.cluster = document["cluster"]
    elif isinstance(document.get("LaunchTemplateVersions"), list):
        described.add_versions(document["LaunchTemplateVersions"])
    elif "nodegroups" in document:
        faults.append(ManifestError(Source(name), f"lists only names of node groups: pass the output of {EXAMPLE}"))
    else:
        faults.append(ManifestError(Source(name), f"holds no node group: pass the output of {EXAMPLE}"))


def read_account(cluster: str, region: str | None) -> Described:
    """Read the node groups of a cluster, and what belongs to them, from EKS, Auto Scaling and EC2. Blocks.

    Raises:
        NodeGroupError: AWS refuses.
    """
    try:
        import boto3  # an extra: the conversion of files does without
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise NodeGroupError(
            "To read EKS, install boto3 (pip install 'tenon-autoscaler[worker]'), or pass files of the AWS CLI with -f."
        ) from None
    try:
        session: Any = boto3.Session(region_name=region)
        eks, scaling, ec2 = session.client("eks"), session.client("autoscaling"), session.client("ec2")
        described = Described(cluster=eks.describe_cluster(name=cluster)["cluster"])
        for page in eks.get_paginator("list_nodegroups").paginate(clusterName=cluster):
            for name in page["nodegroups"]:
                answer = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)
                described.managed.append(answer["nodegroup"])
        for page in scaling.get_paginator("describe_auto_scaling_groups").paginate():
            described.auto_scaling += [group for group in page["AutoScalingGroups"] if _is_own(group, cluster)]
        for reference in _references(described):
            versions = {"Versions": [str(reference.pop("version"))], **reference}
            described.add_versions(ec2.describe_launch_template_versions(**versions)["LaunchTemplateVersions"])
    except (ClientError, BotoCoreError) as error:
        raise NodeGroupError(f"AWS does not say which node groups {cluster} has: {error}") from error
    return described


def _is_own(group: JsonObject, cluster: str) -> bool:
    tags = {tag["Key"]: tag.get("Value") for tag in group.get("Tags") or ()}
    return owned_tag(cluster) in tags and MANAGED not in tags


def _references(described: Described) -> list[JsonObject]:
    """Which launch templates the groups name."""
    used = [group.get("launchTemplate") for group in described.managed]
    for group in described.auto_scaling:
        mixed = (group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
        used.append(mixed.get("LaunchTemplateSpecification") or group.get("LaunchTemplate"))
    references = []
    for item in filter(None, used):
        template_id = item.get("id") or item.get("LaunchTemplateId")
        version = item.get("version") or item.get("Version") or "$Default"
        if template_id:
            references.append({"LaunchTemplateId": template_id, "version": version})
        else:
            name = item.get("name") or item.get("LaunchTemplateName")
            references.append({"LaunchTemplateName": name, "version": version})
    return references


def as_manifests(groups: Sequence[ConvertedGroup]) -> str:
    """Return the groups as YAML, with their notes as comments."""
    documents = []
    for group in groups:
        lines = [f"From node group {group.name}."]
        for note in group.notes:
            first, *rest = wrap(note, NOTE_WIDTH, break_long_words=False, break_on_hyphens=False)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
        comments = "".join(f"# {comment_line(line)}".rstrip() + "\n" for line in lines)
        documents += [comments + as_yaml(group.node_class), as_yaml(group.node_pool)]
    return "---\n".join(documents)


def faults_of(groups: Sequence[ConvertedGroup]) -> list[str]:
    """What `tenon validate` refuses in the manifests, a line each: a group may hold what no NodePool may."""
    texts = [
        (f"node group {group.name}", as_yaml(body)) for group in groups for body in (group.node_class, group.node_pool)
    ]
    faults = [f"{item.file}: {item.subject}: {item.path}: {item.sentence}" for item in check(texts).faults]
    first: dict[str, str] = {}
    for group in groups:
        name = str(group.node_pool["metadata"]["name"])
        if name in first:
            faults.append(
                f"node group {group.name}: NodePool {name}: node group {first[name]} has the same name in Kubernetes: "
                "rename the NodePool and the EC2NodeClass of one of them"
            )
        first.setdefault(name, group.name)
    return faults
