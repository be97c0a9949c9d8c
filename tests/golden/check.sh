#!/bin/sh
# check.sh QM MAKE_CAPTURE: captures must be written as before, and reports on the old captures must be the same.
set -u
qm=$1 maker=$2
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
to=$(mktemp -d) || exit 1
trap 'rm -rf "$to"' EXIT
# shellcheck source=captures.sh
. "$here/captures.sh"
status=0
same() {
  if cmp -s "$here/$1" "$to/$1"; then return; fi
  echo "$1 is not what is in the tree:"
  case $1 in
    *.qm) cmp "$here/$1" "$to/$1" ;;
    *) diff -u "$here/$1" "$to/$1" | head -n 40 ;;
  esac
  status=1
}
while read -r name events stacks live lost; do
  [ -n "$name" ] || continue
  make_capture "$name" "$events" "$stacks" "$live" "$lost" || status=1
  same "$name.qm"
  make_reports "$here" "$name" || status=1
  same "$name.txt"
  same "$name.json"
done <<END
$golden_captures
END
[ $status -eq 0 ] || echo "if the change is meant: tests/golden/record.sh BUILD, and look at what git diff shows"
exit $status
