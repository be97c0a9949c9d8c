#!/usr/bin/env bash
# QEMU's board sifive_e: the small build with its trace finds 20 lost objects within 16 KB of RAM: sifive_e.sh BUILD
# SOURCE
set -eu -o pipefail
build=$1/integrations/sifive_e source=$2
mkdir -p "$build"
fail() {
  echo "FAILED: $*"
  exit 1
}
(cd "$source" && cmake --preset sifive_e -B "$build" && cmake --build "$build" -j 2 --target leak) >"$build/log" 2>&1 || { tail -n 40 "$build/log"; fail "the build"; }
image=$build/firmware/sifive_e/leak.elf
timeout --kill-after=5 60 qemu-system-riscv32 -machine sifive_e -display none -monitor none -serial stdio \
  -semihosting-config enable=on,target=native -kernel "$image" </dev/null | tr -d '\r' >"$build/said" || { cat "$build/said"; fail "status $?"; }
sed -n 's/^leaked //p' "$build/said" | sort >"$build/lost"
sed -n 's/^Obj //p' "$build/said" | sort >"$build/shown"
[ "$(wc -l <"$build/lost")" -eq 20 ] || fail "20 objects are to be lost"
diff "$build/lost" "$build/shown" || fail "others are shown"
stacks=$(sed -nE 's/^ (0x[0-9a-f]+)$/\1/p; s/^Obj .*/-/p' "$build/said" | while read -r pc; do
  # A return address lies behind its call.
  if [ "$pc" = - ]; then echo; else printf '%s ' "$(riscv64-linux-gnu-addr2line -f -e "$image" "$(printf '0x%x' $((pc - 1)))" | head -n 1)"; fi
done | grep . | sort | uniq -c | tr -s ' ')
[ "$stacks" = ' 20 new_packet checksum_error receive board_main ' ] || fail "the stacks are $stacks"
grep '^outstanding 20, recorded 200, .*: complete$' "$build/said"
# The contents of RAM, from the map.
map=${image%.elf}.map used=0
while read -r section address bytes _; do
  printf '%-7s %6d bytes at %s\n' "$section" "$bytes" "$address"
  used=$((used + bytes))
done < <(grep -E '^[.](data|tdata|bss|stack) ' "$map")
heap_start=$(awk '$2 == "__heap_start" { print $1 }' "$map") heap_end=$(awk '$2 == "__heap_end" { print $1 }' "$map")
printf 'heap    %6d bytes at %s\n' $((heap_end - heap_start)) "$heap_start"
[ $((heap_end - 0x80000000)) -eq 16384 ] && [ "$used" -gt 4096 ] && [ $((0x80000000 + used)) -le $((heap_start)) ] || fail "RAM is not 16384 bytes"
