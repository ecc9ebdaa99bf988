#!/bin/sh
# Makes what is given out, in target/release-files: for each target a tarball with the program, its files and documents, and beside
# it the debug symbols; the Debian package, a list of all components (SBOM, CycloneDX), and checksums.
#
#   deploy/release.sh [TARGET …]       (this machine's by default, and aarch64 where Debian's gcc-aarch64-linux-gnu is installed)
#
# Other targets need a linker, named as cargo wants it: CARGO_TARGET_…_LINKER. What is missing of cargo-deb and cargo-cyclonedx is said,
# and left out.
set -eu
# For everybody to read, whoever makes it.
umask 022
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
arm=aarch64-unknown-linux-gnu
if [ $# -eq 0 ]; then
  set -- "$host"
  if [ "$host" != "$arm" ] && command -v aarch64-linux-gnu-gcc >/dev/null; then
    set -- "$host" "$arm"
  fi
fi
if command -v aarch64-linux-gnu-gcc >/dev/null; then
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-aarch64-linux-gnu-gcc}"
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
out=target/release-files
rm -rf "$out"
mkdir -p "$out"
# For the debug symbols: lines beside the names of functions.
export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
# Which of the builds of a version it is: `callboard --version` says so, and the first line of the log.
CALLBOARD_COMMIT="${CALLBOARD_COMMIT:-$(git rev-parse --short=12 HEAD 2>/dev/null || true)}"
export CALLBOARD_COMMIT
for target in "$@"; do
  case $target in
    "$host") objcopy=objcopy ;;
    aarch64-*) objcopy=aarch64-linux-gnu-objcopy ;;
    *) objcopy=llvm-objcopy ;;
  esac
  if [ "$target" != "$host" ] && command -v rustup >/dev/null; then
    rustup target add "$target"
  fi
  cargo build --release --locked --target "$target"
  name=callboard-$version-$target
  folder=$out/$name
  mkdir -p "$folder"
  built=${CARGO_TARGET_DIR:-target}/$target/release/callboard
  # The program without its symbols knows where they are.
  "$objcopy" --only-keep-debug "$built" "$out/$name.debug"
  "$objcopy" --strip-all --add-gnu-debuglink="$out/$name.debug" "$built" "$folder/callboard"
  docs/copy.sh "$folder"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -C "$out" -czf "$out/$name.tar.gz" "$name"
  if cargo deb --version >/dev/null 2>&1; then
    # The stripped one: the tools of this machine do not know programs of others. Not written over the built one, of which cargo
    # keeps a hard link: the next run would find no symbols in it.
    cp --remove-destination "$folder/callboard" "$built"
    cargo deb --quiet --no-build --no-strip --target "$target" --output "$out/"
  else
    echo "no Debian package: cargo install cargo-deb" >&2
  fi
  rm -rf "$folder"
  gzip -nf "$out/$name.debug"
done
if cargo cyclonedx --version >/dev/null 2>&1; then
  cargo cyclonedx --quiet --format json --all
  mv callboard.cdx.json "$out/callboard-$version.cdx.json"
  find . -name '*.cdx.json' -not -path './target/*' -delete
else
  echo "no list of components: cargo install cargo-cyclonedx" >&2
fi
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum > SHA256SUMS)
ls -l "$out"
