#!/usr/bin/env bash
# Boots the smoke image once and checks its output: smoke.sh ELF HARTS MODE [ARGUMENT...]
#
#   plain | icount | singlestep     all parts pass, status 0
#   exit                            QEMU's status is the image's
#   input                           receive interrupt, ring, lost bytes, Ctrl-C
#   fault NAME REGEX...             status 101, every expression in the report
#   no_float                        no floating point instruction in the image
#   board spike | sifive_u          as plain, on another board, and QEMU's status is the image's
#   names                           every function of the image has its name in the symbol table
set -u -o pipefail
: "${QM_NM:=riscv64-linux-gnu-nm}" "${QM_OBJDUMP:=riscv64-linux-gnu-objdump}"
elf=$1 harts=$2 mode=$3
shift 3
log=$(mktemp)
board=virt timebase=10000000 further=0  # further: harts without S-mode
trap 'rm -f "$log" "$log".*' EXIT

fail() {
  echo "FAILED: $*"
  echo "--- transcript"
  cat "$log"
  exit 1
}
# boot APPEND [QEMU ARGUMENT...]: runs to the end; the transcript so far, without CR, is in $log, the status in $status
boot() {
  local append=$1
  shift
  timeout 80 "${QM_QEMU:-qemu-system-riscv64}" -machine "$board" -m 128M -smp "$((harts + further))" -bios default -display none -monitor none \
    -serial stdio -kernel "$elf" -append "$append" "$@" | stdbuf -o0 tr -d '\r' >"$log"
  status=$?
}
expect() { grep -q -- "$1" "$log" || fail "missing: $1"; }

# Lines that all harts write at the same time must be whole: no line contains part of another.
judge_lines() {
  local online=$1 whole any
  whole=$(grep -c '^line [0-9]* of hart [0-9] abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 end$' "$log")
  any=$(grep -c 'abcdefghij\|of hart . abc' "$log")
  [ "$whole" -eq $((40 * online)) ] && [ "$any" -eq "$whole" ] || fail "$whole whole of $any lines, $((40 * online)) wanted"
}

pass() { # QEMU ARGUMENT...
  boot 'words in front' "$@" </dev/null
  [ "$status" -eq 0 ] || fail "status $status"
  expect '^smoke: passed$'
  local online=$((harts < 8 ? harts : 8))
  expect "^harts $online, online $online, left out $((harts - online)), timebase $timebase, ram 128 MiB$"
  expect '^bootargs words in front$'
  expect "^label on hart $((online - 1)): irq 129 from irq 128 from task"
  ! grep -q FAILED "$log" || fail 'a part failed'
  judge_lines "$online"
}

receive() {
  mkfifo "$log.in"
  boot input <"$log.in" &
  local qemu=$!
  exec 3>"$log.in"
  wait_for() {
    local i
    for ((i = 0; i < 400; ++i)); do
      grep -q -- "$1" "$log" && return
      sleep 0.05
    done
    fail "never came: $1"
  }
  wait_for '^ok: no task on a hart'
  printf 'hello there\n' >&3
  wait_for '^got 11 bytes, lost 0: hello there$'
  # sends 2001 bytes to a ring of 1024 bytes that has no reader
  printf 'sleep\n' >&3
  wait_for '^got 5 bytes, lost 0: sleep$'
  { printf 'x%.0s' $(seq 2000) && printf '\n'; } >&3
  wait_for '^woke, interrupted no$'
  printf '\n' >&3
  wait_for '^got 300 bytes, lost 977: xxxxx'
  # a Ctrl-C that arrives while the ring is full is still noticed
  printf 'sleep\n' >&3
  wait_for '^got 5 bytes, lost 977: sleep$'
  { printf 'y%.0s' $(seq 1500) && printf '\003'; } >&3
  wait_for '^woke, interrupted yes$'
  printf 'end\n' >&3
  wait_for '^got 3 bytes, lost 1454: end$'
  wait_for '^smoke: passed$'
  exec 3>&-
  wait "$qemu"
}

on_board() {
  local options=()
  board=$1
  if [ "$board" = sifive_u ]; then
    timebase=1000000 further=1
    options=(-semihosting-config 'enable=on,target=native')
  fi
  pass "${options[@]}"
  boot exit=7 "${options[@]}" </dev/null
  [ "$status" -eq 7 ] || fail "status $status, 7 wanted"
}

case $mode in
  plain) pass ;;
  board) on_board "$1" ;;
  icount) pass -icount shift=0,sleep=off ;;
  singlestep) pass -singlestep ;;
  exit)
    boot exit=7 </dev/null
    [ "$status" -eq 7 ] || fail "status $status, 7 wanted"
    ;;
  input) receive ;;
  fault)
    boot "fault=$1" </dev/null
    [ "$status" -eq 101 ] || fail "status $status, 101 wanted"
    shift
    expect '^backtrace:$'
    expect '^#01 \[<0x00000000802'
    expect '^\*\*\* system halted$'
    ! grep -q 'did not halt' "$log" || fail 'a hart did not halt'
    for text in "$@"; do expect "$text"; done
    ;;
  no_float)
    # The only intended one is in use_float().
    "$QM_OBJDUMP" -d --no-show-raw-insn "$elf" >"$log.dis" || fail "$QM_OBJDUMP"
    awk '/^[0-9a-f]+ <.*>:$/ { name = $2 } /^ *[0-9a-f]+:\t/ { if ($2 ~ /^(c\.)?f[a-z]/ && $2 !~ /^fence/) print name, $0 }' \
      "$log.dis" >"$log"
    rm -f "$log.dis"
    grep -q use_float "$log" || fail 'the search does not find the one on purpose'
    ! grep -v use_float "$log" || fail 'floating point instructions'
    ;;
  names)
    boot names </dev/null
    expect '^symbols [1-9][0-9]*, bytes [1-9]'
    # Start and size of each function with a size, from nm; the image also has labels.
    "$QM_NM" -S "$elf" | awk 'NF == 4 && $3 ~ /^[tTwW]$/ { sub(/^0+/, "", $2); print "0x" $1, "0x" $2 }' | sort -u >"$log.nm"
    sed -n 's/^function \(0x[0-9a-f]* 0x[0-9a-f]*\) .*/\1/p' "$log" | sort -u >"$log.own"
    missing=$(comm -23 "$log.nm" "$log.own")
    [ -s "$log.nm" ] && [ -z "$missing" ] || fail "functions without a name, or with another size: $missing"
    ;;
  *) fail "unknown mode $mode" ;;
esac
echo ok
