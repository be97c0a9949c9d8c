#!/usr/bin/env bash
# integrations/freertos over the kernel's sources: freertos.sh BUILD SOURCE XLEN
#
# Builds the example and the images of tests/integrations/freertos, and runs them in QEMU: the leak of docs/freertos.md
# is found, the heap's figures agree with a model, and bad input is answered as the guide says.
set -eu -o pipefail
build=$1 source=$2 xlen=$3
work=$build/integrations/freertos-rv$xlen
scratch=$work
mkdir -p "$work"
# shellcheck source=tests/support/board.sh
. "$source/tests/support/board.sh"
# shellcheck source=tests/integrations/third_party.sh
. "$source/tests/integrations/third_party.sh"

unpack_third_party freertos-kernel 'the kernel FreeRTOS' \
  'git clone https://github.com/FreeRTOS/FreeRTOS-Kernel && tar --zstd -cf freertos-kernel.tar.zst FreeRTOS-Kernel'
images='model deleted above small regions hart_locals no_frames'
# RV32 has the example's options for small heaps, RV64 the library's defaults.
options=()
if [ "$xlen" = 64 ]; then options=(-D QM_MAGAZINES=ON -D QM_PAGE_BYTES=4096); fi
launcher=()
if command -v ccache >/dev/null; then launcher=(-D CMAKE_C_COMPILER_LAUNCHER=ccache -D CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
quietly cmake -G Ninja -S "$source/tests/integrations/freertos" -B "$work/build" -D CMAKE_BUILD_TYPE=RelWithDebInfo \
  --toolchain "$source/cmake/toolchains/riscv$xlen.cmake" -D FREERTOS_KERNEL_PATH="$work/FreeRTOS-Kernel" \
  -D CMAKE_C_FLAGS_RELWITHDEBINFO='-O2 -g1 -DNDEBUG' -D CMAKE_CXX_FLAGS_RELWITHDEBINFO='-O2 -g1 -DNDEBUG' \
  -D QM_UNITY=ON -D QM_PCH=ON "${options[@]}" "${launcher[@]}"
# shellcheck disable=SC2086 # a list
quietly cmake --build "$work/build" --target firmware $images
firmware=$work/build/example/firmware.elf

# ---- the linked symbols
riscv64-linux-gnu-nm "$firmware" >"$work/symbols"
grep -q ' pvPortMalloc$' "$work/symbols" || fail "the image has no heap: the check itself is broken"
if grep -E ' (ucHeap$|prvHeapInit|prvInsertBlock)' "$work/symbols" | grep -v ' ucHeap$'; then fail "a heap of the kernel's is in the image"; fi
if grep -oE 'heap_[1-5][.]c' "$work/build/example/firmware.map"; then fail "a heap of the kernel's is in the image"; fi

# ---- images that end by themselves
run() { # IMAGE WANTED-LINE STATUS [options of QEMU]
  local image=$1 wanted=$2 status=$3 got=0
  shift 3
  timeout --kill-after=5 200 "qemu-system-riscv$xlen" -machine virt -m 32M -bios none -nographic -monitor none -serial stdio \
    -kernel "$work/build/$image.elf" "$@" </dev/null >"$transcript" 2>&1 || got=$?
  [ "$got" -eq "$status" ] || fail "$image: status $got"
  tr -d '\r' <"$transcript" | grep "^$wanted" || fail "$image does not say: $wanted"
}
icount=(-icount 'shift=2,sleep=off')
run model "the figures are the model's" 0 "${icount[@]}"
run deleted 'tasks were deleted while they were traced' 0 "${icount[@]}"
run above 'calls above the mask level were served or refused' 0 -smp 2
run small 'the heap is too small' 0 "${icount[@]}"
run regions 'regions are served or refused' 0 "${icount[@]}"
run hart_locals "tp does not point at the image's TLS segment" 1 "${icount[@]}"

# ---- the console
boot() { boot_image "$xlen" "$1" -m 32M -bios none -monitor none -serial stdio; }
quit() {
  type_lines quit
  wait "$qemu" || fail "QEMU ended with status $?"
  qemu=''
}
# The functions of the stacks, one line for each stack.
functions() {
  sed -nE 's/^(#[0-9]+ \[<| )?(0x[0-9a-f]{8,16})(>\].*)?$/\2/p; s/^$/-/p' | while read -r pc; do
    if [ "$pc" = - ]; then echo; else printf '%s ' "$(riscv64-linux-gnu-addr2line -f -e "$firmware" "$(printf '0x%x' $((pc - 1)))" | head -n 1)"; fi
  done | grep .
}

boot "$firmware"
type_lines 'slab_trace start kmalloc' radio 'slab_trace print kmalloc' 'kmausers -b by task' 'mark m' radio 'expect m' verify
quit
printed | awk '/^qm> slab_trace print/ { on = 1 } /^qm> kmausers/ { on = 0 } on' >"$work/dump"
[ "$(grep -c '^Obj .*, from hart 0 task radio:$' "$work/dump")" -eq 2 ] || fail "two objects of the task radio are out"
[ "$(grep -c '^Obj ' "$work/dump")" -eq 2 ] || fail "other objects are out"
[ "$(functions <"$work/dump" | sort | uniq -c | tr -s ' ')" = ' 2 xQueueGenericCreate send_message radio ' ] || fail "$(functions <"$work/dump")"
! grep -q ': incomplete' "$work/dump" || fail "the trace is incomplete"
printed | awk '/^qm> expect m/ { on = 1 } /^expect m:/ { on = 0 } on' >"$work/expected"
[ "$(functions <"$work/expected" | tr -s ' \n' ' ')" = 'xQueueGenericCreate send_message radio ' ] || fail "expect: $(functions <"$work/expected")"
printed | grep -qE '^ +[0-9]+ +2  task radio$' || fail "kmausers does not say what the task radio holds"
printed | grep '^error: expect m: 2 objects' || fail "expect does not say that two objects are out"
printed | grep -q '^verify: .* faults 0: complete' || fail "verify"
# The session in the guide is this one, except for addresses and parts replaced by dots.
awk '/^```console/ { on = 1; next } /^```/ { on = 0 } on' "$source/docs/freertos.md" | sed -nE 's/^qm> //p' >"$work/typed"
printf '%s\n' 'slab_trace start kmalloc' radio 'slab_trace print kmalloc' | diff - "$work/typed" || fail "the guide has another session"

# ---- without frame pointers
boot "$work/build/no_frames.elf"
type_lines 'slab_trace start kmalloc' radio 'slab_trace print kmalloc' verify
quit
printed | grep '^trace: the kernel has no frame pointers: ' || fail "no word of frame pointers"
[ "$(printed | grep -c '^Obj .*, from hart 0 task radio:$')" -eq 2 ] || fail "two objects of the task radio are out"
printed | grep -q '^verify: .* faults 0: complete' || fail "verify"
echo "the heap of FreeRTOS, RV$xlen: as the guide says"
