#!/usr/bin/env bash
# The starter of examples/c, copied and built according to its README: c.sh SOURCE XLEN. It finds the lost jobs; the
# timer's handler allocates.
set -eu -o pipefail
source=$(cd "$1" && pwd) xlen=$2
scratch=$(mktemp -d)
# shellcheck source=tests/support/board.sh
. "$source/tests/support/board.sh"
trap 'leave; rm -rf "$scratch"' EXIT
cp -r "$source/examples/c" "$scratch/firmware"
cd "$scratch/firmware"
[ "$(wc -l <main.c)" -le 60 ] || fail "the firmware's own part has more than 60 lines"
quietly make XLEN="$xlen" QM="$source"
image=build/$xlen/firmware.elf
boot_image "$xlen" "$image" -m 128M -bios none -monitor none -serial stdio
type_lines 'slab_trace start job' jobs 'slab_trace print job' verify
await_prompt
printed >said
grep -q '^the timer runs' said || fail "the timer stands still"
[ "$(grep -c '^Obj ' said)" -eq 2 ] || fail "two jobs are lost"
grep -q '^outstanding 2, recorded 16, dropped 0, truncated stacks 0, .*: complete' said || fail "the trace is incomplete"
grep -q '^verify: .* faults 0: complete' said || fail "verify"
stacks=$(sed -nE 's/^#[0-9]+ \[<(0x[0-9a-f]+)>\].*/\1/p; s/^Obj .*/-/p' said | while read -r pc; do
  if [ "$pc" = - ]; then echo; else printf '%s ' "$(riscv64-linux-gnu-addr2line -f -e "$image" "$(printf '0x%x' $((pc - 1)))" | head -n 1)"; fi
done | grep . | cut -d' ' -f1-3 | sort | uniq -c | tr -s ' ')
[ "$stacks" = ' 2 new_job run_jobs on_command' ] || fail "the stacks are $stacks"
echo "two lost jobs are found, RV$xlen"
