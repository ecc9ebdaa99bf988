# SPDX-License-Identifier: Apache-2.0
"""The example does what its text says, and is as short as it says."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx

from tests.conftest import StartServer
from tests.shim import LIMIT

SHIM = Path(__file__).resolve().parents[1] / "examples" / "shim.py"


async def test_the_example_runs_commands_when_there_is_room(serve: StartServer) -> None:
    server = await serve()
    commands = ["echo one", "echo two; false", "echo three"] * 5
    process = await asyncio.create_subprocess_exec(
        sys.executable, SHIM, server.grpc, *commands, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(LIMIT):
        out, errors = await process.communicate()
    lines = out.decode().splitlines()
    assert process.returncode == 0, errors.decode()
    assert not errors
    assert sorted(line for line in lines if "task" not in line) == sorted(["one", "two", "three"] * 5)
    told = {line for line in lines if "task" in line}
    assert told == {f"task-{n} ended with status {1 if n % 3 == 2 else 0}" for n in range(1, 16)}
    async with httpx.AsyncClient(base_url=server.http) as web:
        managers = (await web.get("/si/v1/rm")).json()
    assert all(manager["state"] == "Stopped" for manager in managers)


def test_the_example_has_no_more_than_sixty_lines() -> None:
    lines = [line.strip() for line in SHIM.read_text(encoding="utf-8").splitlines()]
    assert len([line for line in lines if line and not line.startswith("#")]) <= 60
