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
type_lines wake agree heaps 'slab_trace start kmalloc' leaky 'slab_trace print kmalloc_*'
await_prompt
# The size class of the messages, which has no objects of the commands' tasks.
class=$(answer 'slab_trace print kmalloc_*' | awk '/^Dumping/ { class = $5 } / task leaky pid / { print class; exit }')
type_lines "slab_trace print $class" 'mark m' leaky "expect m $class" \
  'deleted 50' 'slab_trace print nothing' 'qm' verify 'slab_trace stop kmalloc'
quit_nuttx
functions() { # of stacks in full, a line each
  sed -nE 's/^#[0-9]+ \[<(0x[0-9a-f]+)>\].*$/\1/p; s/^$/-/p' | while read -r pc; do
    if [ "$pc" = - ]; then echo; else printf '%s ' "$(riscv64-unknown-elf-addr2line -f -e "$image" "$(printf '0x%x' $((pc - 1)))" | head -n 1)"; fi
  done | grep .
}
answer "slab_trace print $class" | awk '/^Obj / { on = / task leaky pid [0-9]+:$/ } on' >"$work/dump"
[ "$(grep -cE '^Obj .*, from hart [0-7] task leaky pid [0-9]+:$' "$work/dump")" -eq 2 ] || fail "two objects of the task leaky are out"
[ "$(functions <"$work/dump" | sort | uniq -c | tr -s ' ')" = ' 2 malloc new_message send leaky_main nxtask_startup nxtask_start ' ] ||
  fail "$(functions <"$work/dump")"
answer "expect m $class" | grep -q '^error: expect m: 2 objects' || fail "expect does not say that two objects are out"
answer heaps | grep -q '^heaps: ok' || fail heaps
answer heaps | grep -qE '^(.CPU[0-7]. )?Quartermaster: a free of what is no block: ' || fail "a wrong free is not told"
answer heaps | grep -qE '^(.CPU[0-7]. )?Quartermaster: a heap of 8 bytes at ' || fail "a heap that is too small is not told"
answer 'deleted 50' | grep -q '^deleted: 50 tasks' || fail deleted
answer verify | grep -q ', faults 0: complete' || fail verify
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
