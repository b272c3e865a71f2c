"""The tags that AWSNodeTemplates and inline providers apply: aws.tags of a ConfigMap, or DEFAULT_TAGS of the worker.

The same code parses both, so that a ConfigMap keeps its meaning when it becomes a setting.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis.ec2nodeclass import CLUSTER_TAG_PREFIX, MAX_TAGS, OWN_TAGS
from tenon.apis.json_object import parse_json_object
from tenon.apis.legacy.awsnodetemplate import RESTRICTED_TAGS
from tenon.apis.legacy.conversion import Note, Renamed

SETTING = "aws.tags"
_EACH = f"{SETTING}."
DEFAULT_TAGS = "DEFAULT_TAGS"
MAX_KEY_LENGTH, MAX_VALUE_LENGTH = 128, 256
"""EC2's limits, in characters."""


def is_tag_setting(key: str) -> bool:
    """Whether a key of karpenter-global-settings concerns tags: all of them, or the one that the key names."""
    return key == SETTING or key.startswith(_EACH)


def tags_of(data: Mapping[str, str]) -> tuple[dict[str, str], list[Note]]:
    """Return the tags in a ConfigMap's data, and the notes on each key. A tag with a key of its own wins.

    Invalid tags are left out with a note, so that a setting does not make a class invalid.
    """
    tags: dict[str, str] = {}
    used: list[Note] = []
    notes: list[Note] = []
    for key in sorted(filter(is_tag_setting, data), key=lambda name: name != SETTING):
        path = f"data[{key}]"
        try:
            values = _read(data[key] or "{}") if key == SETTING else {key.removeprefix(_EACH): data[key]}
        except ValueError as error:
            notes.append(Note(f"{key} is left out: {error}", path))
            continue
        refused = {tag: why for tag, value in values.items() if (why := _refusal(tag, value))}
        if len(refused) == len(values):
            notes.append(Note(f"{key} contains no usable tag"))
        else:
            used.append(Renamed(key, DEFAULT_TAGS))
        notes += [Note(f"the tag {tag!r} of {SETTING} is left out: {why}", path) for tag, why in refused.items()]
        tags |= {tag: value for tag, value in values.items() if tag not in refused}
    if len(tags) > MAX_TAGS:
        return {}, [*notes, Note(f"{SETTING} is left out: {_too_many(tags)}", "data")]
    return tags, [*used, *notes]


def default_tags(text: str) -> dict[str, str]:
    """Parse the tags of DEFAULT_TAGS. An empty text has no tags.

    Raises:
        ValueError: the text is not a set of tags, or contains a tag that users cannot set.
    """
    tags = _read(text) if text else {}
    for tag, value in tags.items():
        if why := _refusal(tag, value):
            raise ValueError(f"leave out the tag {tag!r}, because {why}")
    if len(tags) > MAX_TAGS:
        raise ValueError(_too_many(tags))
    return tags


def _read(text: str) -> dict[str, str]:
    values = parse_json_object(text)
    if values is None or not all(isinstance(value, str) for value in values.values()):
        raise ValueError('it is not a JSON object of strings, such as {"team": "a"}')
    return values


def _refusal(tag: str, value: str) -> str:
    """Return why EC2, an EC2NodeClass or an AWSNodeTemplate rejects the tag; empty if all accept it."""
    if not tag:
        return "a tag has a name"
    if why := refused_by_ec2(tag, value):
        return why
    is_kept = tag in OWN_TAGS or tag in RESTRICTED_TAGS or tag.startswith(CLUSTER_TAG_PREFIX)
    return "it identifies the owner of an instance, and only the worker sets it" if is_kept else ""


def refused_by_ec2(tag: str, value: str) -> str:
    """Return why EC2 rejects the tag of this name; empty if it takes the tag."""
    if tag.lower().startswith("aws:"):
        return "names that begin with aws: are those of AWS"
    if len(tag) > MAX_KEY_LENGTH or len(value) > MAX_VALUE_LENGTH:
        return f"EC2 takes {MAX_KEY_LENGTH} characters of a name and {MAX_VALUE_LENGTH} of a value"
    return ""


def _too_many(tags: Mapping[str, str]) -> str:
    return f"it has {len(tags)} tags, and an EC2NodeClass takes {MAX_TAGS}"
