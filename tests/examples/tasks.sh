#!/usr/bin/env bash
# The example examples/tasks prints what its README says: the forgotten packets, of the task that drew them.
#
#   tasks.sh BUILD SOURCE
set -eu -o pipefail
build=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  [ ! -s "$scratch/transcript" ] || tail -n 40 "$scratch/transcript"
  echo "FAILED: $*"
  exit 1
}
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; fail "$*"; }; }

quietly cmake --install "$build" --prefix "$scratch/qm"
quietly cmake -G Ninja -S "$source/examples/tasks" -B "$scratch/build" -D CMAKE_BUILD_TYPE=RelWithDebInfo \
  -D CMAKE_PREFIX_PATH="$scratch/qm" --toolchain "$scratch/qm/share/quartermaster/cmake/toolchains/riscv64.cmake"
quietly cmake --build "$scratch/build"
bios=default
if grep -q qemu_virt_machine "$scratch/qm"/lib/cmake/quartermaster/quartermaster-config.cmake; then bios=none; fi
timeout 60 qemu-system-riscv64 -machine virt -bios $bios -smp 2 -nographic -no-reboot -kernel "$scratch/build/tasks.elf" \
  </dev/null >"$scratch/transcript" 2>&1 || fail "status $?"
# Indented in the README, whose last block is what is printed; ten packets are ten lines.
sed -n '/^It prints/,$s/^    //p' "$source/examples/tasks/README.md" |
  awk '/ packet of hart / { for (i = 0; i < 10; ++i) print; next } 1' >"$scratch/expected"
tr -d '\r' <"$scratch/transcript" | sed -n '/^1000 packets/,$p' >"$scratch/printed"
diff "$scratch/expected" "$scratch/printed" || fail "this is not what the README says"
echo "10 packets of the task receiver are out ($bios)"
