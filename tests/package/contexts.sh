#!/usr/bin/env bash
# contexts.sh SOURCE: each function of <qm/qm.h> and <qm/trace/trace.h> must have a row in the table of contexts of
# docs/embedding.md, and the table must have no other. A function `..._at` belongs to the row of the one without `_at`.
set -eu -o pipefail
cd "$1"
declared=$(sed -E '/^ *[/*]/d' alloc/include/qm/qm.h trace/include/qm/trace/trace.h | grep -oE '\bqm_[a-z_]+\(' | sed -E 's/\(//; s/_at$//' | sort -u)
named=$(grep -E '^\| `qm_' docs/embedding.md | cut -d'|' -f2 | grep -oE '`qm_[a-z_]+`' | tr -d '`' | sort -u)
[ "$(printf '%s\n' "$declared" | wc -l)" -gt 30 ] || { echo "FAILED: the search finds few functions: $declared"; exit 1; }
difference=$(diff <(printf '%s\n' "$declared") <(printf '%s\n' "$named") || true)
[ -z "$difference" ] || { printf 'FAILED: < has no row, > is no function\n%s\n' "$difference"; exit 1; }
echo "$(printf '%s\n' "$declared" | wc -l) functions"
