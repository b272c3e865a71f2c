"""The state of ``tenon shadow`` in an SQLite file, so that a restart goes on. Only what changed is written."""

from __future__ import annotations

import fcntl
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import IO

from tenon.errors import TenonError
from tenon.provisioning.problem_json import decode, encode
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.saved import VERSION, PodPlace, ShadowTotals, node_text, places_of

TABLES = """
CREATE TABLE IF NOT EXISTS node (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS place (uid TEXT PRIMARY KEY, node TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS totals (id INTEGER PRIMARY KEY CHECK (id = 1), body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS report (id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL);
"""


class StoreError(TenonError):
    """The file cannot be used."""


class ShadowFile:
    """The file. Use it in one thread at a time."""

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        """Open the file, or create it.

        ``exclusive`` is for the process that watches, because two would spoil each other's model.

        Raises:
            StoreError: it cannot be opened, is no such file, or another process watches with it.
        """
        self.path = path
        self._lock: IO[bytes] | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if exclusive:
                self._lock = _locked(path)
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.executescript(TABLES)
        except (sqlite3.Error, OSError) as error:
            raise _unusable(path, error) from error
        self._nodes: dict[str, tuple[object, ...]] = {}
        self._places: dict[str, PodPlace] = {}

    def close(self) -> None:
        """Close the file."""
        self._database.close()
        if self._lock is not None:
            self._lock.close()

    def totals(self) -> ShadowTotals | None:
        """Return the totals; None in a new file.

        Raises:
            StoreError: another version wrote the file.
        """
        row = self._database.execute("SELECT body FROM totals").fetchone()
        if row is None:
            return None
        try:
            totals = decode(row[0], ShadowTotals)
        except ValueError:
            totals = None
        if totals is None or totals.version != VERSION:
            raise StoreError(f"{self.path} was written by another version of Tenon: name another file with --state")
        return totals

    def model(self) -> tuple[list[bytes], dict[str, PodPlace]]:
        """Return the nodes of the model as texts, and the place of each pod by UID."""
        nodes = dict(self._database.execute("SELECT name, body FROM node"))
        rows = self._database.execute("SELECT uid, node, created FROM place")
        places = {uid: PodPlace(node, created) for uid, node, created in rows}
        self._nodes, self._places = dict.fromkeys(nodes, ()), places
        return list(nodes.values()), places

    def save(self, cluster: ModelCluster, totals: ShadowTotals) -> None:
        """Write what has changed, in one transaction."""
        marks: dict[str, tuple[object, ...]] = {
            name: (node.quiet, node.leaves, node.arrivals, node.awaits_pods_until)
            for name, node in cluster.nodes.items()
        }
        places = places_of(cluster)
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            database.executemany("DELETE FROM node WHERE name = ?", ((name,) for name in self._nodes.keys() - marks))
            database.executemany(
                "REPLACE INTO node VALUES (?, ?)",
                (
                    (name, node_text(cluster.nodes[name]))
                    for name, mark in marks.items()
                    if self._nodes.get(name) != mark
                ),
            )
            database.executemany("DELETE FROM place WHERE uid = ?", ((uid,) for uid in self._places.keys() - places))
            database.executemany(
                "REPLACE INTO place VALUES (?, ?, ?)",
                ((uid, *place) for uid, place in places.items() if self._places.get(uid) != place),
            )
            database.execute("REPLACE INTO totals VALUES (1, ?)", (encode(totals),))
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise
        self._nodes, self._places = marks, places

    def clear(self) -> None:
        """Remove everything, before a model begins."""
        for table in ("node", "place", "totals"):
            self._database.execute(f"DELETE FROM {table}")

    def save_report(self, document: str) -> None:
        """Keep the newest report, as JSON, for those who read the file."""
        self._database.execute("REPLACE INTO report VALUES (1, ?)", (document,))


def last_report(path: Path) -> str | None:
    """Return the newest report in a file, as JSON; None if it has none yet. Changes nothing in the file.

    Raises:
        StoreError: it cannot be opened, or is no such file.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as database:
            row = database.execute("SELECT body FROM report").fetchone()
    except sqlite3.Error as error:
        raise _unusable(path, error) from error
    return None if row is None else str(row[0])


def _unusable(path: Path, error: Exception) -> StoreError:
    return StoreError(f"{path} cannot be used as the state of tenon shadow: {error}")


def _locked(path: Path) -> IO[bytes]:
    """Lock a file next to the database, because SQLite has locks of its own on the database.

    Raises:
        OSError: the file cannot be written.
        StoreError: another process has the lock.
    """
    lock = path.with_name(f"{path.name}-lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StoreError(
            f"Another tenon shadow watches with {path}: print its report with --last, or name another file with --state"
        ) from None
    return lock
