#!/usr/bin/env bash
# integrations/nuttx over NuttX's sources: nuttx.sh BUILD SOURCE nsh64|nsh|smp64
#
# Builds NuttX for rv-virt with Quartermaster as its memory manager, and types at NSH's prompt: NuttX's own tests pass,
# a leak is found with its task and stack, figures agree, and bad input is answered as docs/nuttx.md says.
set -eu -o pipefail
build=$1 source=$(cd "$2" && pwd) config=$3
folder=nuttx-$config
# shellcheck source=tests/integrations/nuttx_build.sh
. "$source/tests/integrations/nuttx_build.sh"
prepare_nuttx CUSTOMIZE
sources() { find "$source/integrations/nuttx" "$source/tests/integrations/nuttx" | sort; }
sources >"$work/sources"
build_nuttx
sources | diff "$work/sources" - || fail "the build writes into the checkout"

# ---- the linked symbols
riscv64-unknown-elf-nm "$image" >"$work/symbols"
grep -q ' mm_malloc$' "$work/symbols" || fail "the image has no memory manager: the check itself is broken"
if grep -E ' (mm_addfreechunk|mm_shrinkchunk|tlsf_malloc)$' "$work/symbols"; then fail "a memory manager of NuttX's is in the image"; fi

# ---- wrong settings
compile() { # SETTINGS, lines of C
  printf '#include <nuttx/config.h>\n%s\n' "$1" >"$work/settings.h"
  riscv64-unknown-elf-gcc -E -D__NuttX__ -isystem include -I"$source"/{alloc,integrations/nuttx}/include \
    -I"$work/apps/quartermaster_build/library/quartermaster/include" -include "$work/settings.h" "$source/integrations/nuttx/mm_qm.c" >/dev/null 2>"$work/log"
}
refuses() { # SETTINGS, text of the error
  if compile "$1"; then fail "mm_qm.c compiles with $1"; fi
  [ "$(grep -A1 '#error' "$work/log" | grep -c "$2")" -ge 1 ] || { cat "$work/log"; fail "$1: no error '$2'"; }
}
compile '' || { cat "$work/log"; fail "mm_qm.c does not compile: the check itself is broken"; }
refuses '#undef CONFIG_BUILD_FLAT' 'for flat builds'
refuses '#define CONFIG_MM_KASAN 1' 'MM_KASAN is to be off'
refuses $'#undef CONFIG_MM_BACKTRACE\n#define CONFIG_MM_BACKTRACE 8' 'MM_BACKTRACE is to be -1'
for option in DEFAULT_TASK_STACKSIZE PTHREAD_STACK_DEFAULT BOARD_INITTHREAD_STACKSIZE ARCH_INTERRUPTSTACK; do
  refuses "#undef CONFIG_$option"$'\n'"#define CONFIG_$option 2048" "$option .*4096 at least"
done
if [ "$config" = nsh64 ]; then
  for other in pnsh64 knsh64; do # protected, kernel
    cp "boards/risc-v/qemu-rv/rv-virt/configs/$other/defconfig" "$work/$other.config"
    echo 'CONFIG_MM_CUSTOMIZE_MANAGER=y' >>"$work/$other.config"
    # Not by make, which would forget the applications.
    APPSDIR=$work/apps APPSBINDIR=$work/apps BINDIR=$PWD EXTERNALDIR=dummy KCONFIG_CONFIG=$work/$other.config quietly kconfig-conf --olddefconfig Kconfig
    grep -q '^CONFIG_MM_CUSTOMIZE_MANAGER=y' "$work/$other.config" || fail "$other has another manager: the check itself is broken"
    if grep '^CONFIG_QUARTERMASTER=' "$work/$other.config"; then fail "$other has Quartermaster"; fi
  done
fi

# ---- a first heap that is too small
# In a copy of the image, up_allocate_heap() is a jump to the program small.
address_of() { awk -v name="$1" '$3 == name { print "0x" $1; found = 1 } END { exit !found }' "$work/symbols"; }
from=$(address_of up_allocate_heap)
to=$(address_of small_main)
distance=$((to - from))
jump=$((0x6f | (distance >> 20 & 1) << 31 | (distance >> 1 & 0x3ff) << 21 | (distance >> 11 & 1) << 20 | (distance >> 12 & 0xff) << 12))
read -r text offset < <(riscv64-unknown-elf-readelf -SW "$image" | sed -nE 's/^.* \.text +PROGBITS +([0-9a-f]+) ([0-9a-f]+) .*/0x\1 0x\2/p')
cp "$image" "$work/small"
printf '%b' "$(printf '\\x%02x' $((jump & 255)) $((jump >> 8 & 255)) $((jump >> 16 & 255)) $((jump >> 24 & 255)))" |
  dd of="$work/small" bs=1 seek=$((from - text + offset)) conv=notrunc status=none
image=$work/small boot_nuttx
patience=20 await_text 'small: status -1, no block, 0 bytes$'
kill "$qemu"
wait "$qemu" || true
qemu=''
printed | grep 'Quartermaster: a heap of 64 bytes at 0x[0-9a-f]* cannot be used$' >/dev/null || fail "a first heap that is too small is not told"

