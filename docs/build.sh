#!/bin/sh
# Makes the documentation site, and checks that every link in it leads somewhere.
#
#   docs/build.sh [FOLDER]        (target/book by default; needs mdbook and python3)
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-target/book}")
rm -rf "$out"
mkdir -p "$out/src"
# The pages and what they link to, where the links expect it; the table of contents stands at the top.
cp -r README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md LICENSE docs deploy fuzz "$out/src/"
cp -r --parents crates/si/proto "$out/src/"
find clients \( -name README.md -o -path "*/examples/*.py" \) -exec cp --parents {} "$out/src/" \;
sed 's#](\.\./#](#; t; s#](#](docs/#' docs/SUMMARY.md > "$out/src/SUMMARY.md"
sed 's#^src = .*#src = "src"#' docs/book.toml > "$out/book.toml"
rm -f "$out/src/docs/SUMMARY.md" "$out/src/docs/book.toml"
mdbook build "$out" --dest-dir "$out/site"
python3 docs/links.py "$out/site"
