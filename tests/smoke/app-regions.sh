#!/usr/bin/env bash
# start_allocator() gives all memory regions to the allocator, attaches every hart, and does not link the trace.
#
#   app-regions.sh IMAGE
set -eu -o pipefail
image=$1
fail() {
  echo "FAILED: $*"
  exit 1
}
printed=$(timeout 60 qemu-system-riscv64 -machine virt -smp 2 -m 128M -nographic -no-reboot -kernel "$image" \
  -object memory-backend-ram,id=m0,size=48M -object memory-backend-ram,id=m1,size=80M -numa node,memdev=m0 -numa node,memdev=m1 \
  </dev/null | tr -d '\r' | grep -E '^(region|hart|panic)') || fail "nothing printed"
echo "$printed"
# The device tree may cut a piece off a memory region, which is then two ranges.
taken=$(awk '/^region/ { sub(/.*taken /, ""); sum += $1; if ($1 >= 32) ++large } END { print large + 0, sum + 0 }' <<<"$printed")
read -r large sum <<<"$taken"
[ "$large" -ge 2 ] || fail "$large regions served 32 MiB or more"
[ "$sum" -ge 116 ] || fail "$sum MiB in all"
[ "$(grep -c '^hart .* misses [1-9]$' <<<"$printed")" -eq 2 ] || fail "a hart is not attached"
"${QM_NM:-nm}" -C "$image" >"$image.nm"
grep -q 'qm::firmware::start_allocator' "$image.nm" || fail "the check itself is broken"
if grep -E 'qm::(trace|console)::' "$image.nm"; then fail "a part of trace/ or console/ is in the image"; fi
echo "$sum MiB of $large regions, two harts, without trace/ and console/"
