#!/usr/bin/env bash
# The GDB commands must print the same as the console for the same state: gdb.sh IMAGE COMMANDS QEMU BIOS, where
# COMMANDS is host/gdb/quartermaster.py and BIOS default or none.
#
# The demo runs in QEMU, a leak is traced, and the console's reports are kept. Then GDB stops the target and must print
# the same, byte for byte: on the live target, and after its end on QEMU's copies of it, a core and raw memory. If the
# system was not quiet (the console prints something else after GDB than before), this is repeated, at most three times.
set -u -o pipefail
image=$1 commands=$2 emulator=${QM_QEMU:-$3} bios=$4
command -v gdb-multiarch >/dev/null || { echo "no gdb-multiarch"; exit 77; }
scratch=$(mktemp -d)
qemu=''
trap '[ -z "$qemu" ] || kill "$qemu" 2>/dev/null; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
fail() {
  echo "FAILED: $*"
  exit 1
}
mkfifo input
exec 3<>input
timeout 120 "$emulator" -machine virt -bios "$bios" -smp 2 -m 64M -display none -serial stdio -monitor none \
  -gdb unix:gdb,server=on,wait=off -kernel "$image" <&3 >transcript 2>&1 &
qemu=$!

prompts() { grep -o 'qm> ' transcript 2>/dev/null | wc -l; }
typed=1
say() { # LINE FILE: types it, keeps what it prints
  local i
  printf '%s\n' "$1" >&3
  typed=$((typed + 1))
  for ((i = 0; i < 300; ++i)); do
    [ "$(prompts)" -ge "$typed" ] && break
    kill -0 "$qemu" 2>/dev/null || fail "QEMU ended"
    sleep 0.1
  done
  tr -d '\r' <transcript | awk -v typed="$typed" '{ while (sub(/^.*qm> /, "")) { ++count } } 0; { line[NR] = $0; at[NR] = count }
    END { for (i = 1; i <= NR; ++i) if (at[i] == typed - 1) print line[i] }' | sed 1d >"$2"
}
for ((i = 0; i < 300 && $(prompts) == 0; ++i)); do sleep 0.1; done
[ "$(prompts)" -gt 0 ] || fail "no prompt"
# The background's caches are left out, because they always change.
say 'slab_trace start packet' started
say 'slab_trace start stacks counts' started
say 'workload run leak 100' ran
say 'mark m' marked
say 'workload run leak 200' ran
say 'workload run stacks 100' ran
say 'slab_trace print packet' said
object=$(sed -n 's/^Obj \(0x[0-9a-f]*\),.*/\1/p' said | head -n 1)
[ -n "$object" ] || fail "nothing is out"
say 'slab_trace stop packet' stopped
say 'quarantine stacks 2K' waits
say 'quarantine packet 2K' waits
say 'workload stop' waits
say 'workload run leak 20' waits
say 'workload run stacks 100' waits

reports() { # SUFFIX: the four reports of the console
  say 'slab_stats stacks' "caches.$1"
  say 'slab_trace print packet' "traces.$1"
  say 'slab_stacks' "stacks.$1"
  say "whatis $object" "whatis.$1"
  say 'free -b' "all_free.$1"
  say 'kmemstat -b' "all_kmemstat.$1"
  say 'allocinfo' "all_allocinfo.$1"
  say 'growth' "all_growth.$1"
  say 'growth m' "all_marked.$1"
  say 'findleaks' "all_findleaks.$1"
  keep "$1"
}
keep() { # SUFFIX: of what the background changes all the while only what rests, and of rows the words
  awk '/^ / { $4 = ""; print }' "all_free.$1" >"free.$1"  # without idle memory
  grep -E '^(bytes|packet|stacks|session) ' "all_kmemstat.$1" | tr -s ' ' >"kmemstat.$1"
  # The console breaks long lines; the background's objects are live, not leaked.
  tr -s ' \n' ' ' <"all_findleaks.$1" | sed -E 's/ live [0-9]+, bytes [^:]*findleaks:/\nfindleaks:/' >"findleaks.$1"
  { grep -E '(leak|stacks)\.cpp:' "all_allocinfo.$1"; grep -oE '<untagged>:.*func:.*' "all_allocinfo.$1"; } >"allocinfo.$1"
  # Only traced caches have stacks, so all stacks rest; the console shows the ten largest.
  local way
  for way in growth marked; do
    { grep -E '^(packet|stacks) |(leak|stacks)\.cpp:' "all_$way.$1"; grep -E -B12 '^stack_id' "all_$way.$1" | grep -E '^( [a-z]|stack_)'; } |
      awk '/^stack_id/ && ++ids == 10 { print; exit } 1' >"$way.$1"
    # The notes on what is traced, and the closing lines, without the counts of caches and arenas that have grown.
    grep -E '^(note: .*(traced|counted|counts|sampled|truncated)|growth |traced )' "all_$way.$1" |
      sed -E 's/: [0-9]+ caches, [0-9]+ arenas,/:/; s/, age [0-9.]+ s$//' >>"$way.$1"
  done
}
totals='free kmemstat allocinfo growth marked findleaks'
look() { # COMMAND SUFFIX [GDB ARGUMENT...]: what GDB says
  local suffix=$1 verb
  shift
  # Ages depend on the time of the output, and are not compared.
  local -a arguments=()
  for verb in 'caches stacks' 'traces packet' stacks "whatis $object" $totals; do
    arguments+=(-ex "echo @@${verb%% *}\\n" -ex "qm ${verb/#marked/growth m}")
  done
  gdb-multiarch -q -nx -batch -ex "set width 0" -ex "set height 0" -ex "source $commands" "$@" "${arguments[@]}" "$image" >"gdb.$suffix" 2>&1
  for verb in caches traces stacks whatis $totals; do
    awk -v verb="@@$verb" '/^@@/ { on = $0 == verb; next } on' "gdb.$suffix" | sed '/^\[Inferior .* detached\]$/d' >"$verb.$suffix"
  done
  for verb in $totals; do mv "$verb.$suffix" "all_$verb.$suffix"; done
  keep "$suffix"
}
plain() { sed -E 's/ size [0-9]+, age [0-9.]+ s, seq [0-9]+$//' "$1"; }
same() { # SUFFIX SUFFIX
  local verb
  for verb in caches traces stacks whatis $totals; do
    [ -s "$verb.$1" ] || { echo "nothing of $verb"; return 1; }
    diff <(plain "$verb.$1") <(plain "$verb.$2") >"diff.$verb" || { cat "diff.$verb"; return 1; }
  done
}

