#!/bin/sh
# Makes the release archive: cmake/release.sh DIRECTORY, or `cmake --build build/PRESET --target release`.
#
# Writes quartermaster-VERSION.tar.gz with the single-file form, its headers, a port template, the licence and the
# changelog, and quartermaster-VERSION.sha256 beside it. The same sources produce the same bytes.
set -eu
[ $# -eq 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
version=$(awk '$2 ~ /^QM_VERSION_(MAJOR|MINOR|PATCH)$/ { printf "%s%s", dot, $3; dot = "." }' alloc/include/qm/version.h)
name=quartermaster-$version
rm -rf "$target/$name"
sh cmake/single-file.sh "$target/$name"
cp LICENSE CHANGELOG.md docs/embedding.md docs/options.md docs/small-memory.md "$target/$name"
cd "$target"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='2000-01-01 00:00Z' --mode=u=rwX,go=rX -cf - "$name" | gzip -9n >"$name.tar.gz"
sha256sum "$name.tar.gz" >"$name.sha256"
echo "$target/$name.tar.gz"
