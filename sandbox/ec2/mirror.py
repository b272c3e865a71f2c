"""A live copy of one kind of Kubernetes object. A thread lists and watches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from activities import loggers
from sandbox.ec2.kube import KubeClient, KubeError

log = loggers.SANDBOX_KUBELET
WATCH_SECONDS = 300
PAGE = 500


class Mirror:
    """Objects by UID. ``changed`` is called after each change, in the mirror's thread."""

    def __init__(self, client: KubeClient, path: str, query: dict[str, Any], changed: Callable[[], None]) -> None:
        self._client = client
        self._path = path
        self._query = query
        self._changed = changed
        self._objects: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.synced = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mirror {path}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end. It ends with its current watch, or with the process."""
        self._stop.set()

    def objects(self) -> list[dict[str, Any]]:
        """The current objects."""
        with self._lock:
            return list(self._objects.values())

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                version = self._list()
                self.synced.set()
                while not self._stop.is_set():
                    version = self._follow(version)
            except KubeError as error:
                if error.status != 410:
                    log.warning(
                        "A watch failed, and the simulator lists again", extra={"path": self._path, "error": str(error)}
                    )
                    self._stop.wait(1)
            except Exception as error:  # a broken connection raises many types; after each of them, list again
                log.warning(
                    "A watch broke, and the simulator lists again", extra={"path": self._path, "error": str(error)}
                )
                self._stop.wait(1)

    def _list(self) -> str:
        result: dict[str, dict[str, Any]] = {}
        token, version = "", ""
        while True:
            query = {**self._query, "limit": PAGE, **({"continue": token} if token else {})}
            page = self._client.call("GET", self._path, query=query)
            result |= {item["metadata"]["uid"]: item for item in page.get("items") or []}
            version = str(page["metadata"]["resourceVersion"])
            token = page["metadata"].get("continue") or ""
            if not token:
                break
        with self._lock:
            self._objects = result
        self._changed()
        return version

    def _follow(self, version: str) -> str:
        query = {
            **self._query,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": WATCH_SECONDS,
        }
        for event in self._client.watch(self._path, query):
            item = event["object"]
            version = str(item["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                with self._lock:
                    if event["type"] == "DELETED":
                        self._objects.pop(item["metadata"]["uid"], None)
                    else:
                        self._objects[item["metadata"]["uid"]] = item
                self._changed()
            if self._stop.is_set():
                break
        return version
