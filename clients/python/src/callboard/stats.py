# SPDX-License-Identifier: Apache-2.0
"""What a client counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from callboard.options import Metrics


@dataclass
class Stats:
    """Counted since the client was made."""

    requests: int = 0
    """Requests that were handed to the server for the first time."""
    requests_resent: int = 0
    """Requests that were handed to it again after a lost connection."""
    callbacks: int = 0
    """Responses that the shim handled."""
    predicates: int = 0
    """Pairs of ask and node that the shim was asked about."""
    questions: int = 0
    """Calls of the server that these came in."""
    events: int = 0
    """Batches of events and container states that the shim got."""
    events_dropped: int = 0
    """Batches that were dropped since the shim was too slow."""
    reconnects: int = 0
    """Connections that were lost and made again."""
    replays: int = 0
    """Sessions that were lost and told again."""


class Counters:
    """Counts, and passes on to whoever wants to know."""

    def __init__(self, sink: Metrics | None) -> None:
        self._sink = sink
        self._stats = Stats()

    def add(self, name: str, n: int = 1) -> None:
        """One of the fields of `Stats` grows."""
        setattr(self._stats, name, getattr(self._stats, name) + n)
        if self._sink is not None and n > 0:
            self._sink.add(name, n)

    def stats(self) -> Stats:
        """The numbers as they are now."""
        return replace(self._stats)
