# SPDX-License-Identifier: Apache-2.0
"""Requests in order, kept until the server has acknowledged them; and requests cut into what it takes at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from callboard.errors import CallboardError, RefusedError, TooLargeError
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si

# Until the server has said what it takes.
USUAL_ITEMS = 100_000
USUAL_BYTES = 8 << 20
# What a frame around a request takes at most: names, numbers, lengths.
FRAME = 4 << 10

T = TypeVar("T", si.NodeInfo, si.AddApplicationRequest, si.RemoveApplicationRequest, si.Allocation, si.AllocationRelease)


@dataclass(slots=True)
class Pending:
    """A request that the server has not acknowledged."""

    request: ext.Request
    items: int
    sent: bool = False


class Outbox:
    """The requests of a session, by their numbers."""

    def __init__(self) -> None:
        # What is on its way over the present stream, and what is not yet.
        self._flying: deque[Pending] = deque()
        self._waiting: deque[Pending] = deque()
        # Configurations whose outcome is waited for.
        self._outcomes: dict[int, asyncio.Future[None]] = {}
        self._last = 0
        self._flying_items = 0
        self._credits = USUAL_ITEMS
        self.items = 0
        self.max_items = USUAL_ITEMS
        self.max_bytes = USUAL_BYTES

    def __len__(self) -> int:
        return len(self._flying) + len(self._waiting)

    def add(self, request: ext.Request, items: int, outcome: asyncio.Future[None] | None = None) -> None:
        """Puts a request at the end and gives it the next number."""
        self._last += 1
        request.sequence = self._last
        self._waiting.append(Pending(request, items))
        self.items += items
        if outcome is not None:
            self._outcomes[self._last] = outcome

    def sendable(self) -> bool:
        """Whether a request may go out now: one always may where none is on its way."""
        return bool(self._waiting) and (self._flying_items == 0 or self._flying_items < self._credits)

    def next(self) -> Pending:
        """Takes the request that goes out now; there has to be one."""
        entry = self._waiting.popleft()
        self._flying.append(entry)
        self._flying_items += entry.items
        return entry

    def acknowledged(self, ack: ext.Ack) -> None:
        """Drops what was applied, and tells the outcome of configurations."""
        for refused in ack.refused:
            self._decide(refused.sequence, RefusedError(refused.reason))
        while self._flying and self._flying[0].request.sequence <= ack.sequence:
            entry = self._flying.popleft()
            self._flying_items -= entry.items
            self._applied(entry)
        # Taken over an earlier stream, whose acknowledgement was lost.
        while self._waiting and self._waiting[0].request.sequence <= ack.sequence:
            self._applied(self._waiting.popleft())
        self._credits = ack.credits
        if ack.max_items > 0 and ack.max_bytes > FRAME:
            self.max_items, self.max_bytes = ack.max_items, ack.max_bytes

    def _applied(self, entry: Pending) -> None:
        self.items -= entry.items
        self._decide(entry.request.sequence, None)

    def _decide(self, sequence: int, error: CallboardError | None) -> None:
        outcome = self._outcomes.pop(sequence, None)
        if outcome is None or outcome.done():
            return
        if error is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(error)

    def reopened(self) -> None:
        """Everything that is not acknowledged goes out again, over a new stream."""
        self._waiting.extendleft(reversed(self._flying))
        self._flying.clear()
        self._flying_items = 0

    def void(self, sequence: int, error: CallboardError) -> bool:
        """A request that the server does not take at all would come again for ever: its number then stands for nothing. Whoever
        waits for its outcome is told now, or would be told that it was applied when nothing was."""
        for entry in (*self._flying, *self._waiting):
            if entry.request.sequence == sequence:
                self._decide(sequence, error)
                entry.request = ext.Request(sequence=sequence, heartbeat=ext.Heartbeat())
                return True
        return False

    def split(self, sequence: int) -> bool:
        """A request that is larger than the server takes becomes two, and what follows it gets the numbers behind them: the
        server has taken none of it. False where it is one item."""
        self.reopened()
        entries = list(self._waiting)
        at = next((at for at, entry in enumerate(entries) if entry.request.sequence == sequence), None)
        halves = [] if at is None else _halves(entries[at].request)
        if at is None or len(halves) < 2:
            return False
        entries[at : at + 1] = [Pending(half.request, half.items) for half in halves]
        outcomes = dict(self._outcomes)
        self._outcomes.clear()
        for number, entry in enumerate(entries[at:], start=sequence):
            if outcome := outcomes.pop(entry.request.sequence, None):
                self._outcomes[number] = outcome
            entry.request.sequence = number
        self._outcomes |= outcomes
        self._last += len(halves) - 1
        self._waiting = deque(entries)
        return True

    def abandon(self, error: CallboardError) -> None:
        """Nobody will tell the outcome of what waits for one."""
        for sequence in list(self._outcomes):
            self._decide(sequence, error)


def weigh(entries: int) -> int:
    """As the server counts: eight entries of an item are one more."""
    return 1 + entries // 8


def node_items(node: si.NodeInfo) -> int:
    """What a node counts as."""
    return weigh(len(node.attributes) + len(node.schedulableResource.resources))


def application_items(new: si.AddApplicationRequest) -> int:
    """What an application counts as."""
    return weigh(len(new.tags) + len(new.ugi.groups) + len(new.placeholderAsk.resources))


def allocation_items(allocation: si.Allocation) -> int:
    """What an ask or an allocation counts as."""
    return weigh(len(allocation.allocationTags) + len(allocation.resourcePerAlloc.resources))


def _one(_: object) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a request that the server takes, and its items."""

    request: ext.Request
    items: int


