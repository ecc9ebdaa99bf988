#!/bin/sh
# Compares the working tree with an older state: builds both in release and runs shapes with each in turn.
#
#   benches/compare.sh [REVISION] [OPTION OF bench …]
#
# Without a revision: the newest tag, which is the last release; without shapes: S0, S1, S5, S8 and S11 at core depth.
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in
  '' | -*) revision=$(git describe --tags --abbrev=0 2>/dev/null) || { echo "there is no release yet: name a revision" >&2; exit 2; } ;;
  *) revision=$1; shift ;;
esac
[ $# -gt 0 ] || set -- --shape S0 --shape S1 --shape S5 --shape S8 --shape S11
commit=$(git rev-parse --verify --quiet "$revision^{commit}") || { echo "there is no revision $revision" >&2; exit 2; }
target=$(cargo metadata --no-deps --format-version 1 --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
# Kept for the next comparison with the same state.
other=$target/compare/$commit
if ! [ -x "$other/callboard" ]; then
  work=$(mktemp -d)
  trap 'git worktree remove --force "$work/tree" 2>/dev/null; rm -rf "$work"' EXIT
  git worktree add --quiet --detach "$work/tree" "$commit"
  CARGO_TARGET_DIR=$work/target cargo build --release --locked --manifest-path "$work/tree/Cargo.toml"
  mkdir -p "$other"
  cp "$work/target/release/callboard" "$other/"
fi
cargo build --release --locked
exec "$target/release/callboard" bench --compare "$other/callboard" "$@"
