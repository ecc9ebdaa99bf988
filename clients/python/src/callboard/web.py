# SPDX-License-Identifier: Apache-2.0
"""The HTTP door."""

from __future__ import annotations

import ssl

import httpx

from callboard.errors import RefusedError, UnreachableError
from callboard.options import TLS, Options, read_token

# How long the door may take to take and to give a part of something, in seconds.
TIMEOUT = 30.0


def context(tls: TLS | None) -> ssl.SSLContext | bool:
    """What httpx checks a server with."""
    if tls is None:
        return True
    made = ssl.create_default_context(cafile=tls.ca)
    if tls.certificate is not None:
        made.load_cert_chain(tls.certificate, tls.key)
    return made


def client(options: Options, base: str) -> httpx.AsyncClient:
    """Connections to this door, with the token of the options."""
    headers = {}
    if options.token_file is not None:
        headers["Authorization"] = f"Bearer {read_token(options.token_file)}"
    name = None if options.tls is None else options.tls.server_name

    async def named(request: httpx.Request) -> None:
        if name is not None:
            request.extensions["sni_hostname"] = name

    return httpx.AsyncClient(
        base_url=base, headers=headers, verify=context(options.tls), timeout=TIMEOUT, event_hooks={"request": [named]}
    )


async def validate(options: Options, configuration: str) -> None:
    """Whether the server would take a configuration."""
    if options.web is None:
        raise ValueError("validate asks the HTTP door: set Options.web")
    try:
        async with client(options, options.web) as http:
            answer = await http.post("/ws/v1/validate-conf", content=configuration)
    except httpx.HTTPError as error:
        raise UnreachableError(f"{options.web}: {error}") from None
    if answer.status_code != httpx.codes.OK:
        raise RefusedError(f"{answer.status_code}: {answer.text.strip()}")
    told = answer.json()
    if not told["allowed"]:
        raise RefusedError(told["reason"])
