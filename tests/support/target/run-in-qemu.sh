#!/bin/sh
# Boots a test image in QEMU and keeps the output of its serial line.
#
#   run-in-qemu.sh [--harts N] [--mode plain|icount|slices|singlestep] [--timeout SECONDS] [--status N] [--append TEXT]
#                  [--board virt|spike|sifive_u] [--ram SIZE] [--qemu PROGRAM] [--bios NAME] [--plugin TEXT] --transcript FILE IMAGE
#
# Status: 0 if the image's own status (from the test finisher) equals --status (default 0); else 1, after the
# transcript's last lines and its place were printed. A run that takes longer than --timeout is killed and fails.
# QM_SEED is passed on as `seed=N`, QM_STEPS as `steps=N`, QM_FILTER as `filter=PATTERN`. QM_QEMU overrides --qemu.
# Standard input is not read.
set -u

harts=1 mode=plain board=virt timeout=60 expected=0 append='' transcript='' ram=128M qemu=qemu-system-riscv64 bios=default plugin=''
while [ $# -gt 1 ]; do
  case $1 in
    --harts) harts=$2 ;;
    --mode) mode=$2 ;;
    --timeout) timeout=$2 ;;
    --status) expected=$2 ;;
    --append) append=$2 ;;
    --board) board=$2 ;;
    --ram) ram=$2 ;;
    --qemu) qemu=$2 ;;
    --bios) bios=$2 ;;
    --plugin) plugin=$2 ;;
    --transcript) transcript=$2 ;;
    *) echo "run-in-qemu.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
if [ $# -ne 1 ] || [ -z "$transcript" ]; then
  echo "run-in-qemu.sh: needs --transcript FILE and an image" >&2
  exit 2
fi
image=$1
append="$append mode=$mode"
[ -n "${QM_SEED:-}" ] && append="$append seed=$QM_SEED"
[ -n "${QM_STEPS:-}" ] && append="$append steps=$QM_STEPS"
[ -n "${QM_FILTER:-}" ] && append="$append filter=$QM_FILTER"

case $mode in
  plain) options='' ;;
  icount) options='-icount shift=0,sleep=off' ;;
  # The filter's timer ends each hart's turn within 1 ms. Without it, a hart that spins with interrupts masked has a turn of 2 s if no
  # other hart's timer is to expire.
  slices)
    options='-icount shift=0,sleep=off -netdev hubport,id=net,hubid=0 -object filter-buffer,id=turns,netdev=net,queue=rx,interval=1000'
    append="$append slices=20"
    ;;
  singlestep) options=-singlestep ;;
  *) echo "run-in-qemu.sh: unknown mode $mode" >&2; exit 2 ;;
esac

# One hart of sifive_u has no S-mode, and only semihosting can end QEMU with a status there.
if [ "$board" = sifive_u ]; then
  harts=$((harts + 1)) options="$options -semihosting-config enable=on,target=native"
fi

mkdir -p "$(dirname "$transcript")"
# shellcheck disable=SC2086 # $options is a list of words
timeout --kill-after=5 "$timeout" "${QM_QEMU:-$qemu}" -machine "$board" -bios "$bios" -smp "$harts" -m "$ram" \
  -nographic -monitor none -serial stdio -no-reboot $options ${plugin:+-plugin "$plugin"} -kernel "$image" -append "$append" \
  </dev/null >"$transcript" 2>&1
status=$?

case $status in
  124|137) verdict="killed after $timeout s" ;;
  *) verdict="status $status" ;;
esac
if [ "$status" -eq "$expected" ]; then
  tail -n 1 "$transcript" | tr -d '\r'
  exit 0
fi
# Leaves out the SBI firmware's banner.
tr -d '\r' <"$transcript" | sed '/^OpenSBI v/,/^Boot HART MEDELEG/d' | tail -n 60
echo "$image on $harts harts ($mode): $verdict; expected status $expected"
grep '^\[ RUN' "$transcript" | tail -n 1 | tr -d '\r' | sed 's/^/last case: /'
echo "transcript: $transcript"
exit 1
