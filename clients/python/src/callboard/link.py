# SPDX-License-Identifier: Apache-2.0
"""One connection to a server, whatever protocol it speaks."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si

# How long one server may take to open a connection.
OPENING = 10.0
# How often a server is asked whether it is there, and how long it may take to say so, alone and where there are others: then one
# that hangs is worth leaving soon.
BEAT = 3.0
PATIENCE = 10.0
PATIENCE_OF_SEVERAL = 4.0


def patience(addrs: Sequence[str]) -> float:
    """How long a server may say nothing when it is asked whether it is there."""
    return PATIENCE if len(addrs) == 1 else PATIENCE_OF_SEVERAL


class Kind(Enum):
    """What a fault of a connection means."""

    GONE = auto()
    """The server has no such session; what would begin one, it refuses."""
    REFUSED = auto()
    """The server does not do it, whatever session it has."""
    REPLACED = auto()
    """Another connection took the place of this one, or another session that of this session."""
    BROKEN = auto()
    """Another attempt may help."""


class Fault(Exception):  # noqa: N818
    """A connection broke, or could not be made."""

    def __init__(self, kind: Kind, text: str, *, refused_request: int | None = None, too_large: bool = False) -> None:
        super().__init__(text)
        self.kind = kind
        self.refused_request = refused_request
        """The number of a request that the server does not take at all."""
        self.too_large = too_large
        """It may take it in parts."""


def other_epoch(known: int, told: int) -> Fault:
    """The server has a session, but another one."""
    return Fault(Kind.GONE, f"the server's session has epoch {told}, the one that is wanted {known}")


def number_in(text: str) -> int | None:
    """Which request a server speaks of."""
    found = re.match(r"request (\d+)", text)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Opened:
    """What a registration brought."""

    epoch: int
    response: si.RegisterResourceManagerResponse
    ack: ext.Ack


class Link(ABC):
    """Requests and acknowledgements, calls and replies. All of it raises `Fault`.

    `receive`, `acknowledgement` and `send` are called from one task each.
    """

    answers_confirm = False
    """Whether an answer to a question says that all earlier responses were handled."""

    @abstractmethod
    async def register(self, request: si.RegisterResourceManagerRequest) -> Opened:
        """Begins a session, and opens its streams."""

    @abstractmethod
    async def resume(self, rm: str, epoch: int, after: int) -> ext.Ack:
        """Goes on with this session behind this line; gives how far its requests are."""

    @abstractmethod
    async def receive(self) -> ext.Call:
        """The next line of the session."""

    @abstractmethod
    async def acknowledgement(self) -> ext.Ack:
        """The next acknowledgement."""

    @abstractmethod
    async def send(self, request: ext.Request) -> None:
        """Hands a numbered request to the server."""

    @abstractmethod
    async def reply(self, reply: ext.Reply) -> None:
        """Answers a call of this very connection. Where that fails, `receive` learns why."""

    @abstractmethod
    async def unregister(self, rm: str) -> None:
        """Ends the session."""

    async def watch(self) -> None:
        """Raises `Fault` when the server does not answer any more, where nothing else would tell."""
        await asyncio.Future()

    @abstractmethod
    async def close(self) -> None:
        """Gives the connection up."""
