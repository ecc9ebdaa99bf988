# SPDX-License-Identifier: Apache-2.0
"""What is checked in is what the protocol files and the server say now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.server import need_program


def test_the_generated_code_is_that_of_the_protocol_files_and_of_the_server() -> None:
    program = need_program()
    script = Path(__file__).resolve().parents[1] / "generate.py"
    done = subprocess.run([sys.executable, script, "--check", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
