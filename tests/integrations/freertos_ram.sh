#!/usr/bin/env bash
# The cost of FreeRTOS' heap in comparison with heap_4.c, in the same program: freertos_ram.sh BUILD SOURCE XLEN
# [options of cmake]
#
# The work of integrations/freertos/example with 0, 200, 500 and 1000 further blocks of 8 to 71 bytes: the smallest heap
# in which it runs to its end, the additional bytes of .data and .bss, and the sum. Also text, and the instructions of a
# hot pair of an allocation and its free. This is no test, because it takes minutes.
set -eu -o pipefail
build=$1 source=$(cd "$2" && pwd) xlen=$3
shift 3
work=$build/integrations/freertos-ram-rv$xlen
mkdir -p "$work"
# shellcheck source=tests/integrations/third_party.sh
. "$source/tests/integrations/third_party.sh"
unpack_third_party freertos-kernel 'the kernel FreeRTOS' 'git clone https://github.com/FreeRTOS/FreeRTOS-Kernel'
cmake -G Ninja -S "$source/tests/integrations/freertos" -B "$work/build" -D CMAKE_BUILD_TYPE=MinSizeRel \
  --toolchain "$source/cmake/toolchains/riscv$xlen.cmake" -D FREERTOS_KERNEL_PATH="$work/FreeRTOS-Kernel" -D QM_COUNT=OFF "$@" >"$work/log"
cmake --build "$work/build" --target ram_qm ram_heap_4 >>"$work/log"

run() { # IMAGE HEAP-BYTES BLOCKS
  timeout 60 "qemu-system-riscv$xlen" -machine virt -m 32M -bios none -nographic -monitor none -serial stdio -kernel "$work/build/$1.elf" \
    -icount shift=0,sleep=off -device "loader,addr=0x81000000,data=$2,data-len=4" -device "loader,addr=0x81000004,data=$3,data-len=4" </dev/null 2>&1
}
for blocks in 0 200 500 1000; do
  for image in ram_heap_4 ram_qm; do
    low=0 high=131072  # bytes of the array in ram_qm
    while [ $((high - low)) -gt 16 ]; do
      middle=$(((low + high) / 32 * 16))
      if run $image $middle $blocks >/dev/null; then high=$middle; else low=$middle; fi
    done
    array=131072
    if [ $image = ram_heap_4 ]; then array=1048576; fi
    riscv64-linux-gnu-size "$work/build/$image.elf" | awk -v image=$image -v blocks=$blocks -v heap=$high -v array=$array 'NR == 2 {
      printf "%-10s %4d blocks: heap %6d + data %6d = %6d bytes; text %6d\n", image, blocks, heap, $2 + $3 - array, heap + $2 + $3 - array, $1 }'
  done
done
for image in ram_heap_4 ram_qm; do echo "$image: $(run $image 120000 0)"; done
