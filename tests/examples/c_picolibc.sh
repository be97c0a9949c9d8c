#!/usr/bin/env bash
# The starter of examples/c_picolibc, copied and built according to its README: c_picolibc.sh SOURCE XLEN. It finds the
# lost word; an image with picolibc's own malloc() is not made. Skipped without picolibc.
set -eu -o pipefail
source=$(cd "$1" && pwd) xlen=$2
scratch=$(mktemp -d)
# shellcheck source=tests/support/board.sh
. "$source/tests/support/board.sh"
trap 'leave; rm -rf "$scratch"' EXIT
[ -d /usr/lib/picolibc/riscv64-unknown-elf ] || skip "the package picolibc-riscv64-unknown-elf is missing"
cp -r "$source/examples/c_picolibc" "$scratch/firmware"
cd "$scratch/firmware"
image=build/$xlen/firmware.elf
quietly make XLEN="$xlen" QM="$source"
boot_image "$xlen" "$image" -m 128M -bios none -monitor none -serial stdio
type_lines words 'slab_trace start kmalloc_16' words 'slab_trace print kmalloc_16' verify
await_prompt
printed >said
grep -q '^a block of 100 bytes has 1[0-9][0-9]$' said || fail "the allocator did not start before main()"
grep -xq 'magazine' said || fail "the words are not printed"
[ "$(grep -c '^Obj ' said)" -eq 1 ] || fail "one word is lost"
grep -q '^verify: .* faults 0: complete' said || fail "verify"
stack=$(sed -nE 's/^#[0-9]+ \[<(0x[0-9a-f]+)>\].*/\1/p' said | while read -r pc; do
  printf '%s ' "$(riscv64-linux-gnu-addr2line -f -e "$image" "$(printf '0x%x' $((pc - 1)))" | head -n 1)"
done)
[[ $stack == 'strdup on_command '* ]] || fail "the stack is $stack"

# Without the functions of malloc.c the linker takes those of the C library.
rm "$image"
if make XLEN="$xlen" QM="$source" OBJECTS="$(printf "build/$xlen/%s.o " main board allocator quartermaster)" >log 2>&1; then
  fail "an image with the C library's malloc() is made"
fi
grep -q 'libc\.a(.*malloc' log && [ ! -e "$image" ] || fail "not because of malloc(): $(tail -n 3 log)"
echo "the lost word is found below strdup(), RV$xlen"
