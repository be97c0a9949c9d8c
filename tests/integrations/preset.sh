#!/usr/bin/env bash
# Tests of a preset that ./test does not build: preset.sh BUILD SOURCE PRESET TEST-REGEX
#
# Builds the targets that the matching tests of PRESET need, and runs these tests. Warnings are errors. clang-... means
# Clang and lld instead of GCC and ld.
set -eu -o pipefail
build=$1/integrations/$3 source=$2 preset=$3 tests=$4
case $preset in
  clang-*) programs=(clang-19 clang++-19 ld.lld-19) ;;
  *) programs=() ;;
esac
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || { echo "skipped: $program is missing: apt install clang-19 lld-19"; exit 77; }
done
mkdir -p "$build"
scratch=$build
# shellcheck source=tests/support/board.sh
. "$source/tests/support/board.sh"
cd "$source"
quietly cmake --preset "$preset" -B "$build"
mapfile -t targets < <(awk -v tests="$tests" '$1 ~ tests' "$build/tests.txt" | cut -d' ' -f2- | tr ' ' '\n' | grep -v / | sed '/^$/d' | sort -u)
[ "$(awk -v tests="$tests" '$1 ~ tests' "$build/tests.txt" | wc -l)" -ge 4 ] || fail "few tests match $tests"
if [ "$preset" = clang-rv64 ]; then targets+=(quartermaster); fi
quietly cmake --build "$build" -j 2 --target "${targets[@]}"
quietly ctest --test-dir "$build" -j 2 -R "$tests" --output-on-failure
grep -E 'tests passed' "$build/log"
if [ "$preset" = clang-rv64 ]; then
  # The demo knows its commands, which lld has kept, and its stacks have names.
  boot_image 64 "$build/firmware/demo/quartermaster.elf" -smp 2 -m 128M -monitor none -serial stdio
  type_lines 'slab_trace start packet' 'workload run leak 100' 'slab_trace print packet' poweroff
  wait "$qemu" || fail "the demo ended with status $?"
  qemu=''
  for name in packet_alloc rx_checksum_error rx_deliver; do
    printed | grep -E "^#0[0-9] .* in $name" >"$build/found" || fail "no $name in the stacks"
  done
  echo "$(wc -l <"$build/found") stacks of the demo"
fi
