#!/usr/bin/env bash
# The example examples/picolibc: what it prints, the word that it forgets to free is found where it was copied, and nothing of the C
# library's own malloc is linked.
#
#   picolibc.sh BUILD SOURCE
#
# Status 77, which ctest takes for skipped, without picolibc.
set -eu -o pipefail
build=$1 source=$2
scratch=$(mktemp -d)
qemu=''
leave() {
  [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
  rm -rf "$scratch"
}
trap leave EXIT
fail() {
  [ ! -s "$scratch/transcript" ] || tail -n 60 "$scratch/transcript"
  echo "FAILED: $*"
  exit 1
}
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; fail "$*"; }; }

[ -d /usr/lib/picolibc/riscv64-unknown-elf ] || { echo "skipped: the package picolibc-riscv64-unknown-elf is missing"; exit 77; }
quietly cmake --install "$build" --prefix "$scratch/qm"
quietly cmake -G Ninja -S "$source/examples/picolibc" -B "$scratch/build" -D CMAKE_BUILD_TYPE=RelWithDebInfo \
  -D CMAKE_PREFIX_PATH="$scratch/qm" --toolchain "$scratch/qm/share/quartermaster/cmake/toolchains/riscv64.cmake"
quietly cmake --build "$scratch/build"

# The map names each member that is linked, with the file that asked for it.
map=$scratch/build/picolibc.map
grep -q 'libc\.a(.*strdup' "$map" || fail "the map shows no strdup of the C library: the check itself is broken"
if grep 'libc\.a(.*malloc' "$map"; then fail "a part of the C library's malloc is linked"; fi
grep -q 'libqm_malloc\.a(c_library' "$map" || fail "malloc() is not ours"

bios=default
if grep -q qemu_virt_machine "$scratch/qm"/lib/cmake/quartermaster/quartermaster-config.cmake; then bios=none; fi
mkfifo "$scratch/input"
exec 3<>"$scratch/input"
timeout 60 qemu-system-riscv64 -machine virt -bios $bios -m 32M -nographic -no-reboot -kernel "$scratch/build/picolibc.elf" \
  <&3 >"$scratch/transcript" 2>&1 &
qemu=$!
await() { # PATTERN: a line of the transcript
  for _ in $(seq 300); do
    if tr -d '\r' <"$scratch/transcript" | grep -q "$1"; then return; fi
    kill -0 "$qemu" 2>/dev/null || break
    sleep 0.1
  done
  fail "no line $1"
}
await '^qm> '
for wanted in 'arena' 'cell' 'magazine' 'slab' '4 words, 5.250 bytes each' 'C++ counts 9 vowels' '1 1'; do
  tr -d '\r' <"$scratch/transcript" | grep -qxF "$wanted" || fail "no line '$wanted'"
done
printf 'slab_trace print kmalloc_16\nhelp\n' >&3
await 'outstanding 1, recorded 5, dropped 0, .*: complete'
tr -d '\r' <"$scratch/transcript" >"$scratch/text"
grep -q 'in strdup$' "$scratch/text" || fail "the trace does not name strdup"
grep -q 'in copy_words$' "$scratch/text" || fail "the trace does not name its caller"
grep -q 'in c_main$' "$scratch/text" || fail "the trace does not name the caller's caller"
echo "the forgotten word is found in copy_words, under strdup ($bios)"
