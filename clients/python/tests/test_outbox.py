# SPDX-License-Identifier: Apache-2.0
"""What becomes of requests that a server does not take."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from callboard import Options, RefusedError, si
from callboard.http_link import HttpLink
from callboard.link import Fault
from callboard.outbox import Outbox
from callboard.proto.callboard.v1 import callboard_pb2 as ext


def configuration() -> ext.Request:
    return ext.Request(configuration=si.UpdateConfigurationRequest(config="malformed"))


async def test_a_configuration_that_is_left_out_is_not_told_as_applied() -> None:
    outbox, outcome = Outbox(), asyncio.get_running_loop().create_future()
    outbox.add(configuration(), 0, outcome)
    outbox.next()
    assert outbox.void(1, RefusedError("it cannot be read"))
    outbox.reopened()
    # What goes out in its place under its number is applied.
    sent = outbox.next().request
    assert (sent.sequence, sent.WhichOneof("request")) == (1, "heartbeat")
    outbox.acknowledged(ext.Ack(sequence=1))
    with pytest.raises(RefusedError, match="it cannot be read"):
        await outcome


async def test_a_refusal_over_http_that_uses_up_no_number_leaves_it_to_the_queue() -> None:
    came: list[str] = []
    headers: dict[str, str] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        came.append(request.url.path)
        return httpx.Response(400, json={"detail": "it cannot be read"}, headers=headers)

    link = HttpLink(Options(addrs=["http://board"]), "http://board")
    await link._http.aclose()
    link._http = httpx.AsyncClient(base_url="http://board", transport=httpx.MockTransport(answer))
    request = configuration()
    request.sequence = 7
    with pytest.raises(Fault, match="it cannot be read") as caught:
        await link.send(request)
    assert caught.value.refused_request == 7
    # A configuration that was read and refused has used it up.
    headers["X-Callboard-Ack"] = "7"
    await link.send(request)
    ack = await link.acknowledgement()
    assert [(refused.sequence, refused.reason) for refused in ack.refused] == [(7, "it cannot be read")]
    assert len(came) == 2, "nothing else was sent"
    await link.close()
