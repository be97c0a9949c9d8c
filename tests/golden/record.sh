#!/bin/sh
# record.sh BUILD: writes captures and reports again, with the programs of the build directory BUILD (a host preset's).
set -eu
build=$(CDPATH='' cd -- "$1" && pwd)
qm=$build/host/qm maker=$build/tests/host/qm_make_capture
to=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck source=captures.sh
. "$to/captures.sh"
while read -r name events stacks live lost; do
  [ -n "$name" ] || continue
  make_capture "$name" "$events" "$stacks" "$live" "$lost"
  make_reports "$to" "$name"
done <<END
$golden_captures
END