for try in 1 2 3; do
  reports before
  look live -ex "target remote gdb" -ex "monitor pmemsave 0x80000000 0x4000000 \"$scratch/memory\"" \
    -ex "monitor dump-guest-memory $scratch/core"
  reports after
  same before after >/dev/null && break
done
same before after || fail "the system is not quiet"
[ -s traces.live ] || fail "$(cat gdb.live)"
same before live || fail "live: $(grep -iE "(Python|gdb).*(Exception|error)" gdb.live | head -n 3)"
leaks=$(sed -nE 's/^findleaks: leaks ([0-9]+),.*: complete ?$/\1/p' findleaks.live)
[ "${leaks:-0}" -ge 20 ] || fail "findleaks found not what the workload leaked: $(cat findleaks.live)"
grep -q 'allocated by packet_alloc+' findleaks.live || fail "findleaks names no stack: $(cat findleaks.live)"
echo "the same on the live target: $(wc -l <traces.live) lines of traces, $(wc -l <stacks.live) of stacks, $leaks leaks"
kill "$qemu"
qemu=''
look core -ex "target core core" -ex "echo @@harts\n" -ex "info threads"
same before core || fail "core: $(grep -iE "(Python|gdb).*(Exception|error)" gdb.core | head -n 3)"
[ "$(sed -n '/^@@harts/,/^@@caches/p' gdb.core | grep -c ' LWP [12] ')" -eq 2 ] || fail "the core has not the registers of two harts"
echo "the same on the core"
look image -ex "qm image $scratch/memory 0x80000000"
same before image || fail "image: $(grep -iE "(Python|gdb).*(Exception|error)" gdb.image | head -n 3)"
echo "the same on the memory image"
# A function is known by its name, also in the form printed in reports; names are completed.
asked=(-ex "qm image $scratch/memory 0x80000000" -ex 'qm whatis packet_alloc' -ex 'qm whatis packet_alloc+0x4/0x10' -ex 'qm whatis qm::demo::run_worker'
  -ex "qm whatis &'qm::trace::tracer'" -ex 'qm whatis qm::trace::tracer' -ex 'complete qm traces pack' -ex 'complete qm caches pack'
  -ex 'complete qm stacks kpa' -ex 'complete qm wh' -ex 'complete qm growth ' -ex 'qm kmemstat kmalloc' -ex 'python print(site_text(gdb.parse_and_eval("&qm_untagged_site")))')
gdb-multiarch -q -nx -batch -ex "source $commands" "${asked[@]}" "$image" >asked 2>&1
for line in '^code packet_alloc\+0x0/' '^code packet_alloc\+0x4/' '^code qm::demo::run_worker\+0x0/' '^qm traces packet$' '^qm caches packet$' \
  '^qm stacks kpages$' '^qm whatis$' '^qm growth m$' '^kheap ' '^<untagged>:0 func:<untagged>$'; do
  grep -qE "$line" asked || fail "no line $line in $(cat asked)"
done
[ "$(grep -c '^whatis 0x.*: complete$' asked)" -eq 5 ] || fail "$(cat asked)"
[ "$(grep '^whatis 0x' asked | tail -n 2 | sort -u | wc -l)" -eq 1 ] || fail "a variable is not where its address is: $(cat asked)"
gdb-multiarch -q -nx -batch -ex "source $commands" -ex 'complete qm traces pack' "$image" >asked 2>&1
if grep -q 'Exception' asked; then fail "$(cat asked)"; fi
echo "functions by name, and names completed"
# NAME and NUMBER may be GDB expressions.
gdb-multiarch -q -nx -batch -ex "source $commands" -ex "qm image $scratch/memory 0x80000000" -ex 'set $top = 2' -ex 'qm allocinfo $top' \
  -ex 'python gdb.set_convenience_variable("cache", [c for c in caches() if name_of(c) == "packet"][0].address)' \
  -ex 'echo @@name\n' -ex 'qm kmemstat packet' -ex 'echo @@symbol\n' -ex 'qm kmemstat $cache' -ex 'echo @@object\n' -ex 'qm kmemstat *$cache' "$image" >asked 2>&1
