#!/usr/bin/env bash
# The example examples/tasks prints the output in its README: the forgotten packets, with the task that allocated them.
# The trace passes them to a callback: nothing of the console is in the image.
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
# Indented in the README, whose last block is the output; ten packets are ten lines.
sed -n '/^It prints/,$s/^    //p' "$source/examples/tasks/README.md" |
  awk '/ packet of hart / { for (i = 0; i < 10; ++i) print; next } 1' >"$scratch/expected"
printed | sed -n '/^1000 packets/,$p' >"$scratch/printed"
diff "$scratch/expected" "$scratch/printed" || fail "this is not what the README says"
echo "10 packets of the task receiver are out ($bios)"
