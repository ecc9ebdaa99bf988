#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the messages and stubs of the protocol from its files in proto/ again, without a protoc that is installed.

python generate.py            writes src/callboard/proto
python generate.py --check    says what of it is not what would be written; exit status 1
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTOCOL = HERE.parents[1] / "proto"
PACKAGE = "callboard.proto"
FILES = ["si/v1/si.proto", "callboard/v1/callboard.proto"]
FOLDER = HERE / "src" / Path(*PACKAGE.split("."))


def generate(out: Path) -> None:
    """Writes the package into this folder."""
    command = ["protoc", f"-I{PROTOCOL}", f"-I{Path(protoc.__file__).parent / '_proto'}"]
    command += [f"--{what}={out}" for what in ("python_out", "grpc_python_out")]
    command += [f"--{what}=quiet:{out}" for what in ("mypy_out", "mypy_grpc_out")]
    if protoc.main(command + FILES) != 0:
        sys.exit("the protocol files could not be read")
    for file in sorted(out.rglob("*.py*")):
        # They expect to be found under the names of the protocol files' folders.
        text = re.sub(r"^from (si|callboard)\.v1 import ", rf"from {PACKAGE}.\1.v1 import ", file.read_text(), flags=re.MULTILINE)
        file.write_text(text)
    for folder in {out, *(file.parent for file in out.rglob("*.py")), *(file.parents[1] for file in out.rglob("*.py"))}:
        if folder.is_relative_to(out):
            (folder / "__init__.py").write_text('"""Generated from the protocol files by generate.py."""\n')


def differences() -> list[str]:
    """The files that are checked in and are not what would be written, and those that are missing."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        generate(made)
        new = {file.relative_to(made): file.read_bytes() for file in made.rglob("*.py*")}
        old = {file.relative_to(FOLDER): file.read_bytes() for file in FOLDER.rglob("*.py*") if "__pycache__" not in file.parts}
        return sorted(str(file) for file in new.keys() | old.keys() if new.get(file) != old.get(file))


def main() -> None:
    """See above."""
    if sys.argv[1:] == ["--check"]:
        if different := differences():
            sys.exit(f"not what generate.py writes: {', '.join(different)}")
    elif not sys.argv[1:]:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        generate(FOLDER)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
