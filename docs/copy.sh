#!/bin/sh
# Copies the documents, and the files of the project that they link to or work with, to where their links expect them.
#
#   docs/copy.sh FOLDER        (the site and the tarball of a release begin with it; the Debian package has the same)
set -eu
[ $# -eq 1 ] || { echo 'docs/copy.sh: usage: docs/copy.sh FOLDER' >&2; exit 2; }
to=$(realpath -m -- "$1")
cd "$(dirname "$0")/.."
mkdir -p "$to"
cp -r --parents ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE README.md SECURITY.md crates/si/proto deploy docs fuzz/README.md "$to/"
# By what their names end with, so that nothing goes along that was made in passing.
find clients/go -type f \( -name '*.go' -o -name 'go.*' -o -name '*.md' \) -exec cp --parents {} "$to/" \;
find clients/python/README.md clients/python/pyproject.toml clients/python/examples clients/python/src \
  -type f \( -name '*.py' -o -name '*.pyi' -o -name '*.toml' -o -name '*.md' -o -name py.typed \) -exec cp --parents {} "$to/" \;
