#!/bin/sh
# measure.sh NM BUILD LAYOUT_OBJECT MAP...: makes the ledger's rows for size.json and, for the cases console*, for
# console.json, from the linker's maps (size_<case>.map), and the rows for layout.json from the layout object.
set -eu
nm=$1 build=$2 layout=$3
shift 3

for map in "$@"; do
  name=$(basename "$map" .map | sed 's/^size_//; s/_/ + /g; s/live + trace/live trace/')
  awk -v name="$name" -v build="$build" '
    /^Linker script and memory map/ { placed = 1 }
    !placed { next }
    # A long section name has a line of its own.
    NF == 1 && $1 ~ /^[.a-zA-Z_]/ { section = $1; next }
    NF >= 4 && $2 ~ /^0x/ && $3 ~ /^0x/ { section = $1; size = $3; file = $4 }
    NF == 3 && $1 ~ /^0x/ && $2 ~ /^0x/ { size = $2; file = $3 }
    {
      library = ""
      if (file ~ /libqm_(alloc|trace|hal|wire|console|console_trace)\.a/) {
        library = file
        sub(/.*libqm_/, "", library)
        sub(/\.a.*/, "", library)
        if (library == "wire" || library == "console_trace") library = "console"
      }
      if (file ~ /libgcc\.a\(save-restore\.o\)/) library = "alloc"
      # Link-time optimisation leaves one object: the linked functions of the port count as part of the allocator.
      if (file ~ /ltrans/) library = "alloc"
      if (library == "" || section == "") { file = ""; next }
      kind = ""
      if (section ~ /^\.text/) kind = "text"
      if (section ~ /^\.s?rodata/ || section ~ /^qm_(sections|commands)/) kind = "rodata"
      if (section ~ /^\.(s?data|s?bss|tdata|tbss)/) kind = "ram"
      if (kind != "") bytes[library, kind] += hex(size)
      file = section = ""
    }
    function hex(text,   i, value) {
      value = 0
      text = tolower(text)
      for (i = 3; i <= length(text); ++i) value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
      return value
    }
    END {
      if (name ~ /^console/) {
        printf "@console {\"case\":\"%s\",\"build\":\"%s\"", name, build
        printf ",\"console text\":%d,\"console rodata\":%d,\"console RAM\":%d", bytes["console", "text"], bytes["console", "rodata"], bytes["console", "ram"]
        printf ",\"alloc text\":%d,\"trace text\":%d}\n", bytes["alloc", "text"], bytes["trace", "text"]
        exit
      }
      printf "@bench {\"case\":\"%s\",\"build\":\"%s\"", name, build
      printf ",\"alloc text\":%d,\"alloc rodata\":%d,\"alloc RAM\":%d", bytes["alloc", "text"], bytes["alloc", "rodata"], bytes["alloc", "ram"]
      printf ",\"trace text\":%d,\"trace rodata\":%d,\"trace RAM\":%d", bytes["trace", "text"], bytes["trace", "rodata"], bytes["trace", "ram"]
      printf ",\"hal text\":%d}\n", bytes["hal", "text"]
    }' "$map"
done

[ -n "$layout" ] || exit 0
"$nm" -S "$layout" | awk -v build="$build" '
  $4 ~ /^qm_size_/ {
    name = substr($4, 9)
    gsub("__", ", ", name)
    gsub("_", " ", name)
    size = 0
    for (i = 1; i <= length($2); ++i) size = size * 16 + index("0123456789abcdef", substr($2, i, 1)) - 1
    printf "@layout {\"structure\":\"%s\",\"build\":\"%s\",\"bytes\":%d}\n", name, build, size
  }' | sort
