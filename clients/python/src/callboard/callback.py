# SPDX-License-Identifier: Apache-2.0
"""What a shim does about what the server tells it."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.proto.si.v1 import si_pb2 as si


class ResourceManagerCallback:
    """The shim's side of a session. A shim overrides what it needs; what it leaves alone does nothing, and fits.

    Responses come one at a time, in the order in which the server made them: the next one waits until the handler has
    returned. An exception of a handler is logged and told to the server; it loses nothing.
    """

    async def update_allocation(self, response: si.AllocationResponse) -> None:
        """`new`: start it there. `released`: end it, confirm where that is wanted. `rejectedAllocations`: `reason` says why."""

    async def update_application(self, response: si.ApplicationResponse) -> None:
        """Applications that were accepted, rejected, or have another state."""

    async def update_node(self, response: si.NodeResponse) -> None:
        """Nodes that were accepted or rejected."""

    async def predicates(self, args: si.PredicatesArgs) -> str | None:
        """Whether the ask fits on the node: `None` where it does, else the reason. Questions come side by side, at most
        `Options.predicate_workers` at a time. An exception counts as a reason."""
        return None

    async def preemption_predicates(self, args: si.PreemptionPredicatesArgs) -> si.PreemptionPredicatesResponse | None:
        """Whether the ask fits when some of these victims go, and how many of them, in order; `None`: it does not."""
        return None

    async def send_event(self, events: Sequence[si.EventRecord]) -> None:
        """Events, in order; dropped and counted where the shim is too slow for them."""

    async def update_container_scheduling_state(self, request: si.UpdateContainerSchedulingStateRequest) -> None:
        """How the scheduling of a container stands; in one order with the events."""

    async def get_state_dump(self) -> str:
        """The shim's part of a state dump, as JSON."""
        raise NotImplementedError("the shim has no part of state dumps")
