# SPDX-License-Identifier: Apache-2.0
"""The HTTP door."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from callboard.options import TLS, read_token

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


def client(base: str, tls: TLS | None, token_file: Path | str | None) -> httpx.AsyncClient:
    """Connections to this door, with the token as it is in the file at each request."""

    async def prepare(request: httpx.Request) -> None:
        if token_file is not None:
            request.headers["Authorization"] = f"Bearer {read_token(token_file)}"
        if tls is not None and tls.server_name is not None:
            request.extensions["sni_hostname"] = tls.server_name

    return httpx.AsyncClient(base_url=base, verify=context(tls), timeout=TIMEOUT, event_hooks={"request": [prepare]})
