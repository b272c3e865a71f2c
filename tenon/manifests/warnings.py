"""Warns about accepted but questionable input: old versions and names, unknown values, labels of other provisioners,
keys that YAML reads as another type, dates that no month has, overlapping pools, root volumes without pods' storage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from croniter import CroniterBadDateError, croniter

from tenon.apis import labels
from tenon.apis.ec2nodeclass import MAX_TAGS, EC2NodeClass
from tenon.apis.kubelet import expressions_in
from tenon.apis.legacy.amis import FIRST_VERSION_WITHOUT_AL2
from tenon.apis.legacy.config_maps import is_settings
from tenon.apis.legacy.conversion import PROVISIONER_NAME, Note
from tenon.apis.legacy.global_settings import convert_settings
from tenon.apis.legacy.global_tags import refused_by_ec2
from tenon.apis.managed import manages_pool
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse, unknown_values
from tenon.ec2.families import family_of
from tenon.ec2.launch.tags import instance_tags
from tenon.ec2.nodeclass.expressions_check import GATE_IS_OFF
from tenon.kube.requirements import hint
from tenon.manifests.autofix import Fix, fixed_line
from tenon.manifests.batch_conversion import is_older
from tenon.manifests.documents import Diagnostic, Item
from tenon.manifests.field_moves import moves_of, old_path
from tenon.manifests.kinds import is_karpenters
from tenon.manifests.paths import Path, has, leaves, path_of, text_of
from tenon.manifests.text_edits import SERVED_INSTEAD, SERVED_NO_MORE, Edit, edits_of
from tenon.manifests.yaml_scalars import UnreadableDocumentError, plain_value
from tenon.provisioning.pool_overlap import overlapping, sentence
from tenon.resources import parse_quantity

Sound = Sequence[tuple[Item, Sequence[Mapping[str, Any]]]]
"""Items without faults, each with its v1 objects."""
_MANAGED_GROUPS = "EKS managed node groups"
_LABELS_OF_OTHERS: Mapping[str, tuple[str, str]] = {
    "eks.amazonaws.com/capacityType": (_MANAGED_GROUPS, f"{labels.CAPACITY_TYPE}, with spot or on-demand"),
    "eks.amazonaws.com/nodegroup": (_MANAGED_GROUPS, labels.NODEPOOL),
    "eks.amazonaws.com/nodegroup-image": (_MANAGED_GROUPS, ""),
    "eks.amazonaws.com/compute-type": ("Fargate and EKS Auto Mode", ""),
    "node.kubernetes.io/lifecycle": (
        "node groups of kops and eksctl",
        f"{labels.CAPACITY_TYPE}, with spot or on-demand",
    ),
    "cloud.google.com/gke-spot": ("GKE", f"{labels.CAPACITY_TYPE}, with spot"),
    "kubernetes.azure.com/scalesetpriority": ("AKS", f"{labels.CAPACITY_TYPE}, with spot"),
}
_DOMAINS_OF_OTHERS: Mapping[str, str] = {
    "alpha.eksctl.io": "eksctl",
    "cloud.google.com": "GKE",
    "kubernetes.azure.com": "AKS",
    "karpenter.azure.com": "Karpenter on Azure",
    "kops.k8s.io": "kops",
}
_AUTO_MODE = "eks.amazonaws.com/instance-"
_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)
NO_DATE = (
    "no date matches {0!r}, so this budget can never be in force, and Tenon allows no disruption because of it: name a "
    "day that exists"
)
NO_AL2 = f"AL2 has no images from Kubernetes {FIRST_VERSION_WITHOUT_AL2} on: use {{0}} there"
NOT_OF_TYPES = (
    "minValues count only labels that instance types have, and none has {0}, so this NodePool launches no node unless "
    "MIN_VALUES_POLICY is BestEffort: remove minValues"
)


def warnings_of(sound: Sound, classes: Collection[str]) -> Iterator[Diagnostic]:
    """Yield all warnings for objects that have no faults.

    Args:
        sound: these objects.
        classes: the names of all EC2NodeClasses of the input, also of those with faults.
    """
    first_items: dict[tuple[str, str, str], Item] = {}
    pools: dict[str, tuple[Item, NodePool]] = {}
    node_classes: dict[str, EC2NodeClass] = {}
    for item, manifests in sound:
        karpenters = is_karpenters(item)
        yield from _misread(item)
        if karpenters:
            yield from _twice(item, first_items)
            yield from _old_labels(item)
        if is_older(item.body):
            now = " and ".join(f"{manifest['kind']} {manifest['metadata'].get('name')}" for manifest in manifests)
            version_sentence = f"{item.api_version} is of an older Karpenter: `tenon convert` prints it as {now} of v1"
            yield _warning(item, ("apiVersion",), version_sentence)
        elif is_settings(item.body):
            version_sentence = "settings are environment variables of the worker now: `tenon convert` prints them"
            yield _warning(item, ("metadata", "name"), version_sentence)
            yield from _unusable(item)
        elif not karpenters:
            yield from _old_names(item)
        for manifest in manifests if karpenters else ():
            if manifest["kind"] == "NodePool" and (pool := parse(NodePool, manifest)[0]) is not None:
                yield from _unknown_values(item, manifest, pool)
                yield from _of_pool(item, pool, classes if manages_pool(manifest) else ())
                pools.setdefault(pool.metadata.name, (item, pool))
            if manifest["kind"] == "EC2NodeClass":
                yield from _expressions(item, manifest)
                if (node_class := parse(EC2NodeClass, manifest)[0]) is not None:
                    node_classes.setdefault(node_class.metadata.name, node_class)
                    yield from _root_volume(item, manifest, node_class)
                    yield from _images_that_end(item, node_class)
                    yield from _tags_that_ec2_refuses(item, node_class)
    for name, others in overlapping([pool for _, pool in pools.values()], node_classes.get).items():
        yield _warning(pools[name][0], ("metadata", "name"), sentence(others))


def _unusable(item: Item) -> Iterator[Diagnostic]:
    """Warn about values of a settings ConfigMap that the conversion ignores."""
    for note in convert_settings(item.body).notes:
        if isinstance(note, Note) and note.path:
            yield _warning(item, path_of(note.path, item.body), note)


def _twice(item: Item, first_items: dict[tuple[str, str, str], Item]) -> Iterator[Diagnostic]:
    namespace = str(item.body["metadata"].get("namespace") or "")
    first = first_items.setdefault((item.kind, namespace, item.name), item)
    if first is not item and item.name:
        where = f"{first.document.file}:{first.line_of(('metadata', 'name'))}"
        yield _warning(item, ("metadata", "name"), f"appears twice, first at {where}: the later one wins")


def _misread(item: Item) -> Iterator[Diagnostic]:
    for path, read in misread_keys(item):
        fix = Fix(path, _value(item, path), f'"{path[-1]}"')
        yield _warning(item, path, f"kubectl reads this name as {read}: put it in quotes", fix)


def _old_labels(item: Item) -> Iterator[Diagnostic]:
    for path, value in leaves(item.body):
        if path[-1:] != ("key",) or not isinstance(value, str):
            continue
        if value in labels.ALIASES:
            new = labels.ALIASES[value]
            yield _warning(item, path, f"label {value} is {new} today, which it is read as", Fix(path, new))
        elif value in labels.REMOVED_LABELS:
            yield _warning(item, path, f"no node has the label {value} any more")


def _old_names(item: Item) -> Iterator[Diagnostic]:
    for edit in edits_of(item.body):
        old = str(edit.path[-1]) if edit.of_key else PROVISIONER_NAME
        if edit.new is None:
            yield _warning(item, edit.path, f"{old} {edit.comment}")
            continue
        fix = Fix(edit.path, _value(item, edit.path), edit.new) if edit.of_key else Fix(edit.path, edit.new)
        yield _warning(item, edit.path, _renamed(old, edit), fix)


def _renamed(old: str, edit: Edit) -> str:
    if edit.new == SERVED_INSTEAD:
        return f"{SERVED_NO_MORE[1]} has not been served since Kubernetes 1.26: {SERVED_INSTEAD} has the same fields"
    if edit.of_key or edit.new == labels.NODEPOOL:
        return f"{old} is {edit.new} now"
    return edit.comment


def _value(item: Item, path: Path) -> Any:
    value: Any = item.body
    for part in path:
        value = value[part]
    return value


def _unknown_values(item: Item, manifest: Mapping[str, Any], pool: NodePool) -> Iterator[Diagnostic]:
    moves = moves_of(item.kind, item.api_version, "NodePool")
    for problem in unknown_values(pool.spec.template.spec.requirements):
        path = path_of(f"spec.template.spec.{problem.path}", manifest)
        yield _warning(item, old_path(path, moves), problem.sentence)


def _of_pool(item: Item, pool: NodePool, classes: Collection[str]) -> Iterator[Diagnostic]:
    """Warn about a class that the input lacks although it has others, and about what allows no node."""
    moves = moves_of(item.kind, item.api_version, "NodePool")
    name = pool.spec.template.spec.node_class_ref.name
    if classes and name not in classes:
        path = old_path(("spec", "template", "spec", "nodeClassRef", "name"), moves)
        yield _warning(item, path, f"there is no EC2NodeClass {name} among these manifests{hint(name, classes)}")
    for resource, amount in pool.spec.limits.items():
        if not parse_quantity(amount):
            path = old_path(("spec", "limits", resource), moves)
            yield _warning(item, path, f"a limit of 0 {resource} keeps this NodePool from launching any node")
    for index, term in enumerate(pool.spec.template.spec.requirements):
        if sentence := foreign_label(term.key):
            path = old_path(("spec", "template", "spec", "requirements", index, "key"), moves)
            yield _warning(item, path, sentence)
        if term.min_values and labels.ALIASES.get(term.key, term.key) not in labels.WELL_KNOWN:
            path = old_path(("spec", "template", "spec", "requirements", index, "minValues"), moves)
            yield _warning(item, path, NOT_OF_TYPES.format(term.key))
    for index, budget in enumerate(pool.spec.disruption.budgets):
        if budget.schedule is not None and not has_a_date(budget.schedule):
            path = old_path(("spec", "disruption", "budgets", index, "schedule"), moves)
            yield _warning(item, path, NO_DATE.format(budget.schedule))


def _expressions(item: Item, manifest: Mapping[str, Any]) -> Iterator[Diagnostic]:
    for place in expressions_in(manifest["spec"].get("kubelet") or {}):
        yield _warning(item, path_of(f"spec.kubelet.{place}", manifest), GATE_IS_OFF)


def _root_volume(item: Item, manifest: Mapping[str, Any], node_class: EC2NodeClass) -> Iterator[Diagnostic]:
    """Warn about rootVolume on another volume than that where a family whose root volume has no room for pods keeps
    their storage. An image of another family may have its root volume anywhere.
    """
    family = family_of(node_class)
    if not family.volumes or family.ephemeral_device == family.volumes[0].device:
        return
    for index, mapping in enumerate(node_class.spec.block_device_mappings):
        if mapping.root_volume and mapping.device_name != family.ephemeral_device:
            path = path_of(f"spec.blockDeviceMappings[{index}].rootVolume", manifest)
            sentence = (
                f"plans count the size of this volume as ephemeral storage, but {family.name} keeps pods' storage on "
                f"{family.ephemeral_device}: remove rootVolume"
            )
            yield _warning(item, path, sentence)


def _images_that_end(item: Item, node_class: EC2NodeClass) -> Iterator[Diagnostic]:
    """Warn about the AL2 images that AWS publishes, which end with a Kubernetes version.

    An older object that names no family gets no warning: Tenon, which serves it, uses AL2023 from that version on.
    """
    alias = node_class.spec.alias
    if alias is None or alias.family != "AL2":
        return
    old_field = old_path(("spec", "amiFamily"), moves_of(item.kind, item.api_version, "EC2NodeClass"))
    older = is_older(item.body)
    path = old_field if older else ("spec", "amiSelectorTerms", 0, "alias")
    if has(item.body, path):
        yield _warning(item, path, NO_AL2.format("AL2023" if older else "al2023@latest"))


def _tags_that_ec2_refuses(item: Item, node_class: EC2NodeClass) -> Iterator[Diagnostic]:
    """Warn about tags that the API server accepts, although EC2 refuses every launch with them."""
    path = old_path(("spec", "tags"), moves_of(item.kind, item.api_version, "EC2NodeClass"))
    if not has(item.body, path):
        return
    for tag, value in node_class.spec.tags.items():
        if has(item.body, (*path, tag)) and (why := refused_by_ec2(tag, value)):
            yield _warning(item, (*path, tag), f"EC2 refuses this tag, and so every launch with it: {why}")
    own = len(node_class.spec.tags)
    every = len({*instance_tags("cluster", node_class, "pool", "claim", "token"), labels.TAG_GROUP})
    if every > MAX_TAGS:
        sentence = (
            f"EC2 takes {MAX_TAGS} tags of an instance, and these are {every} with the {every - own} that Tenon adds, "
            f"so it refuses every launch: remove {every - MAX_TAGS}"
        )
        yield _warning(item, path, sentence)


def _warning(item: Item, path: Path, sentence: str, fix: Fix | None = None) -> Diagnostic:
    fixed = fixed_line(item, [fix]) if fix else None
    lines = (fixed,) if fixed else ()
    return Diagnostic(
        item.document.file, item.line_of(path), text_of(path), sentence, lines, item.subject, warning=True
    )


def foreign_label(key: str) -> str:
    """Return a warning about the key of a requirement that only others set; empty for any other key.

    A requirement on a label that Karpenter does not know makes its nodes carry the label. That hides the mistake.
    """
    setter, instead = _LABELS_OF_OTHERS.get(key, ("", ""))
    if key.startswith(_AUTO_MODE):
        setter, instead = "EKS Auto Mode", f"{labels.AWS_GROUP}/instance-{key.removeprefix(_AUTO_MODE)}"
        instead = instead if instead in labels.WELL_KNOWN else ""
    setter = setter or _DOMAINS_OF_OTHERS.get(key.rpartition("/")[0], "")
    if not setter:
        return ""
    advice = f": use {instead}" if instead else ": remove it"
    return (
        f"{key} is a label of {setter}; on nodes of a NodePool it is an ordinary label and chooses no instance{advice}"
    )


def has_a_date(schedule: str) -> bool:
    """Return whether a valid schedule is ever due."""
    try:
        croniter(schedule, _SOME_DAY).get_next(datetime)
    except CroniterBadDateError:
        return False
    return True


def misread_keys(item: Item) -> Iterator[tuple[Path, str]]:
    """Yield the path of each unquoted key that kubectl reads differently, with the text that kubectl reads.

    kubectl sends ``y: a`` as ``"true": a``.
    """
    if item.place is None:
        return
    text = item.document.lines.text
    for path, place in item.place.walk():
        if not path or place.key is None or text[slice(*place.key)] != path[-1]:
            continue  # quoted, anchored or not a key
        read = _as_key(str(path[-1]))
        if read != path[-1]:
            yield path, read


def _as_key(text: str) -> str:
    try:
        value = plain_value(text)
    except UnreadableDocumentError:
        return text
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else text
