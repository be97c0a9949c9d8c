#!/bin/sh
# archive.sh SIZE BUILD ARCHIVE: the ledger's row `archive`, the sum of its members' sections.
set -eu
"$1" -A "$3" | awk -v build="$2" '
  $1 ~ /^[.]text/ { text += $2 }
  $1 ~ /^[.]s?rodata/ { rodata += $2 }
  $1 ~ /^[.](s?data|s?bss|tdata|tbss)/ { ram += $2 }
  END {
    printf "@bench {\"case\":\"archive\",\"build\":\"%s\",\"alloc text\":%d,\"alloc rodata\":%d,\"alloc RAM\":%d", build, text, rodata, ram
    printf ",\"trace text\":0,\"trace rodata\":0,\"trace RAM\":0,\"hal text\":0}\n"
  }'
