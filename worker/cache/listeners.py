"""Listeners of tables that publish the keys of what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenon.kube.records import NamespacedRecord, ObjectRecord
from tenon.provisioning.buffer_status import named_targets
from worker.cache.changes import Changes, Topic


def published(changes: Changes, topic: Topic) -> Callable[[str, object, object], None]:
    """Return a listener that publishes each change."""
    return lambda key, _before, _after: changes.publish(topic, key)


def specs_published(changes: Changes, topic: Topic) -> Callable[[str, ObjectRecord | None, ObjectRecord | None], None]:
    """Return a listener that publishes changes of the spec and ignores writes of the status."""

    def publish(key: str, before: ObjectRecord | None, after: ObjectRecord | None) -> None:
        if before is None or after is None or before.version_of_spec != after.version_of_spec:
            changes.publish(topic, key)

    return publish


def essences_published(
    changes: Changes, topic: Topic, essence: Callable[[ObjectRecord | None], object]
) -> Callable[[str, ObjectRecord | None, ObjectRecord | None], None]:
    """Return a listener that publishes changes of what ``essence`` returns: the part of an object that matters."""

    def publish(key: str, before: ObjectRecord | None, after: ObjectRecord | None) -> None:
        if essence(before) != essence(after):
            changes.publish(topic, key)

    return publish


def targets_published(
    changes: Changes, kind: str, buffers: Iterable[NamespacedRecord]
) -> Callable[[str, object, object], None]:
    """Return a listener that publishes the buffers that refer to an object of this kind.

    ``buffers`` are those that exist when the object changes.
    """

    def publish(key: str, _before: object, _after: object) -> None:
        namespace, _, name = key.partition("/")
        for buffer in buffers:
            if (kind, name) in named_targets(buffer.spec) and buffer.key.startswith(f"{namespace}/"):
                changes.publish(Topic.BUFFER, buffer.key)

    return publish
