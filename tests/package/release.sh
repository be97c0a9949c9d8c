#!/usr/bin/env bash
# The release archive, made by one command: release.sh BUILD COMPILER_PREFIX COMPILER_FLAGS... It must be complete,
# reproducible, and compile.
set -eu -o pipefail
build=$1 prefix=$2
shift 2
fail() {
  echo "FAILED: $*"
  exit 1
}
rm -rf "$build/release"
cmake --build "$build" --target release >/dev/null
cd "$build/release"
sha256sum -c ./*.sha256
cp ./*.sha256 once
cmake --build "$build" --target release >/dev/null
cmp once ./*.sha256 || fail "another archive from the same sources"
mkdir unpacked
tar -C unpacked -xf ./*.tar.gz
cd unpacked/quartermaster-[0-9]*
for file in quartermaster.cpp quartermaster.hpp quartermaster.h qm_port.hpp LICENSE CHANGELOG.md; do [ -s "$file" ] || fail "no $file"; done
"${prefix}g++" "$@" -std=c++20 -O0 -ffreestanding -fno-exceptions -fno-rtti -fsyntax-only quartermaster.cpp
