# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions."""

from __future__ import annotations

from typing import Any


class CallboardError(Exception):
    """The base of all exceptions of this package."""


class NotRegisteredError(CallboardError):
    """A call that needs a session came before `Client.register_resource_manager`, or after `Client.unregister`."""

    def __init__(self) -> None:
        super().__init__("the resource manager is not registered: call register_resource_manager first")


class StoppedError(CallboardError):
    """The client was stopped."""

    def __init__(self) -> None:
        super().__init__("the client was stopped")


class LostError(CallboardError):
    """The session is gone for good: the server does not have it any more, or another process registered the resource manager."""


class RefusedError(CallboardError):
    """The server refuses what was asked, and nothing has changed. Asking again does not help."""


class ProblemError(RefusedError):
    """An answer of the REST interface that says that something is wrong."""

    def __init__(self, status: int, reason: str, told: dict[str, Any]) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        """The status of HTTP."""
        self.told = told
        """What the server says, as it says it."""


class UnreachableError(CallboardError):
    """No server answers."""


class TooLargeError(CallboardError, ValueError):
    """One item of a request is larger than the server takes."""
