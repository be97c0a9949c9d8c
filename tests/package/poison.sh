#!/usr/bin/env bash
# Bad accesses that AddressSanitizer and valgrind report in a checking build: poison.sh ASAN ASAN_ALL PLAIN, the same
# program compiled with -fsanitize=address, with the allocator compiled so too, and without.
set -eu -o pipefail
asan=$1 asan_all=$2 plain=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $*"
  cat "$scratch/log"
  exit 1
}
# check WHAT REPORT COMMAND...: each case ends with a report, and a correct run with none.
check() {
  local what=$1 report=$2 name
  shift 2
  "$@" >"$scratch/log" 2>&1 || fail "$what: a correct program"
  for name in freed constructed overflow requested block; do
    ! "$@" "$name" >"$scratch/log" 2>&1 || fail "$what: $name is not found"
    grep -q "$report" "$scratch/log" || fail "$what: $name ends otherwise"
  done
}
check AddressSanitizer use-after-poison "$asan"
check "AddressSanitizer with the allocator" use-after-poison "$asan_all"
command -v valgrind >/dev/null || { echo "no valgrind"; exit 77; }
check valgrind 'Invalid \(read\|write\) of size 1' valgrind -q --error-exitcode=9 "$plain"
