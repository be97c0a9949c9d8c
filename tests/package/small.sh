#!/usr/bin/env bash
# The single-file form in a firmware in C of its own, for one hart: small.sh firmware|little|leak|picolibc SOURCE COMPILER_PREFIX XLEN LIBGCC COMPILER_FLAGS...
#
# The firmware of tests/package/small runs in QEMU. `leak` has the trace and prints the holders of memory: these must be
# the objects that it lost, with the functions that lost them. The allocator's bytes in either image are limited.
# GDB's commands must print the same objects. `little` has the least memory for a heap, 2 KB on RV32 and 2.5 KB on
# RV64. `picolibc` is `leak` with picolibc's own start and linker script, which defines the end of the text but not its
# start: each stack ends where the program began.
set -eu -o pipefail
program=$1 source=$(cd "$2" && pwd) prefix=$3 xlen=$4 libgcc=$5
shift 5
most=43520 says='the allocator works' flags=("$@")
if [ "$program" = leak ] || [ "$program" = picolibc ]; then
  most=71168 says='the trace works'
  flags+=(-g -fno-omit-frame-pointer -fno-optimize-sibling-calls)
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
case $program in
  firmware) form=(--no-magazines) ;;
  little)
    form=(--no-magazines --page-bytes 512)
    flags+=("-DLITTLE_BYTES=$((1536 + 16 * xlen))")
    ;;
  leak) form=(--no-magazines --page-bytes 512 --alignment $((xlen / 8))) ;;
  picolibc) form=() ;;
esac
sh "$source/cmake/single-file.sh" "${form[@]}" "$scratch" >/dev/null
cp "$source"/tests/package/small/* "$scratch"
cd "$scratch"
start=start.o
linking=(-T firmware.ld)
libraries=("$libgcc")
if [ "$program" = picolibc ]; then
  picolibc=/usr/lib/picolibc/riscv64-unknown-elf/lib
  multilib=$picolibc/release/rv${xlen}imafdc/lp64d
  [ -f "$multilib/crt0.o" ] || { echo "skipped: the package picolibc-riscv64-unknown-elf is missing"; exit 77; }
  program=leak most=98304
  start=$multilib/crt0.o
  linking=(-T "$picolibc/picolibc.ld" -Wl,--defsym=__flash=0x80000000,--defsym=__flash_size=1M,--defsym=__ram=0x80200000,--defsym=__ram_size=2M,--defsym=__stack_size=64K)
  libraries=(-Wl,--start-group "$multilib/libc.a" "$libgcc" -Wl,--end-group)
  printf '#include "board.h"\nint main(void) {\n  board_main();\n  return 0;\n}\n' >>leak.c
  # The stack lies between the heap and the end of memory.
  sed -i 's/__stack_start/__heap_end/g; s/__stack_end/__stack/g' qm_port.hpp
fi
flags+=(-Os -ffreestanding -ffunction-sections -fdata-sections -mcmodel=medany -fno-pie -fno-stack-protector
  -fno-asynchronous-unwind-tables)
"${prefix}gcc" "${flags[@]}" -std=c99 -Wall -Wextra -Werror -pedantic-errors -c "$program.c" board.c
"${prefix}gcc" "${flags[@]}" -c start.S
"${prefix}g++" "${flags[@]}" -std=c++20 -Wall -Wextra -Werror -Wno-error=stringop-overflow -fno-exceptions -fno-rtti -fno-threadsafe-statics \
  -ftls-model=local-exec -c quartermaster.cpp
[ "$("${prefix}nm" -u "$program.o" | grep -c ' malloc$')" -eq 0 ]
"${prefix}gcc" "${flags[@]}" -nostdlib -static -no-pie -Wl,--gc-sections -Wl,--no-warn-rwx-segments,--build-id=none "${linking[@]}" \
  "$start" "$program.o" board.o quartermaster.o "${libraries[@]}" -o image.elf
timeout --kill-after=5 60 "qemu-system-riscv$xlen" -machine virt -m 16M -nographic -monitor none -serial stdio -bios none \
  -kernel image.elf </dev/null | tee log
grep -q "^$says" log
text=$("${prefix}nm" -S image.elf | awk '$3 ~ /^[tTwW]$/ && $4 ~ /^(_ZNK?2qm|_ZN[A-Z]*2qm|_ZT|_ZZ|qm_)/ { print $2 }' | while read -r hex; do echo $((16#$hex)); done |
  awk '{ sum += $1 } END { print sum + 0 }')
echo "$text bytes of the allocator's functions in the image"
[ "$text" -gt 2000 ] && [ "$text" -le "$most" ]
[ "$program" = leak ] || exit 0

# The functions of each object's stack, one line for each object, compared with the losses of the program.
sed -n 's/^leaked //p' log >lost
sed -n 's/^Obj \(0x[0-9a-f]*\), .*/\1/p' log >shown
[ "$(wc -l <lost)" -eq 8 ]
diff lost shown
sed -nE 's/^#[0-9]+ \[<(0x[0-9a-f]+)>\]$/\1/p; s/^$/-/p' log | while read -r pc; do
  # A return address lies behind its call.
  if [ "$pc" = - ]; then echo; else printf '%s ' "$("${prefix}addr2line" -f -e image.elf "$(printf '0x%x' $((pc - 1)))" | head -n 1)"; fi
done | sed 's/__text_start/_start/' >stacks  # the linker's name for the same address
below='board_main _start '
if [ "$start" != start.o ]; then
  # The image does not mark the allocator's functions.
  sed -Ei 's/(_Z[^ ]*N2qm[^ ]*|_ZNK2qm[^ ]*|qm_[^ ]*) //g' stacks
  below='board_main main __start '
fi
sort stacks | uniq -c | tee /dev/stderr | diff - <(printf '%7d %s\n' 5 "new_packet checksum_error receive $below" 3 "write_log $below")
grep '^Obj ' log | sed 's/.*, size //' | sort | uniq -c | diff - <(printf '%7d %s\n' 1 '107, from hart 0:' 1 '127, from hart 0:' 1 '147, from hart 0:' 5 '200, from hart 0:')
grep -q '^outstanding 8, recorded 150, dropped 0: complete' log

command -v gdb-multiarch >/dev/null || exit 0
timeout --kill-after=5 60 "qemu-system-riscv$xlen" -machine virt -m 16M -display none -monitor none -serial null -bios none -kernel image.elf \
  -S -gdb unix:gdb,server=on,wait=off &
until [ -S gdb ]; do sleep 0.1; done
verbs=(caches 'traces *' free kmemstat findleaks "whatis $(head -n 1 lost)")
commands=(-ex "source $source/host/gdb/quartermaster.py" -ex 'target remote gdb' -ex 'break board_done' -ex continue)
for verb in "${verbs[@]}"; do commands+=(-ex "qm $verb"); done
gdb-multiarch -q -nx -batch -ex 'set width 0' -ex 'set height 0' "${commands[@]}" -ex 'monitor quit' image.elf >said 2>&1 || true
wait
sed -n 's/^Obj \(0x[0-9a-f]*\), .*/\1/p' said | sort -u | diff <(sort lost) -
grep -qE '^Nr in use: 5$' said
grep -qE '^findleaks: leaks [1-9][0-9]*, .*: complete$' said
grep -qE "^cache packet: object $(head -n 1 lost) [+] 0, in use$" said || grep -qE "^arena kheap: segment $(head -n 1 lost) [+] 0$" said
if grep -E 'Python Exception|Error occurred' said; then exit 1; fi
