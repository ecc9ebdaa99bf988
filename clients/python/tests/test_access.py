# SPDX-License-Identifier: Apache-2.0
"""Encryption and tokens."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from callboard import TLS, RefusedError, UnreachableError
from tests.conftest import MakeClient, StartServer
from tests.server import Server, need_program
from tests.shim import CONFIG, LIMIT, Shim, application, ask, nodes, register

NAME = "callboard.test"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for `NAME` that signs itself, and its key."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("openssl is not installed")
        pytest.skip("openssl is not installed")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command, "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"], check=True, capture_output=True)
    return cert, key


async def token(file: Path, name: str) -> str:
    """A new token of the role shim, which the server knows by this file."""
    command = (need_program(), "token", "new", "--role", "shim", "--name", name, "--file", str(file))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().strip()


@pytest.fixture
async def guarded(serve: StartServer, tmp_path: Path) -> Server:
    cert, key = certificate(tmp_path)
    tokens = tmp_path / "tokens"
    (tmp_path / "token").write_text(await token(tokens, "first") + "\n")
    flags = ("--tls-cert", str(cert), "--tls-key", str(key), "--tokens", str(tokens))
    return await serve("--ephemeral", *flags)


async def test_a_client_knows_its_server_and_is_known(door: str, guarded: Server, connect: MakeClient, tmp_path: Path) -> None:
    shim, tls = Shim(), TLS(ca=tmp_path / "cert.pem", server_name=NAME)
    client = connect(guarded.url(door), tls=tls, token_file=tmp_path / "token", web=guarded.http)
    await register(client, shim)
    await nodes(client, 1, 100)
    await application(client, "app")
    await ask(client, "app", "k1", 10)
    await shim.until("placed", lambda: "k1" in shim.placed)
    await client.validate(CONFIG)

    stranger = connect(guarded.url(door), tls=tls)
    with pytest.raises(RefusedError, match=r"UNAUTHENTICATED|401"):
        await register(stranger, Shim())
    # The certificate is nobody's that the system trusts; and a name is not that of another.
    for other in (TLS(), TLS(ca=tmp_path / "cert.pem", server_name="callboard.other")):
        wrong = connect(guarded.url(door), tls=other, token_file=tmp_path / "token", connect_timeout=0.1)
        with pytest.raises(UnreachableError):
            await register(wrong, Shim())


async def test_a_token_may_change_while_a_session_runs(door: str, guarded: Server, connect: MakeClient, tmp_path: Path) -> None:
    shim, tls = Shim(), TLS(ca=tmp_path / "cert.pem", server_name=NAME)
    reconnected = asyncio.Event()

    class Counted:
        def add(self, name: str, _: int) -> None:
            if name == "reconnects":
                reconnected.set()

    client = connect(guarded.url(door), tls=tls, token_file=tmp_path / "token", metrics=Counted())
    await register(client, shim)
    await nodes(client, 1, 100)
    await client.flush()
    # The old one is taken away before the new one is where the client finds it.
    (tmp_path / "tokens").write_text("")
    second = await token(tmp_path / "tokens", "second")
    await application(client, "app")
    (tmp_path / "token").write_text(second)
    await ask(client, "app", "k1", 10)
    await shim.until("placed", lambda: "k1" in shim.placed)
    async with asyncio.timeout(LIMIT):
        await reconnected.wait()
    await ask(client, "app", "k2", 10)
    await shim.until("placed again", lambda: "k2" in shim.placed)
    shim.unharmed()
