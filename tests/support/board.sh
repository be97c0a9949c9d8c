# A board in QEMU with a console for a test to type to; sourced with $scratch, the folder of its output files.
transcript=$scratch/transcript qemu='' prompts=1 prompt='qm> '
patience=90 # seconds for a prompt at least
leave() {
  [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
  rm -f "$scratch/input"
}
trap leave EXIT

fail() {
  [ ! -s "$transcript" ] || tail -n 60 "$transcript"
  echo "FAILED: $*"
  exit 1
}

# Ends with status 77, which ctest interprets as skipped.
skip() {
  echo "skipped: $*"
  exit 77
}

quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; fail "$*"; }; }

# Text written to descriptor 3 is typed.
boot_image() { # XLEN, IMAGE, options of QEMU
  local xlen=$1 image=$2
  shift 2
  rm -f "$scratch/input"
  mkfifo "$scratch/input"
  exec 3<>"$scratch/input"
  : >"$transcript"  # the last image's prompts must not be taken for this one's
  timeout $((patience * 2 + 20)) "qemu-system-riscv$xlen" -machine virt -nographic -kernel "$image" "$@" <&3 >"$transcript" 2>&1 &
  qemu=$!
  prompts=1
}

# A reader that stops early, such as grep -q, may end before tr has written everything: that is no failure.
printed() { tr -d '\r' <"$transcript" || true; }

# Waits until the console has printed the prompt $prompt $prompts times in total.
await_prompt() {
  local i
  for ((i = 0; i < patience * 10; ++i)); do
    if [ "$(printed | grep -c "^$prompt")" -ge "$prompts" ]; then return; fi
    kill -0 "$qemu" 2>/dev/null || break
    sleep 0.1
  done
  fail "prompt $prompts never came"
}

# Types each line at its own prompt.
type_lines() {
  local line
  for line in "$@"; do
    await_prompt
    printf '%s\n' "$line" >&3
    prompts=$((prompts + 1))
  done
}