grep -q '^# sites 2 of ' asked || fail "allocinfo of two: $(cat asked)"
for way in symbol object; do
  diff <(sed -n '/^@@name/,/^@@/p' asked | grep -v '^@@') <(sed -n "/^@@$way/,/^@@/p" asked | grep -v '^@@') || fail "a $way is no name: $(cat asked)"
done
echo "arguments may be expressions"
# Damaged memory: links lead back, to nowhere, or are random. Every command must end, and none by an exception.
cat >damage.py <<'PYTHON'
import random

def place(value):
    return int(value.address)

def spoil(how, seed):
    """Addresses, with what is to be written there in eight bytes."""
    cache = [c for c in caches() if name_of(c) == "packet"][0]
    entry = cache.address.cast(gdb.lookup_type("qm::Traceable").pointer()).dereference()
    ring = cache["slabs_"]["full_" if int(plain(cache["slabs_"]["usable_"]["first_"])) == 0 else "usable_"]
    slab = plain(ring["first_"]).dereference()
    base = base_arena()
    tag = base["ends_"]["next"].dereference()["next"].dereference()
    if how == "round":
        return [(place(entry["next_"]), place(entry)), (place(slab["next"]), place(slab)), (place(tag["next"]), place(tag))]
    if how == "nowhere":
        return [(place(entry["next_"]), 0x8), (place(slab["next"]), 0x10), (place(tag["next"]), 0x18)]
    source = random.Random(seed)
    words = []
    for one in [place(cache), place(slab) - 512, place(tag), int(number(cache["traced_source"]))]:
        words += [(one + 8 * source.randrange(64), source.getrandbits(64)) for _ in range(12)]
    return words

def write(file, how, seed):
    with open(file, "r+b") as image:
        for address, word in spoil(how, seed):
            if 0 <= address - 0x80000000 < 0x4000000:
                image.seek(address - 0x80000000)
                image.write(word.to_bytes(8, "little"))
PYTHON
for how in 'round 0' 'nowhere 0' 'any 1' 'any 2' 'any 3'; do
  cp memory damaged
  read -r kind seed <<<"$how"
  gdb-multiarch -q -nx -batch -ex "source $commands" -ex "qm image $scratch/memory 0x80000000" -ex 'source damage.py' \
    -ex "python write('damaged', '$kind', $seed)" "$image" >damaged.log 2>&1 || fail "$(cat damaged.log)"
  cmp -s memory damaged && fail "nothing was damaged: $(cat damaged.log)"
  # A command that fails ends a script, so each is tried separately.
  for verb in caches stacks 'traces *' "whatis $object" $totals; do
    echo "python
try:
    gdb.execute('qm ${verb/#marked/growth m}')
except gdb.error as error:
    print('refused: %s' % error)
end"
  done >every.gdb
  timeout 120 gdb-multiarch -q -nx -batch -ex "source $commands" -ex "qm image $scratch/damaged 0x80000000" -x every.gdb "$image" >damaged.log 2>&1
  status=$?
  [ $status -eq 0 ] || fail "damage $how: status $status, $(tail -n 20 damaged.log)"
  if grep -qE 'Python Exception|Traceback' damaged.log; then fail "damage $how: $(grep -B5 -A5 -E 'Python Exception|Traceback' damaged.log)"; fi
  [ "$kind" = any ] || grep -q 'memory is damaged\|end where memory does' damaged.log || fail "damage $how is not told: $(tail -n 20 damaged.log)"
done
echo "every command ends on damaged memory"
# Each request that cannot be answered gives one line, with and without a target.
refused() { # LINE GDB ARGUMENT...
  local line=$1
  shift
  gdb-multiarch -q -nx -batch -ex "source $commands" "$@" "$image" >refused 2>&1
  if grep -q "Python Exception" refused || ! grep -qF -e "$line" refused; then fail "$* says $(cat refused)"; fi
}
refused 'is there a target, and has it booted?' -ex 'qm caches'
refused 'usage: qm whatis ADDRESS|NAME' -ex 'qm whatis'
refused 'No such mark nosuch' -ex "qm image $scratch/memory 0x80000000" -ex 'qm growth nosuch'
refused 'No symbol "nosuch" in current context.' -ex 'qm whatis nosuch'
refused 'No such file or directory' -ex 'qm image /nonexistent 0x80000000'
refused 'whatis 0xffffffff' -ex "qm image $scratch/memory 0x80000000" -ex 'qm whatis -1'
echo "what cannot be answered is one line each"
