# SPDX-License-Identifier: Apache-2.0
"""What can be read from a server, and what operators tell it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from callboard import web
from callboard.openapi.operations import Api, Si, Ws
from callboard.options import TLS


class Rest:
    """The REST interface of a server at a base URL such as `http://127.0.0.1:9080`.

    Its methods are made from the server's own description, with the types of `callboard.openapi.models`; they raise
    `ProblemError` where the server says no, `UnreachableError` where it says nothing.

        async with Rest("http://127.0.0.1:9080") as rest:
            why = await rest.api.application_explain("default", "app-1")
    """

    def __init__(self, url: str, *, tls: TLS | None = None, token_file: Path | str | None = None) -> None:
        self._http = web.client(url, tls, token_file)
        self.api = Api(self._http)
        """What YuniKorn does not have."""
        self.ws = Ws(self._http)
        """What YuniKorn has too."""
        self.si = Si(self._http)
        """The resource managers."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Gives the connections up."""
        await self._http.aclose()
