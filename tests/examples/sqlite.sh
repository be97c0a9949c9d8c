#!/usr/bin/env bash
# The example examples/sqlite: its answers on the target are those on the host, it allocates 10^5 times at least, and the note that it
# forgets to free is found with the stack that made it.
#
#   sqlite.sh BUILD SOURCE
#
# Status 77, which ctest takes for skipped, without the network or picolibc.
set -eu -o pipefail
build=$1 source=$2
scratch=$(mktemp -d)
transcript=$scratch/transcript qemu=''
leave() {
  [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
  rm -rf "$scratch"
}
trap leave EXIT
fail() {
  [ ! -s "$transcript" ] || tail -n 60 "$transcript"
  echo "FAILED: $*"
  exit 1
}
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; fail "$*"; }; }

[ -d /usr/lib/picolibc/riscv64-unknown-elf ] || { echo "skipped: the package picolibc-riscv64-unknown-elf is missing"; exit 77; }
quietly cmake --install "$build" --prefix "$scratch/qm"
# The amalgamation is kept beside the build, so that one run in many needs the network.
kept=$build/sqlite.tgz
package=$(sed -n 's/^set(SQLITE_PACKAGE \([^ ]*\) .*/\1/p' "$source/examples/sqlite/CMakeLists.txt")
if [ ! -s "$kept" ]; then
  curl --fail --silent --show-error --location --max-time 120 --output "$kept.part" "$package" || {
    echo "skipped: $package cannot be had"
    exit 77
  }
  mv "$kept.part" "$kept"
fi
quietly cmake -G Ninja -S "$source/examples/sqlite" -B "$scratch/host" -D CMAKE_BUILD_TYPE=Release -D "SQLITE_PACKAGE=file://$kept"
quietly cmake --build "$scratch/host"
"$scratch/host/host" >"$scratch/expected" || fail "the workload on the host: status $?"
quietly cmake -G Ninja -S "$source/examples/sqlite" -B "$scratch/target" -D CMAKE_BUILD_TYPE=RelWithDebInfo \
  -D "SQLITE_PACKAGE=file://$kept" -D CMAKE_PREFIX_PATH="$scratch/qm" \
  --toolchain "$scratch/qm/share/quartermaster/cmake/toolchains/riscv64.cmake"
quietly cmake --build "$scratch/target"

mkfifo "$scratch/input"
exec 3<>"$scratch/input"
timeout 200 qemu-system-riscv64 -machine virt -smp 1 -m 64M -nographic -no-reboot -kernel "$scratch/target/sqlite.elf" \
  <&3 >"$transcript" 2>&1 &
qemu=$!
prompts() { tr -d '\r' <"$transcript" | grep -c '^qm> ' || true; }
typed=0
type_line() { # LINE: what it prints is in $scratch/printed
  local i
  typed=$((typed + 1))
  for ((i = 0; i < 900; ++i)); do
    if [ "$(prompts)" -ge "$typed" ]; then
      [ -n "$1" ] || break
      printf '%s\n' "$1" >&3
      type_line ''
      typed=$((typed - 1))
      tr -d '\r' <"$transcript" | awk -v line="qm> $1" '$0 == line { on = 1; next } /^qm> / { on = 0 } on' >"$scratch/printed"
      return
    fi
    kill -0 "$qemu" 2>/dev/null || break
    sleep 0.1
  done
  [ -n "$1" ] && fail "no prompt for $1"
  [ "$(prompts)" -ge "$typed" ] || fail "no prompt any more"
}

type_line 'sql run'
cmp "$scratch/expected" "$scratch/printed" || fail "the answers are not those of the host"
[ "$(wc -l <"$scratch/expected")" -ge 40 ] || fail "these are no answers"
type_line 'kmemstat'
allocations=$(awk -F: '$1 ~ /kmalloc_/ { sum += $6 } END { print sum + 0 }' "$scratch/printed")
[ "$allocations" -ge 100000 ] || fail "$allocations allocations"
type_line 'slab_trace start kmalloc_*'
type_line 'sql run'
type_line 'slab_stacks kmalloc_* top 1'
grep -q 'objects 0, bytes 0' "$scratch/printed" || fail "something is out after a run without a leak"
type_line 'sql leak'
type_line 'slab_stacks kmalloc_*'
grep -q '^stack_count: 24$' "$scratch/printed" && [ "$(grep -c '^stack_count' "$scratch/printed")" -eq 1 ] || fail "not one stack of 24"
type_line 'slab_trace print kmalloc_*'
[ "$(grep -c '^Obj ' "$scratch/printed")" -eq 24 ] || fail "not 24 objects"
# sqlite3_mprintf() as the function that forgot calls it, beneath the library's own frames.
found=$(grep -c "in sqlite3_mprintf$" "$scratch/printed" || true)
callers=$(grep -A1 'in sqlite3_mprintf$' "$scratch/printed" | grep -c 'in add_reading$' || true)
[ "$found" -eq 24 ] && [ "$callers" -eq 24 ] || fail "$callers of $found stacks name add_reading"
echo "$(wc -l <"$scratch/expected") answers equal, $allocations allocations, 24 leaks of add_reading"
