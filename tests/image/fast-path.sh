#!/usr/bin/env bash
# Checks the compiler's and the linker's output for the fast path.
#
#   fast-path.sh calls   IMAGE            the public functions are called, not inlined
#   fast-path.sh costs   IMAGE            instructions of a pair, loop and calls included
#   fast-path.sh same    IMAGE IMAGE      both forms have the same instructions in two images, with and without the trace
#   fast-path.sh whole   IMAGE IMAGE      both forms have the same instructions, their exits included, with and without the guards
#   fast-path.sh listing IMAGE DOCUMENT...  the listings in the documents are those of the image
#   fast-path.sh charges IMAGE DOCUMENT...  the same for the instructions that call sites add
#   fast-path.sh table   IMAGE OBJECT     the linker drops the entries of a dropped function, and sorts the others
#   fast-path.sh object  OBJECT LIBRARY   the forms without an image: words are loaded and stored
#
#   fast-path.sh jumps   LIBRARY          the fast paths continue with jumps and keep no frame, so stacks begin at the caller
#   fast-path.sh scans   LIBRARY          bit scans are never calls, and are instructions if the processor has them (QM_BIT_SCAN=yes)
#
# Environment: QM_OBJDUMP, QM_NM, QM_READELF, QM_COUNTED (yes with QM_COUNT), QM_XLEN.
set -u -o pipefail

fail() { echo "fast-path.sh: $*" >&2; exit 1; }

