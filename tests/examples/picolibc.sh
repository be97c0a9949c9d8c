#!/usr/bin/env bash
# The example examples/picolibc: its output; the word that it forgets to free is found at the place of its copy; and the
# C library's own malloc is not linked.
#
#   picolibc.sh BUILD SOURCE
#
# Skipped without picolibc.
. "$(dirname "$0")/example.sh"
need_picolibc
build_for_target picolibc

# The map names each linked member, with the file that refers to it.
map=$scratch/target/picolibc.map
grep -q 'libc\.a(.*strdup' "$map" || fail "the map shows no strdup of the C library: the check itself is broken"
if grep 'libc\.a(.*malloc' "$map"; then fail "a part of the C library's malloc is linked"; fi
grep -q 'libqm_malloc\.a(c_library' "$map" || fail "malloc() is not ours"

boot -m 32M
await() { # PATTERN: a line of the transcript
  for _ in $(seq 300); do
    if printed | grep "$1" >"$scratch/found"; then return; fi
    kill -0 "$qemu" 2>/dev/null || break
    sleep 0.1
  done
  fail "no line $1"
}
await '^qm> '
for wanted in 'arena' 'cell' 'magazine' 'slab' '4 words, 5.250 bytes each' 'C++ counts 9 vowels' '1 1'; do
  printed | grep -xF "$wanted" >"$scratch/found" || fail "no line '$wanted'"
done
printf 'slab_trace print kmalloc_16\nhelp\n' >&3
await 'outstanding 1, recorded 5, dropped 0, .*: complete'
printed >"$scratch/text"
grep -q 'in strdup$' "$scratch/text" || fail "the trace does not name strdup"
grep -q 'in copy_words$' "$scratch/text" || fail "the trace does not name its caller"
grep -q 'in c_main$' "$scratch/text" || fail "the trace does not name the caller's caller"
echo "the forgotten word is found in copy_words, under strdup ($bios)"
