#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what is generated again, without a protoc that is installed.

`src/callboard/proto` from the protocol files in crates/si/proto/, and `src/callboard/openapi` from what a built server
says of its doors.

python generate.py PROGRAM            writes both
python generate.py --check PROGRAM    says what of it is not what would be written; exit status 1
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

import generate_rest

HERE = Path(__file__).resolve().parent
PROTOCOL = HERE.parents[1] / "crates" / "si" / "proto"
PACKAGE = "callboard.proto"
FILES = ["si/v1/si.proto", "callboard/v1/callboard.proto"]
FOLDER = HERE / "src" / "callboard"
PARTS = ("proto", "openapi")


def generate_protocol(out: Path) -> None:
    """Writes the package into this folder."""
    command = ["protoc", f"-I{PROTOCOL}", f"-I{Path(protoc.__file__).parent / '_proto'}"]
    command += [f"--{what}={out}" for what in ("python_out", "grpc_python_out")]
    command += [f"--{what}=quiet:{out}" for what in ("mypy_out", "mypy_grpc_out")]
    # Beside this Python, which need not be the one that the shell finds.
    programs = Path(sys.executable).parent
    command += [f"--plugin={programs / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    if protoc.main(command + FILES) != 0:
        sys.exit("the protocol files could not be read")
    for file in sorted(out.rglob("*.py*")):
        # They expect to be found under the names of the protocol files' folders.
        text = re.sub(r"^from (si|callboard)\.v1 import ", rf"from {PACKAGE}.\1.v1 import ", file.read_text(), flags=re.MULTILINE)
        file.write_text(text)
    for folder in {out, *(file.parent for file in out.rglob("*.py")), *(file.parents[1] for file in out.rglob("*.py"))}:
        if folder.is_relative_to(out):
            (folder / "__init__.py").write_text('"""Generated from the protocol files by generate.py."""\n')


def generate(out: Path, program: str) -> None:
    """Writes both packages into this folder."""
    for part in PARTS:
        (out / part).mkdir()
    generate_protocol(out / "proto")
    generate_rest.generate(out / "openapi", program)


def differences(program: str) -> list[str]:
    """The files that are checked in and are not what would be written, and those that are missing."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), program)
        new, old = _files(Path(folder)), _files(FOLDER)
        return sorted(str(file) for file in new.keys() | old.keys() if new.get(file) != old.get(file))


def _files(folder: Path) -> dict[Path, bytes]:
    found = (file for part in PARTS for file in (folder / part).rglob("*.py*") if "__pycache__" not in file.parts)
    return {file.relative_to(folder): file.read_bytes() for file in found}


def main() -> None:
    """See above."""
    match sys.argv[1:]:
        case ["--check", program]:
            if different := differences(program):
                sys.exit(f"not what generate.py writes: {', '.join(different)}")
        case [program] if not program.startswith("-"):
            with tempfile.TemporaryDirectory() as folder:
                # What is there stays until all of it was made.
                generate(Path(folder), program)
                for part in PARTS:
                    shutil.rmtree(FOLDER / part, ignore_errors=True)
                    shutil.copytree(Path(folder) / part, FOLDER / part)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