# The instructions of a function, one on each line, without addresses: hart-locals, data and slow halves by name, `addi`
# spelled out.
instructions() { # file function
  "$QM_OBJDUMP" -d --no-show-raw-insn "$1" | awk -v function_name="$2" '
    $0 ~ "^[0-9a-f]+ <" function_name ">:" { inside = 1; next }
    /^Disassembly/ || /^[0-9a-f]+ <[^.].*>:/ { inside = 0 }  # in an object, local labels lie inside a function
    inside && /^ *[0-9a-f]+:/ {
      sub(/^ *[0-9a-f]+:[ \t]*/, "")
      if (match($0, /# [0-9a-f]+ <[^>]*>/)) {
        name = substr($0, RSTART, RLENGTH)
        sub(/^.*</, "", name); sub(/>.*$/, "", name)
        if (!sub(/[0-9]+\(tp\)/, name "(tp)") && upper) sub(/-?[0-9]+\(/, name "(")
      }
      sub(/ *#.*$/, "")
      gsub(/[ \t]+/, " "); sub(/ $/, "")
      if ($0 ~ /^add .*,-?[0-9]+$/) sub(/^add /, "addi ")
      if ($0 ~ /^and .*,-?[0-9]+$/) sub(/^and /, "andi ")
      if ($0 ~ /^srl .*,0x/) sub(/^srl /, "srli ")
      if ($0 ~ /^sll .*,0x/) sub(/^sll /, "slli ")
      if (/^auipc /) { upper = 1; sub(/0x[0-9a-f]+$/, "upper") }
      if (before == "add t0,t4,tp") sub(/-?[0-9]+\(/, "qm_heap_hart_caches(")
      before = $0
      print
    }'
}

# The instructions of a section: up to `ret`, with its exit called `slow`.
section() { # file function
  instructions "$1" "$2" | sed -E 's/^(b[a-z]+ .*,)[0-9a-f]+ <.*$/\1slow/; /^ret$/q'
}

# All instructions of a function. A jump's target is a function, or a place in one: both by name.
whole() { # file function
  instructions "$1" "$2" | sed -E 's/[0-9a-f]+ (<[^>]*>)/\1/'
}

# The instructions from one instruction to another, both included. A jump's target is the function that it names, or
# `away`.
between() { # file function first last
  instructions "$1" "$2" | first=$3 last=$4 awk '
    !inside && $0 ~ ENVIRON["first"] { inside = 1 }
    inside { print }
    inside && $0 ~ ENVIRON["last"] { exit }' |
    sed -E 's/^((b[a-z]+ .*,)|(j ))[0-9a-f]+ <([a-z_]+)>$/\1\4/; s/^((b[a-z]+ .*,)|(j ))[0-9a-f]+ <.*$/\1away/'
}

# The body of a function's only loop: from the target of its last backward branch to that branch.
loop() { # file function
  "$QM_OBJDUMP" -d --no-show-raw-insn "$1" | awk -v function_name="$2" '
    $0 ~ "^[0-9a-f]+ <" function_name ">:" { inside = 1; next }
    /^$/ { inside = 0 }
    inside && /^ *[0-9a-f]+:/ {
      address = $1; sub(/:/, "", address)
      line[++count] = $0; at[address] = count
      if ($2 ~ /^b/) {
        target = $3; sub(/^.*,/, "", target)
        if (target in at) { first = at[target]; last = count; exit }
      }
    }
    END { for (i = first; first && i <= last; ++i) print line[i] }'
}

# The loop of the inlined pair as its sections. The register that the compiler uses for the object is called `object`,
# and the one that counts is called `left`.
inlined() { # file
  loop "$1" qm_image_pair_inlined | sed -E 's/^ *[0-9a-f]+:[ \t]*//; s/# [0-9a-f]+ <([^>]*)>.*$/ \1/' | awk '
    { name = $NF; if (sub(/[0-9]+\(tp\)/, name "(tp)", $2)) $0 = $1 " " $2
      if ($1 == "add" && $2 ~ /,-?[0-9]+$/) $1 = "addi"
      if ($1 ~ /^b/) $0 = $1 " " $2
      print $1 " " $2 }' | sed -E 's/^(b[a-z]+ .*,)[0-9a-f]+$/\1slow/' | awk '
    { line[NR] = $0; if ($0 ~ /,-[0-9]+\(t1\)$/) { object = $2; sub(/,.*$/, "", object) } }
    END {
      left = line[NR]; sub(/^bnez /, "", left); sub(/,.*$/, "", left)
      for (i = 1; i <= NR; ++i) {
        sub(" " object ",", " object,", line[i])
        if (i > NR - 2) gsub(left, "left", line[i])
        print line[i]
      }
    }'
}

# A listing of the documents: the lines from "<!-- listing NAME -->" to the end of the fence, without comments. Lines
# that begin with + belong to builds with QM_COUNT.
documented() { # name
  awk -v wanted="<!-- listing $1 -->" -v counted="$QM_COUNTED" '
    $0 == wanted { found = 1; next }
    found && /^```/ { if (fence) exit; fence = 1; next }
    found && fence {
      if (/^\+/ && counted != "yes") next
      sub(/^\+/, " "); sub(/#.*$/, ""); sub(/^ +/, ""); sub(/ +$/, "")
      operator = $1; $1 = ""; gsub(/ /, "")
      print operator ($0 == "" ? "" : " " $0)
    }' "${documents[@]}"
}

compare() { # what expected found
  [ -n "$2" ] || fail "$1: nothing to compare with"
  [ "$2" = "$3" ] || { diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") >&2; fail "$1 differs (<: expected, >: found)"; }
}

symbol() { # file name
  "$QM_NM" "$1" | awk -v name="$2" '$3 == name { print $1 }'
}

count() { printf '%s\n' "$1" | grep -c .; }

documents=("${@:3}")
extra=0
[ "${QM_COUNTED:?}" = yes ] && extra=3

case ${1:-} in
  calls)
    body=$(loop "$2" qm_image_pair_called)
    body="$body$(loop "$2" qm_image_pair_of_heap)"
    for callee in qm_cache_allocate qm_cache_free qm_malloc qm_free; do
      printf '%s\n' "$body" | grep -qE "jalr?[[:space:]].*<$callee>" || fail "$callee is not called: $body"
    done
    ;;
  costs)
    around=$(count "$(loop "$2" qm_image_pair_called)")
    pop=$(count "$(section "$2" qm_cache_allocate)")
    push=$(count "$(section "$2" qm_cache_free)")
    pair=$((around + pop + push))
    inlined=$(count "$(inlined "$2")")
    malloc=$(count "$(section "$2" qm_malloc)")
    free=$(count "$(section "$2" qm_free)")
    echo "out of line: loop and calls $around, pop $pop, push $push, pair $pair; inlined with its loop $inlined; heap $malloc, $free"
    [ "$malloc" -eq $((16 + extra)) ] || fail "qm_malloc is $malloc instructions"
    [ "$free" -eq 17 ] || fail "qm_free is $free instructions"
    [ "$pair" -le $((26 + extra)) ] || fail "a pair is $pair instructions"
    [ "$pair" -eq $((7 + 9 + 9 + extra)) ] || fail "a pair is $pair instructions: the documents say $((25 + extra))"
    [ "$inlined" -eq $((2 + 13 + extra)) ] || fail "an inlined pair is $inlined instructions with its loop"
    ;;
  same)
    for name in qm_cache_allocate qm_cache_allocate_at qm_cache_free qm_malloc qm_free; do
      compare "$name" "$(section "$2" $name)" "$(section "$3" $name)"
    done
    compare "the inlined pair" "$(inlined "$2")" "$(inlined "$3")"
    [ "$("$QM_NM" "$2" | grep -c _ZN2qm5trace)" -eq 0 ] || fail "$2 has tracing"
    if instructions "$2" qm_image_pair_called | grep -qE '^addi s0,sp,'; then fail "$2 keeps frame pointers for tracing"; fi
    instructions "$3" qm_image_pair_called | grep -qE '^addi s0,sp,' || fail "$3 keeps no frame pointers"
    [ "$("$QM_NM" "$3" | grep -c _ZN2qm5trace)" -gt 0 ] || fail "$3 has no tracing"
    ;;
  whole)
    for name in qm_cache_allocate qm_cache_allocate_at qm_cache_free qm_malloc qm_free; do
      compare "$name" "$(whole "$2" $name)" "$(whole "$3" $name)"
    done
    compare "the inlined pair" "$(inlined "$2")" "$(inlined "$3")"
    [ "$("$QM_NM" "$2" | grep -c _ZN2qm6guards5start)" -eq 0 ] || fail "$2 has the guards"
    [ "$("$QM_NM" "$3" | grep -c _ZN2qm6guards5start)" -gt 0 ] || fail "$3 has no guards"
    ;;
  listing)
    compare qm_cache_allocate "$(documented qm_cache_allocate)" "$(section "$2" qm_cache_allocate)"
    compare qm_cache_allocate_at "$(documented qm_cache_allocate_at)" "$(section "$2" qm_cache_allocate_at)"
    compare qm_cache_free "$(documented qm_cache_free)" "$(section "$2" qm_cache_free)"
    for name in qm_malloc qm_free; do
      compare "$name" "$(documented $name)" "$(section "$2" $name)"
    done
    compare "another leaf" "$(documented "qm_free, another leaf")" "$(between "$2" qm_free '^auipc' '^j ')"
    body=$(inlined "$2" | sed 's/qm_hart_cache_pointer_[A-Za-z]*/qm_hart_cache_pointer_NAME/')
    compare "the inlined pair" "$(documented "inlined pop"; documented "inlined push")" \
      "$(printf '%s\n' "$body" | head -n -2)"
    ;;
  charges)
    compare "the charge of a cache" "$(documented "qm_cache_allocate, charge")" "$(between "$2" qm_cache_allocate '^ld t5,' '^ret$')"
    compare "and back" "$(documented "qm_cache_free, charge")" "$(between "$2" qm_cache_free '^ld t3,' '^j ')"
    compare "the charge of the heap" "$(documented "qm_malloc_at, charge")" "$(between "$2" qm_malloc_at '^beqz a0,' '^ret$')"
    compare "and back" "$(documented "qm_free, charge")" "$(between "$2" qm_free '^beqz t4,' '^add t0,' | sed '$d')"
    ;;
  table)
    start=$(symbol "$2" __qm_sections_start) end=$(symbol "$2" __qm_sections_end)
    entries=$(((0x$end - 0x$start) / 8))
    made=$("$QM_READELF" -SW "$3" | grep -cE '[[:space:]]qm_sections[[:space:]]+PROGBITS')
    [ -z "$(symbol "$2" qm_image_unused_inlined)" ] || fail "the unused function is in the image"
    [ -n "$(symbol "$3" qm_image_unused_inlined)" ] || fail "the unused function is not in the object"
    [ "$made" -eq 4 ] || fail "the object has $made sections, 4 are wanted"
    [ "$entries" -eq 2 ] || fail "the image has $entries entries, 2 are wanted"
    ;;
  object)
    word=$((QM_XLEN / 8))
    load=lw store=sw
    [ "$QM_XLEN" -eq 64 ] && load=ld store=sd
    code=$(instructions "$2" qm_image_pair_inlined; instructions "$3" qm_cache_allocate; instructions "$3" qm_cache_free)
    [ "$(printf '%s\n' "$code" | grep -cE "^$load t1,0\(t0\)")" -eq 4 ] || fail "not four loads of a top: $code"
    [ "$(printf '%s\n' "$code" | grep -cE "^$load t2,$word\(t0\)")" -eq 2 ] || fail "not two loads of a limit: $code"
    [ "$(printf '%s\n' "$code" | grep -cE "^$store t1,0\(t0\)")" -eq 4 ] || fail "not four commits: $code"
    ;;
  scans)
    code=$("$QM_OBJDUMP" -d --no-show-raw-insn "$2")
    for scan in ctz clz; do
      found=no
      grep -qE "[[:space:]]$scan[[:space:]]" <<<"$code" && found=yes
      [ "$found" = "${QM_BIT_SCAN:?}" ] || fail "$scan in $2: $found, wanted: $QM_BIT_SCAN"
    done
    if calls=$("$QM_NM" -u "$2" | grep -E '__(ctz|clz|ffs|popcount)[sd]i2'); then fail "$2 calls libgcc: $calls"; fi
    ;;
  jumps)
    for function in qm_cache_allocate_slow qm_cache_allocate_other qm_cache_free_slow qm_heap_allocate_slow qm_heap_free_slow; do
      code=$(instructions "$2" "$function")
      [ -n "$code" ] || code=$(instructions "$2" "${function}_at")  # with call sites
      [ -n "$code" ] || fail "no $function in $2"
      # Before the jump, a function looks up the class of a large size.
      [ $function = qm_heap_allocate_slow ] || ! grep -qE '^(jalr|addi sp,sp,-)' <<<"$code" || fail "$function calls or keeps a frame: $code"
      ! grep -qE '^(ret|addi s0,sp)' <<<"$code" || fail "$function does not end in jumps: $code"
    done
    ;;
  *) sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
