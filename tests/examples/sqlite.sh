#!/usr/bin/env bash
# The example examples/sqlite: its answers on the target are those on the host, it allocates at least 10^5 times, the
# notes that it forgets to free are found without a trace and, with one, by the stack that allocated them, and it survives
# each allocation of two size classes that fails.
#
#   sqlite.sh BUILD SOURCE
#
# Skipped without the network or picolibc.
. "$(dirname "$0")/example.sh"
need_picolibc
# The amalgamation is kept next to the build, so that only the first run needs the network.
kept=$build/sqlite.tgz
package=$(sed -n 's/^set(SQLITE_PACKAGE \([^ ]*\) .*/\1/p' "$source/examples/sqlite/CMakeLists.txt")
if [ ! -s "$kept" ]; then
  curl --fail --silent --show-error --location --max-time 120 --output "$kept.part" "$package" || skip "$package cannot be had"
  mv "$kept.part" "$kept"
fi
quietly cmake -G Ninja -S "$source/examples/sqlite" -B "$scratch/host" -D CMAKE_BUILD_TYPE=Release -D "SQLITE_PACKAGE=file://$kept"
quietly cmake --build "$scratch/host"
"$scratch/host/host" >"$scratch/expected" || fail "the workload on the host: status $?"
build_for_target sqlite -D "SQLITE_PACKAGE=file://$kept"

boot -smp 1 -m 64M
type_line() { # LINE: what it prints is in $scratch/answer
  type_lines "$1"
  await_prompt
  printed | awk -v line="qm> $1" '$0 == line { on = 1; next } /^qm> / { on = 0 } on' >"$scratch/answer"
}

type_line 'sql run'
cmp "$scratch/expected" "$scratch/answer" || fail "the answers are not those of the host"
[ "$(wc -l <"$scratch/expected")" -ge 40 ] || fail "these are no answers"
type_line 'kmemstat -v'
allocations=$(awk -F: '$1 ~ /kmalloc_/ { sum += $6 } END { print sum + 0 }' "$scratch/answer")
[ "$allocations" -ge 100000 ] || fail "$allocations allocations"
# Without a trace. The scan finds all 24 notes, stopped or beside the running system, and nothing before.
leaks() { sed -nE 's/^findleaks: leaks ([0-9]+), objects ([0-9]+), .*: complete$/\1 \2/p' "$scratch/answer" | tail -n 1; } # of the last scan
type_line 'findleaks'
[ "$(leaks)" = '0 0' ] || fail "findleaks after a run without a leak: $(leaks)"
type_line 'sql leak'
for how in '' ' sliced'; do
  type_line "findleaks$how"
  [ "$(leaks)" = '24 24' ] || fail "findleaks$how: $(leaks) of 24"
done
type_line 'slab_trace start kmalloc_*'
type_line 'sql run'
type_line 'slab_stacks kmalloc_* top 1'
grep -q 'objects 0, bytes 0' "$scratch/answer" || fail "something is out after a run without a leak"
type_line 'sql leak'
type_line 'slab_stacks kmalloc_*'
grep -q '^stack_count: 24$' "$scratch/answer" && [ "$(grep -c '^stack_count' "$scratch/answer")" -eq 1 ] || fail "not one stack of 24"
type_line 'slab_trace print kmalloc_*'
[ "$(grep -c '^Obj ' "$scratch/answer")" -eq 24 ] || fail "not 24 objects"
# The function that forgot called sqlite3_mprintf(), below the library's own frames.
found=$(grep -c "in sqlite3_mprintf$" "$scratch/answer" || true)
callers=$(grep -A1 'in sqlite3_mprintf$' "$scratch/answer" | grep -c 'in add_reading$' || true)
[ "$found" -eq 24 ] && [ "$callers" -eq 24 ] || fail "$callers of $found stacks name add_reading"
echo "$(wc -l <"$scratch/expected") answers equal, $allocations allocations, 24 leaks of add_reading"

# Each allocation of two classes fails, once and for good: SQLite reports it, and loses nothing. (All 26 classes: 3 minutes.)
"$source/qm" sweep --timeout 20 --harts 1 --image "$image" --caches 'kmalloc_4[06]*' 'sql few' >"$scratch/swept" 2>&1 || fail "$(cat "$scratch/swept")"
for mode in nth from; do
  grep -Eq "^kmalloc_4656 $mode: [4-9][0-9] runs, [0-9]+ error$" "$scratch/swept" || fail "$(cat "$scratch/swept")"
done
tail -n 1 "$scratch/swept"
