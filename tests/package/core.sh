#!/usr/bin/env bash
# The core (QM_FULL=OFF) in a firmware of its own: core.sh SOURCE COMPILER_PREFIX XLEN ARCHIVE COMPILER_FLAGS...
#
# The firmware of tests/package/core runs in QEMU, linked with the single-file form and with the archive, and what the allocator takes
# of either image is at most 8 KiB.
set -eu -o pipefail
source=$(cd "$1" && pwd) prefix=$2 xlen=$3 archive=$4
shift 4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sh "$source/cmake/single-file.sh" --core "$scratch" >/dev/null
cp "$source"/tests/package/core/* "$scratch"
cd "$scratch"
flags=("$@" -Os -ffreestanding -ffunction-sections -fdata-sections -mcmodel=medany -fno-pie -fno-stack-protector
  -fno-asynchronous-unwind-tables)
"${prefix}gcc" "${flags[@]}" -std=c99 -Wall -Wextra -Werror -pedantic-errors -c main.c
"${prefix}gcc" "${flags[@]}" -c start.S
"${prefix}g++" "${flags[@]}" -std=c++20 -Wall -Wextra -Werror -fno-exceptions -fno-rtti -fno-threadsafe-statics -ftls-model=local-exec \
  -c quartermaster.cpp
[ "$("${prefix}nm" -u main.o | grep -c ' malloc$')" -eq 0 ]
run() { # what objects...
  what=$1
  shift
  "${prefix}gcc" "${flags[@]}" -nostdlib -static -no-pie -Wl,--gc-sections -Wl,--no-warn-rwx-segments -T firmware.ld -Wl,-Map,image.map \
    start.o main.o "$@" -o image.elf
  timeout --kill-after=5 60 "qemu-system-riscv$xlen" -machine virt -m 16M -nographic -monitor none -serial stdio -bios none \
    -kernel image.elf </dev/null | tee log
  grep -q '^the core works' log
  text=$("${prefix}nm" -S image.elf | awk '$3 ~ /^[tTwW]$/ && $4 ~ /^(_ZNK?2qm|_ZN[A-Z]*2qm|qm_)/ { print $2 }' | while read -r hex; do echo $((16#$hex)); done |
    awk '{ sum += $1 } END { print sum + 0 }')
  echo "$what: $text bytes of the allocator's functions in the image"
  [ "$text" -gt 2000 ] && [ "$text" -le 8192 ]
}
run "single-file form" quartermaster.o
run archive "$archive"
