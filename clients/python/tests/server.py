# SPDX-License-Identifier: Apache-2.0
"""Starts the built Callboard server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Self

import pytest

PROGRAM = "CALLBOARD_BIN"


def need_program() -> str:
    """The built server. Without it the test is skipped, and fails where CI is true."""
    program = os.environ.get(PROGRAM)
    if not program:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{PROGRAM} does not name the built server")
        pytest.skip(f"{PROGRAM} does not name the built server, such as target/debug/callboard")
    return program


class Server:
    """A running server on free ports of the loopback."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self.log = log
        self.grpc = self.http = ""

    @classmethod
    async def start(cls, log: Path, *arguments: str) -> Self:
        program = need_program()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("CALLBOARD_", "RUST_LOG"))}
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                program,
                *("serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"),
                *(arguments or ("--ephemeral",)),
                env=environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        server = cls(process, log)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(60):
                while not server.grpc:
                    line = (await process.stdout.readline()).decode()
                    assert line, f"the server does not start: see {log}"
                    if line.startswith("callboard ready "):
                        told = dict(word.split("=", 1) for word in line.split() if "=" in word)
                        server.grpc, server.http = told["grpc"].removeprefix("http://").removeprefix("https://"), told["http"]
        except BaseException:
            await server.kill()
            raise
        if "://" not in server.http:
            server.http = f"http://{server.http}"
        return server

    def addr(self, door: str) -> str:
        """Host and port of a door."""
        return self.grpc if door == "grpc" else self.http.partition("://")[2]

    def url(self, door: str) -> str:
        """The address of a door, as a client takes it."""
        return self.grpc if door == "grpc" else self.http

    async def kill(self) -> None:
        """Ends it at once."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