# ---- NuttX's own tests
# With eight harts in real time: if harts took turns, the spinning harts of ostest's lock test would starve the hart
# that creates them.
icount=(-icount 'shift=0,sleep=off')
if [ "$config" = smp64 ]; then icount=(); fi
boot_nuttx "${icount[@]}"
type_lines wake ostest heap
type_background 'memstress -m 4096 -n 64 -t 10 -x 4 &' 'MemoryStress:testing'
type_lines 'slab_trace start kmalloc' 'sleep 5' 'slab_trace stop kmalloc' verify
quit_nuttx
answer ostest | grep -q 'ostest_main: Exiting with status 0' || fail ostest
! answer ostest | grep -E 'ERROR|FAIL' || fail "ostest has errors"
answer heap | grep -q 'TEST COMPLETE' || fail heap
! answer 'sleep 5' | grep -iE 'error|fail' || fail memstress
answer verify | grep -q ', faults 0: complete' || fail verify

# ---- a leak, with the task's name and the functions; and heaps, figures, deleted tasks
boot_nuttx
type_lines wake 'calls 300' agree heaps verify 'slab_trace start kmalloc' leaky 'slab_trace print kmalloc_*'
await_prompt
# The size class of the messages, which has no objects of the commands' tasks.
class=$(answer 'slab_trace print kmalloc_*' | awk '/^Dumping/ { class = $5 } / task leaky pid / { print class; exit }')
type_lines "slab_trace print $class" 'mark m' leaky "expect m $class" \
  'deleted 50' 'slab_trace print nothing' 'qm' 'slab_trace stop kmalloc' verify
quit_nuttx
[ "$(answer 'calls 300')" = 'calls: ok, 300' ] || fail calls
functions() { # of stacks in full, a line each
  sed -nE 's/^#[0-9]+ \[<(0x[0-9a-f]+)>\].*$/\1/p; s/^$/-/p' | while read -r pc; do
    if [ "$pc" = - ]; then echo; else printf '%s ' "$(riscv64-unknown-elf-addr2line -f -e "$image" "$(printf '0x%x' $((pc - 1)))" | head -n 1)"; fi
  done | grep .
}
answer "slab_trace print $class" | awk '/^Obj / { on = / task leaky pid [0-9]+:$/ } on' >"$work/dump"
[ "$(grep -cE '^Obj .*, from hart [0-7] task leaky pid [0-9]+:$' "$work/dump")" -eq 2 ] || fail "two objects of the task leaky are out"
stack=' 2 malloc new_message send leaky_main nxtask_startup nxtask_start ' hint=0
if [ "$config" = smp64 ]; then stack='' hint=1; fi
[ "$(functions <"$work/dump" | sort | uniq -c | tr -s ' ')" = "$stack" ] || fail "$(functions <"$work/dump")"
[ "$(answer 'slab_trace start kmalloc' | grep -c '^trace: NuttX is compiled without FRAME_POINTER: stacks end at its functions$')" -eq "$hint" ] ||
  fail "the hint about FRAME_POINTER"
answer "expect m $class" | grep -q '^error: expect m: 2 objects' || fail "expect does not say that two objects are out"
answer heaps | grep -q '^heaps: ok' || fail heaps
told() { # COUNT, the start of the lines in the log
  [ "$(answer heaps | grep -cE "^(.CPU[0-7]. )?Quartermaster: $2")" -eq "$1" ] || { answer heaps; fail "not told $1 times: $2"; }
}
told 1 'a free of what is no block: '
told 1 'a heap of 8 bytes at 0x[0-9a-f]+ cannot be used$'
told 1 '65536 bytes at 0x[0-9a-f]+ are not added to Test_heap: status -3$'
told 1 'Test_heap has CONFIG_MM_REGIONS regions already$'
told 1 '32768 bytes at 0x[0-9a-f]+ are not added to Umem: status -3$'
told 1 '100 bytes at 0x[0-9a-f]+ are not added to Umem: status -1$'
told 3 'a wrong free, or a block that was overwritten; the next command has more: '
for text in '0x[0-9a-f]+ is none of its objects' '0x[0-9a-f]+ [+] 16 is inside an object' '0x[0-9a-f]+ was written behind its end, at byte [0-9]+'; do
  [ "$(answer heaps | grep -cE "^misuse: k[a-z0-9_]+: $text$")" -eq 1 ] || { answer heaps; fail "no report: $text"; }
done
[ "$(answer heaps | grep -cE '^Obj 0x[0-9a-f]+, from hart [0-7] isr:$')" -eq 1 ] || { answer heaps; fail "no block of an interrupt handler"; }
[ "$(answer heaps | grep -c ', faults 0: complete')" -eq 1 ] || fail "heaps: verify"
answer 'deleted 50' | grep -q '^deleted: ok' || { answer 'deleted 50'; fail deleted; }
[ "$(answer verify | grep -c ', faults 0: complete')" -eq 2 ] || fail verify
answer 'slab_trace print nothing' | grep -q '^error: ' || fail "no error"
answer qm | grep -q '^slab_trace start' || fail "qm does not list the commands"
# total, used and free are those of the command `free`, which counts idle memory as free; kmemstat counts the same idle
# memory.
answer agree | awk '
  /^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+$/ { total = $1; used = $2 - $4; free = $3 + $4 }
  /^total / { held = $2 }
  / Umem$/ { if ($1 != total || $2 != used || $3 != free || $2 < held || $2 - held > 8192) bad = "/proc/meminfo"; line = $1 " " $2 " " $3 " " $4 " " $5 " " $6 " " $7; ++seen }
  /^mallinfo / { if ("mallinfo " line != $0) bad = "mallinfo()"; ++seen }
  END { if (bad != "" || seen != 2) { print "disagrees: " bad; exit 1 } }' || { answer agree; fail "figures do not agree"; }
echo "the memory manager of NuttX, $config: as the guide says"
