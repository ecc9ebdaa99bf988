#!/usr/bin/env bash
# What building the program costs, from nothing: processor time in all, and of each crate.
#
#   benches/build.sh [ARGUMENT …]        (of cargo build; --release by default)
#
# It builds in a folder of its own, which it removes, so nothing that was built before counts. Figures are seconds of processor time, which other
# work on the machine changes less than the time of the clock. docs/building.md has some.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- --release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo fetch --locked --quiet
cat > "$folder/rustc" <<'END'
#!/usr/bin/env bash
name=- before=
for word in "$@"; do
  [ "$before" = --crate-name ] && name=$word
  before=$word
done
TIMEFORMAT="%U %S $name"
# The words of the compiler go where they always do, those of `time` into the list.
{ time "$@" 2>&3; } 3>&2 2>> "$BUILD_COST_LIST"
END
chmod +x "$folder/rustc"
export BUILD_COST_LIST=$folder/list RUSTC_WRAPPER=$folder/rustc CARGO_TARGET_DIR=$folder/target
TIMEFORMAT='in all: %U s user, %S s system, %R s by the clock'
time cargo build --locked --quiet "$@"
echo
echo 'seconds  crate'
awk '$3 != "-" { of[$3] += $1 + $2 } END { for (crate in of) printf "%7.1f  %s\n", of[crate], crate }' "$BUILD_COST_LIST" | sort -rn | head -n 30
