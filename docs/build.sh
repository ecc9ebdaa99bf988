#!/bin/sh
# Makes the documentation site, and checks that every link in it leads somewhere.
#
#   docs/build.sh [FOLDER]        (target/book by default; needs mdbook and python3)
#
# FOLDER is made anew. What is in it is deleted only where this script made it, which a file in it says.
set -eu
no() {
  printf 'docs/build.sh: %s\n' "$1" >&2
  exit 2
}
case $# in
  0) set -- '' ;;
  1)
    case $1 in
      '' | -*) no 'usage: docs/build.sh [FOLDER]' ;;
    esac
    set -- "$(realpath -m -- "$1")"
    ;;
  *) no 'usage: docs/build.sh [FOLDER]' ;;
esac
cd "$(dirname "$0")/.."
root=$(pwd -P)
out=${1:-$(realpath -m target/book)}
mark=$out/.made-by-docs-build
case "$root/" in
  "${out%/}/"*) no "$out is the project, or above it: name a folder of its own" ;;
esac
if [ -e "$out" ] && [ ! -f "$mark" ] && ! rmdir "$out" 2> /dev/null; then
  no "$out is there and was not made by this script: remove it, or name another folder"
fi
rm -rf "$out"
mkdir -p "$out/src"
: > "$mark"
# The table of contents stands at the top.
docs/copy.sh "$out/src"
sed 's#](\.\./#](#; t; s#](#](docs/#' docs/SUMMARY.md > "$out/src/SUMMARY.md"
sed 's#^src = .*#src = "src"#' docs/book.toml > "$out/book.toml"
rm -f "$out/src/docs/SUMMARY.md" "$out/src/docs/book.toml"
mdbook build "$out" --dest-dir "$out/site"
python3 docs/links.py "$out/site"
