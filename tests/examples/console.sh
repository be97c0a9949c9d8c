#!/usr/bin/env bash
# The example examples/console: its session must be that of its README, and nothing of trace/ may be in the image.
#
#   console.sh BUILD SOURCE
. "$(dirname "$0")/example.sh"
build_for_target console
nm -C "$image" >"$scratch/symbols"
grep -q 'qm::console::Console::poll()' "$scratch/symbols" || fail "the image has no console: the check itself is broken"
if grep 'qm::trace::' "$scratch/symbols"; then fail "a part of trace/ is in the image"; fi

# Indented in the README, whose last block is the session.
sed -n '/^A session/,$s/^    //p' "$source/examples/console/README.md" >"$scratch/expected"
lines=$(grep -c '^qm> ' "$scratch/expected")
boot -smp 2 -m 32M
sed -n 's/^qm> //p' "$scratch/expected" >"$scratch/typed"
while IFS= read -r line; do
  type_lines "$line"
done <"$scratch/typed"
await_prompt
printed | sed -n '/^qm> /,$p' | sed '$d' | sed -E 's/0x[0-9a-f]{16}/@/g' >"$scratch/printed"
sed -E 's/0x[0-9a-f]{16}/@/g' "$scratch/expected" >"$scratch/wanted"
diff "$scratch/wanted" "$scratch/printed" || fail "this is not what the README says"
echo "$lines commands answer as the README says, without trace/ ($bios)"
