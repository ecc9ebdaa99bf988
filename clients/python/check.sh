#!/usr/bin/env bash
# Checks the Python client against a built server: style, types, tests. Usage: check.sh PROGRAM [VENV]
# Needs python3 (3.11 or newer) with venv, and a package registry where the folder VENV (target/python by default) is not there yet.
set -euo pipefail
program=$(realpath "$1")
venv=$(realpath -m "${2:-$(dirname "$0")/../../target/python}")
cd "$(dirname "$0")"

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || ! python3 -c 'import ensurepip, venv'; then
  echo "the Python client needs python3, 3.11 or newer, with venv (Debian: python3 and python3-venv)" >&2
  exit 1
fi
# Again where other versions are wanted than those that are there.
if ! cmp -s pyproject.toml "$venv/pyproject.toml"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  if ! timeout 400 "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 5 --editable '.[dev]'; then
    echo "the packages of pyproject.toml could not be installed: is there a package registry?" >&2
    exit 1
  fi
  cp pyproject.toml "$venv/"
fi
export PATH="$venv/bin:$PATH"
ruff check .
ruff format --check .
mypy
CALLBOARD_BIN=$program timeout 900 pytest --quiet -p no:cacheprovider
