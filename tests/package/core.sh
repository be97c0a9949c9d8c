#!/usr/bin/env bash
# The core (QM_FULL=OFF) in a firmware of its own: core.sh SOURCE COMPILER_PREFIX XLEN ARCHIVE|trace COMPILER_FLAGS...
#
# The firmware of tests/package/core runs in QEMU. main.c is linked with the single-file form and with the archive, and what the allocator
# takes of either image is at most 8 KiB. For `trace` it is leak.c with the single-file form - archives ask their own port where stacks lie -,
# which prints who holds what: that has to be what it lost, with the functions that did, in at most 16 KiB.
set -eu -o pipefail
source=$(cd "$1" && pwd) prefix=$2 xlen=$3 archive=$4
shift 4
form=(--core) most=8192 program=main says='the core works' flags=("$@")
if [ "$archive" = trace ]; then
  form+=(--trace) most=16384 program=leak says='the trace works'
  flags+=(-fno-omit-frame-pointer -fno-optimize-sibling-calls)
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sh "$source/cmake/single-file.sh" "${form[@]}" "$scratch" >/dev/null
cp "$source"/tests/package/core/* "$scratch"
cd "$scratch"
flags+=(-Os -ffreestanding -ffunction-sections -fdata-sections -mcmodel=medany -fno-pie -fno-stack-protector
  -fno-asynchronous-unwind-tables)
"${prefix}gcc" "${flags[@]}" -std=c99 -Wall -Wextra -Werror -pedantic-errors -c "$program.c" board.c
"${prefix}gcc" "${flags[@]}" -c start.S
"${prefix}g++" "${flags[@]}" -std=c++20 -Wall -Wextra -Werror -fno-exceptions -fno-rtti -fno-threadsafe-statics -ftls-model=local-exec \
  -c quartermaster.cpp
[ "$("${prefix}nm" -u "$program.o" | grep -c ' malloc$')" -eq 0 ]

# The functions of each object's stack, a line an object, against what the program has lost.
check_leaks() {
  sed -n 's/^leaked //p' log >lost
  sed -n 's/^Obj \(0x[0-9a-f]*\), .*/\1/p' log >shown
  [ "$(wc -l <lost)" -eq 8 ]
  diff lost shown
  sed -nE 's/^#[0-9]+ \[<(0x[0-9a-f]+)>\]$/\1/p; s/^$/-/p' log | while read -r pc; do
    # A return address lies behind its call.
    if [ "$pc" = - ]; then echo; else printf '%s ' "$("${prefix}addr2line" -f -e image.elf "$(printf '0x%x' $((pc - 1)))" | head -n 1)"; fi
  done | sed 's/__text_start/_start/' >stacks  # the linker's name for the same place
  sort stacks | uniq -c | tee /dev/stderr | diff - <(printf '%7d %s\n' 5 'new_packet checksum_error receive board_main _start ' 3 'write_log board_main _start ')
  grep '^Obj ' log | sed 's/.*, size //' | sort | uniq -c | diff - <(printf '%7d %s\n' 1 '107, from hart 0:' 1 '127, from hart 0:' 1 '147, from hart 0:' 5 '200, from hart 0:')
  grep -q '^outstanding 8, recorded 150, dropped 0: complete' log
}

run() { # what objects...
  what=$1
  shift
  "${prefix}gcc" "${flags[@]}" -nostdlib -static -no-pie -Wl,--gc-sections -Wl,--no-warn-rwx-segments -T firmware.ld -Wl,-Map,image.map \
    start.o "$program.o" board.o "$@" -o image.elf
  timeout --kill-after=5 60 "qemu-system-riscv$xlen" -machine virt -m 16M -nographic -monitor none -serial stdio -bios none \
    -kernel image.elf </dev/null | tee log
  grep -q "^$says" log
  [ "$program" != leak ] || check_leaks
  text=$("${prefix}nm" -S image.elf | awk '$3 ~ /^[tTwW]$/ && $4 ~ /^(_ZNK?2qm|_ZN[A-Z]*2qm|_ZT|_ZZ|qm_)/ { print $2 }' | while read -r hex; do echo $((16#$hex)); done |
    awk '{ sum += $1 } END { print sum + 0 }')
  echo "$what: $text bytes of the allocator's functions in the image"
  [ "$text" -gt 2000 ] && [ "$text" -le "$most" ]
}
run "single-file form" quartermaster.o
[ "$archive" = trace ] || run archive "$archive"