def traced(parts: list[Part], traceparent: str) -> list[Part]:
    """The parts, which are of this trace; "": of none that is named."""
    if traceparent:
        for part in parts:
            part.request.traceparent = traceparent
    return parts


def _chunks(entries: Sequence[T], items: Callable[[T], int], most: int, size: int) -> Iterable[tuple[list[T], int]]:
    """Parts of a list that the server takes as one request each, with their items."""
    part: list[T] = []
    count = total = 0
    for at, entry in enumerate(entries):
        # Tag and length of the item, at most.
        its_items, its_bytes = items(entry), entry.ByteSize() + 8
        if its_items > most or its_bytes > size:
            raise TooLargeError(
                f"item {at} of the request has {its_bytes} bytes and counts as {its_items} items: "
                f"the server takes at most {size} and {most}"
            )
        if part and (count + its_items > most or total + its_bytes > size):
            yield part, count
            part, count, total = [], 0, 0
        part.append(entry)
        count += its_items
        total += its_bytes
    if part:
        yield part, count


def _fits(request: ext.Request, items: int, outbox: Outbox) -> bool:
    """What comes in one request is one step, where the server takes it."""
    return 0 < items <= outbox.max_items and request.ByteSize() <= outbox.max_bytes - FRAME


def _halves(request: ext.Request) -> list[Part]:
    """Two requests that come to the same, one after the other; less of them where it is one item."""
    match request.WhichOneof("request"):
        case "node":
            nodes = request.node.nodes
            requests = [ext.Request(node=si.NodeRequest(nodes=half)) for half in _halved(nodes)]
        case "application":
            new, remove = request.application.new, request.application.remove
            if new and remove:
                halves = [si.ApplicationRequest(new=new), si.ApplicationRequest(remove=remove)]
            else:
                halves = [si.ApplicationRequest(new=half) for half in _halved(new)]
                halves += [si.ApplicationRequest(remove=half) for half in _halved(remove)]
            requests = [ext.Request(application=half) for half in halves]
        case "allocation":
            asks, going = request.allocation.allocations, request.allocation.releases.allocationsToRelease
            if asks and going:
                parts = [si.AllocationRequest(allocations=asks), si.AllocationRequest(releases=request.allocation.releases)]
            else:
                parts = [si.AllocationRequest(allocations=half) for half in _halved(asks)]
                for some in _halved(going):
                    parts.append(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocationsToRelease=some)))
            requests = [ext.Request(allocation=part) for part in parts]
        case _:
            requests = []
    return traced([Part(half, _items(half)) for half in requests], request.traceparent)


def _halved(entries: Sequence[T]) -> list[Sequence[T]]:
    middle = len(entries) // 2
    return [half for half in (entries[:middle], entries[middle:]) if half]


def _items(request: ext.Request) -> int:
    """What a request counts as."""
    asks, applications = request.allocation, request.application
    items = sum(map(node_items, request.node.nodes)) + sum(map(application_items, applications.new)) + len(applications.remove)
    return items + sum(map(allocation_items, asks.allocations)) + len(asks.releases.allocationsToRelease)


def node_parts(request: si.NodeRequest, outbox: Outbox) -> list[Part]:
    """The request in parts that the server takes."""
    return [
        Part(ext.Request(node=si.NodeRequest(nodes=nodes, rmID=request.rmID)), items)
        for nodes, items in _chunks(request.nodes, node_items, outbox.max_items, outbox.max_bytes - FRAME)
    ]


def application_parts(request: si.ApplicationRequest, outbox: Outbox) -> list[Part]:
    """The request in parts that the server takes: what is new, and then what goes."""
    whole = ext.Request(application=request)
    items = sum(map(application_items, request.new)) + len(request.remove)
    if _fits(whole, items, outbox):
        return [Part(whole, items)]
    most, size, rm = outbox.max_items, outbox.max_bytes - FRAME, request.rmID
    parts = [
        Part(ext.Request(application=si.ApplicationRequest(new=new, rmID=rm)), items)
        for new, items in _chunks(request.new, application_items, most, size)
    ]
    parts += [
        Part(ext.Request(application=si.ApplicationRequest(remove=remove, rmID=rm)), items)
        for remove, items in _chunks(request.remove, _one, most, size)
    ]
    return parts


def allocation_parts(request: si.AllocationRequest, outbox: Outbox) -> list[Part]:
    """The request in parts that the server takes: asks and allocations, and then releases."""
    whole = ext.Request(allocation=request)
    releases = request.releases.allocationsToRelease
    items = sum(map(allocation_items, request.allocations)) + len(releases)
    if _fits(whole, items, outbox):
        return [Part(whole, items)]
    most, size, rm = outbox.max_items, outbox.max_bytes - FRAME, request.rmID
    parts = [
        Part(ext.Request(allocation=si.AllocationRequest(allocations=allocations, rmID=rm)), items)
        for allocations, items in _chunks(request.allocations, allocation_items, most, size)
    ]
    for some, items in _chunks(releases, _one, most, size):
        going = si.AllocationReleasesRequest(allocationsToRelease=some)
        parts.append(Part(ext.Request(allocation=si.AllocationRequest(releases=going, rmID=rm)), items))
    return parts
