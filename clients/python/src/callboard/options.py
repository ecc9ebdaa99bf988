# SPDX-License-Identifier: Apache-2.0
"""How a client reaches its server, and what becomes of what it cannot carry on with."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from callboard.errors import LostError


@dataclass(frozen=True, kw_only=True)
class TLS:
    """How the server is known to be the right one, and the client to it."""

    ca: Path | str | None = None
    """File with the certificates that the server's is checked against; `None`: those of the system."""
    server_name: str | None = None
    """The name in the server's certificate, where it is not that of the address."""
    certificate: Path | str | None = None
    """File with the client's own certificate, where the server wants one; `key` belongs to it."""
    key: Path | str | None = None


class Metrics(Protocol):
    """Is told what a client counts."""

    def add(self, name: str, n: int) -> None:
        """`name` is a field of `Stats`, `n` how many more there are."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a `Client` is made with. Times are in seconds."""

    addrs: Sequence[str]
    """Addresses of the server, or of several that share its log; they are tried in turn. `host:port` is the
    gRPC door, `http://host:port` the HTTP door, which takes one request at a time."""
    tls: TLS | None = None
    """Encrypts; `None` does not, which is for the loopback."""
    token_file: Path | str | None = None
    """File with the token. It is read again for each connection."""
    web: str | None = None
    """Base URL of the HTTP door, such as `http://127.0.0.1:9080`, for `Client.validate` only."""

    on_lost: Callable[[LostError], Awaitable[None] | None] | None = None
    """Called once when the session is gone for good; calls of the client fail from then on. `None` ends the process with
    status 1, so that the shim starts anew and recovers."""

    replay: bool = False
    """Registers again instead, and tells the server the nodes, applications, allocations and asks that there are. `on_lost` is
    called where that fails."""

    metrics: Metrics | None = None
    """Is told what is counted; `Client.stats` has the same numbers."""
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("callboard"))

    predicate_workers: int = 8
    """How many questions are put to the shim at a time."""
    event_queue: int = 10_000
    """How many batches of events and container states may wait for the shim; what comes beyond is dropped and counted."""
    request_queue: int = 100_000
    """How many items of requests may wait for the server; a call waits while there are more."""
    connect_timeout: float = 60.0
    """How long a registration waits for a server to be there."""
    answer_timeout: float = 60.0
    """How long an update of the configuration waits for its outcome."""

    def __post_init__(self) -> None:
        if isinstance(self.addrs, str) or not self.addrs:
            raise ValueError("Options.addrs is a list of addresses, and names at least one server as host:port")
        for name in ("predicate_workers", "event_queue", "request_queue"):
            if getattr(self, name) < 1:
                raise ValueError(f"Options.{name} is {getattr(self, name)}, but at least 1 is needed")
        for name in ("connect_timeout", "answer_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Options.{name} is {getattr(self, name)}, but has to be above 0 seconds")
        if self.token_file is not None:
            read_token(self.token_file)


def read_token(file: Path | str) -> str:
    """The token in this file. Raises `OSError` where it cannot be read, `ValueError` where it is empty."""
    token = Path(file).read_text(encoding="utf-8").strip()
    if not token:
        raise ValueError(f"token file {file} is empty")
    return token
