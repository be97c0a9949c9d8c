#!/usr/bin/env bash
# The example examples/tasks prints what its README says: the forgotten packets, of the task that drew them. The books hand them to a
# callback: nothing of the console is in the image.
#
#   tasks.sh BUILD SOURCE
. "$(dirname "$0")/example.sh"
build_for_target tasks
nm -C "$image" >"$scratch/symbols"
grep -q 'qm::trace::' "$scratch/symbols" || fail "the image has no trace: the check itself is broken"
if grep 'qm::console::' "$scratch/symbols"; then fail "a part of the console is in the image"; fi
boot -smp 2
wait "$qemu" || fail "status $?"
qemu=''
# Indented in the README, whose last block is what is printed; ten packets are ten lines.
sed -n '/^It prints/,$s/^    //p' "$source/examples/tasks/README.md" |
  awk '/ packet of hart / { for (i = 0; i < 10; ++i) print; next } 1' >"$scratch/expected"
printed | sed -n '/^1000 packets/,$p' >"$scratch/printed"
diff "$scratch/expected" "$scratch/printed" || fail "this is not what the README says"
echo "10 packets of the task receiver are out ($bios)"
