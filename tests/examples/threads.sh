#!/usr/bin/env bash
# The example examples/threads, with a package made for its own port: it prints the output in its README when threads
# are preempted at instants from a seed and all harts take turns, so that sections are certainly interrupted; and it
# works with real parallelism. Its port and its threads pass the conformance checks.
#
#   threads.sh BUILD SOURCE
. "$(dirname "$0")/example.sh"
build=$scratch/package
quietly cmake -G Ninja -S "$source" -B "$build" -D QM_PORT="$source/examples/threads/port" -D QM_TESTS=OFF -D CMAKE_BUILD_TYPE=Release \
  -D CMAKE_CXX_FLAGS_RELEASE=-O1 -D QM_UNITY=ON -D QM_PCH=ON --toolchain "$source/cmake/toolchains/riscv64.cmake"
quietly cmake --build "$build" --target qm_trace qm_conformance qm_runtime
# Parts that the example does not use are not compiled for it: empty libraries replace them.
for library in $(ninja -C "$build" -t targets all | sed -n 's/^\([^:]*\.a\): CXX_STATIC_LIBRARY.*/\1/p'); do
  [ -e "$build/$library" ] || ar cr "$build/$library"
done
build_for_target threads
bios=none

same_for_all() { sed -E 's/hart [0-9],/hart #,/; s/0x[0-9a-f]+/@/; s/[0-9]+ (switches|moves|sections|messages|given)/# \1/g'; }
# Indented in the README, whose last block is the output; the hart of a note differs between runs.
sed -n '/^It prints/,$s/^    //p' "$source/examples/threads/README.md" | same_for_all >"$scratch/expected"
[ "$(wc -l <"$scratch/expected")" -ge 10 ] || fail "the README shows no output"
run() { # options of QEMU
  boot -smp 4 -m 64M "$@"
  wait "$qemu" || fail "status $? with $*"
  qemu=''
  rm "$scratch/input"
}
seeded() { run -icount shift=0,sleep=off -device "loader,addr=0x82000000,data=$1,data-len=4"; }
harts=''
for seed in 1 2 3; do
  seeded "$seed"
  printed | same_for_all >"$scratch/printed"
  diff "$scratch/expected" "$scratch/printed" || fail "this is not what the README says, with seed $seed"
  harts+=$(printed | sed -n 's/^  note of hart \([0-9]\).*/\1/p' | sort -u | wc -l)
done
case $harts in *[2-4]*) ;; *) fail "all notes of a run are of one hart" ;; esac
# The same seed must give the same run.
printed >"$scratch/first"
seeded 3
printed | diff "$scratch/first" - || fail "seed 3 has not been repeated"
pc=$(sed -n 's/.*, allocated at \(0x[0-9a-f]*\)$/\1/p' "$scratch/first" | head -n 1)
riscv64-linux-gnu-addr2line -fie "$image" "$pc" >"$scratch/function"
grep -q write_note "$scratch/function" || fail "$pc is not in write_note()"
run
printed >"$scratch/parallel"
grep -qx 'the trace is complete, the heap is sound' "$scratch/parallel" || fail "not with real parallelism"
image=$scratch/target/check.elf
run
printed >"$scratch/checked"
grep -qx 'port: threads conform: 6 threads, 4 harts' "$scratch/checked" || fail "the port does not conform"
sed -n 's/^(\(.*\))$/\1/p' "$scratch/first"
