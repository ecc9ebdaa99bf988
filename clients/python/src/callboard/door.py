# SPDX-License-Identifier: Apache-2.0
"""How the generated methods of the REST interface reach the server."""

from __future__ import annotations

import json as encoding
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote as _quote

import httpx

from callboard.errors import ProblemError, UnreachableError

Query = Mapping[str, str | float | bool | None]


def quote(part: str) -> str:
    """A part of a path, whatever is in it."""
    return _quote(part, safe="")


class Door:
    """A part of the REST interface."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    def _request(
        self, accept: str, verb: str, path: str, query: Query | None, json: object = None, text: str | None = None
    ) -> httpx.Request:
        given = {} if query is None else {name: value for name, value in query.items() if value is not None}
        headers = {"Accept": accept}
        if text is not None:
            headers["Content-Type"] = "application/yaml"
            return self._http.build_request(verb, path, params=given, headers=headers, content=text)
        return self._http.build_request(verb, path, params=given, headers=headers, json=json)

    async def _call(
        self, verb: str, path: str, query: Query | None = None, json: object = None, text: str | None = None
    ) -> object:
        try:
            answer = await self._http.send(self._request("application/json", verb, path, query, json, text))
        except httpx.HTTPError as error:
            raise UnreachableError(f"{self._http.base_url}: {error!r}") from None
        _raise(answer)
        try:
            told: object = answer.json()
        except ValueError:
            raise UnreachableError(f"what answers at {answer.url} is no scheduler: {answer.text[:80]!r}") from None
        return told

    async def _lines(self, verb: str, path: str, query: Query | None = None) -> AsyncIterator[dict[str, Any]]:
        """One object after the other, as they come."""
        try:
            answer = await self._http.send(self._request("application/x-ndjson", verb, path, query), stream=True)
            try:
                if not answer.is_success:
                    await answer.aread()
                _raise(answer)
                async for line in answer.aiter_lines():
                    # Empty ones say that the server is there.
                    if line.strip():
                        try:
                            told = encoding.loads(line)
                        except ValueError:
                            text = f"what answers at {answer.url} is no scheduler: {line[:80]!r}"
                            raise UnreachableError(text) from None
                        yield told
            finally:
                await answer.aclose()
        except httpx.HTTPError as error:
            raise UnreachableError(f"{self._http.base_url}: {error!r}") from None


def _raise(answer: httpx.Response) -> None:
    """An answer that says that something is wrong, as an exception."""
    if answer.is_success:
        return
    try:
        told = answer.json()
        reason = told.get("detail") or told.get("Description") or told.get("Message") or answer.text
    except (ValueError, AttributeError):
        told, reason = {}, answer.text
    raise ProblemError(answer.status_code, str(reason).strip() or answer.reason_phrase, told)
