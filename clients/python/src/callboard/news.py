# SPDX-License-Identifier: Apache-2.0
"""Waiting until something is so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class News:
    """Wakes those who wait for a fact when something has changed."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        """Something has changed."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def until(self, so: Callable[[], bool]) -> None:
        """Returns when it is so, at once where it is already."""
        while not so():
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                await waiting
            finally:
                self._waiting.discard(waiting)
