#!/usr/bin/env bash
# Follows a document as a new user does: in an empty folder, with only the installed package.
#
#   walk.sh BUILD SOURCE DOCUMENT HEADING
#
# The section "## HEADING" of DOCUMENT, in order: a block after a paragraph that begins with `NAME` becomes the file
# NAME, a block `sh` is run, a block `console` is typed to the QEMU that the last block `sh` has started: `qm> LINE` is
# typed, all other lines are expected in this order, where an address stands for any address, and a line `...` for
# nothing.
#
# A block after a paragraph with "In the checkout" is run there, except `cmake --preset` and `cmake --build`: the preset
# must exist, and BUILD, which ./test has made, stands for its build. Then checkout and build tree are hidden: an empty
# folder is mounted over them, in a mount namespace of this test. If no namespace is available, this is not tested; but
# no installed file and no file of the project may name them.
set -eu -o pipefail

if [ $# -eq 4 ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  cp "$0" "$scratch/walk.sh"
  build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
  awk -v heading="## $4" '/^## / { in_section = $0 == heading } in_section' "$source/$3" >"$scratch/section"
  [ -s "$scratch/section" ] || { echo "no section $4 in $3"; exit 1; }
  # Paths that begin with build/ are those of the document; this build is elsewhere.
  export HOME=$scratch/home
  mkdir "$HOME"
  unset CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_COMPILER_LAUNCHER
  # Steps of the section, one file each: NNN.checkout, NNN.file (the name is its first line), NNN.sh, NNN.console.
  mkdir "$scratch/steps" "$scratch/project"
  awk -v steps="$scratch/steps" '
    /^```/ && !inside {
      inside = 1
      kind = paragraph ~ /^`[^`]*`/ ? "file" : paragraph ~ /[Ii]n the checkout/ ? "checkout" : substr($0, 4)
      out = sprintf("%s/%03d.%s", steps, ++count, kind)
      if (kind == "file") { split(paragraph, parts, "`"); print parts[2] > out }
      paragraph = ""
      next
    }
    /^```$/ { inside = 0; close(out); next }
    inside { print > out; next }
    NF { paragraph = blank ? $0 : paragraph " " $0 }
    { blank = !NF }' "$scratch/section"
  for step in "$scratch"/steps/*.checkout; do
    (cd "$source" && cmake --list-presets) >"$scratch/presets"
    sed -nE 's/^cmake .*--preset ([a-z-]+).*/\1/p' "$step" | while read -r preset; do
      grep -q "\"$preset\"" "$scratch/presets" || { echo "no preset $preset"; exit 1; }
    done
    sed -E "/^cmake --(preset|build)/d; s|build/[a-z-]+|'$build'|" "$step" >"$scratch/checkout.sh"
    (cd "$source" && sh -eu "$scratch/checkout.sh") >"$scratch/checkout.log" || { cat "$scratch/checkout.log"; exit 1; }
    rm "$step"
  done
  if unshare -m true 2>/dev/null; then
    unshare -m bash "$scratch/walk.sh" "$scratch" "$build" "$source"
  elif unshare -rm true 2>/dev/null; then
    unshare -rm bash "$scratch/walk.sh" "$scratch" "$build" "$source"
  else
    echo "no mount namespace here: the checkout stays readable"
    bash "$scratch/walk.sh" "$scratch" "$build" "$source"
  fi
  exit
fi

scratch=$1 build=$2 source=$3
fail() {
  echo "FAILED: $*"
  exit 1
}
if [ "$(readlink /proc/self/ns/mnt)" != "$(readlink /proc/$PPID/ns/mnt 2>/dev/null)" ]; then
  cd /
  for hidden in "$build" "$source"; do
    [ -d "$hidden" ] && mount -t tmpfs none "$hidden"
    [ -z "$(ls -A "$hidden" 2>/dev/null)" ] || fail "$hidden can still be seen"
  done
  echo "checkout and build tree are out of sight"
fi

cd "$scratch/project"
transcript=$scratch/transcript input=$scratch/input qemu=''
mkfifo "$input"
leave() {
  [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
}
trap leave EXIT

prompts() { grep -o 'qm> ' "$transcript" | wc -l; }
wait_for_prompt() { # how many there have to be
  local i
  for ((i = 0; i < 600; ++i)); do
    [ "$(prompts)" -ge "$1" ] && return
    kill -0 "$qemu" 2>/dev/null || break
    sleep 0.1
  done
  cat "$transcript"
  fail "prompt $1 never came"
}

run_shell() { # FILE: all but the command that starts QEMU, which gets a line that a block `console` can type on
  sed '/^qemu-system/,$d' "$1" >"$1.first"
  sed -n '/^qemu-system/,$p' "$1" >"$1.last"
  bash -eu "$1.first" >"$1.log" 2>&1 || { cat "$1.log"; fail "$(cat "$1.first")"; }
  [ -s "$1.last" ] || return 0
  leave
  exec 3<>"$input"
  timeout 120 bash -eu "$1.last" <&3 >"$transcript" 2>&1 &
  qemu=$!
}

masked() { tr -d '\r' | sed -E 's/0x[0-9a-f]+/@/g; s/ +/ /g; s/ $//'; }

run_console() { # FILE
  local line typed=0
  while IFS= read -r line; do
    case $line in
      'qm> '*)
        typed=$((typed + 1))
        wait_for_prompt "$typed"
        printf '%s\n' "${line#qm> }" >&3
        ;;
    esac
  done <"$1"
  wait_for_prompt $((typed + 1))
  # Each expected line, in order.
  grep -v '^\.\.\.$' "$1" | masked >"$1.expected"
  masked <"$transcript" | sed 's/.*\(qm> \)/\1/' >"$1.printed"
  awk 'NR == FNR { want[++count] = $0; next } at < count && index($0, want[at + 1]) == 1 { ++at }
    END { if (at < count) { print "not printed: " want[at + 1]; exit 1 } }' "$1.expected" "$1.printed" || {
    cat "$transcript"
    fail "what the console printed is not what the document shows"
  }
  leave
  qemu=''
}

blocks=0
for step in "$scratch"/steps/*; do
  case $step in
    *.file) sed 1d "$step" >"$(head -n 1 "$step")" ;;
    *.sh) run_shell "$step" ;;
    *.console) run_console "$step"; blocks=$((blocks + 1)) ;;
  esac
done
[ "$blocks" -gt 0 ] || fail "the section shows no console"
# No file may refer to the place where the package was built.
for hidden in "$build" "$source"; do
  found=$(grep -rlIF -- "$hidden" "$HOME" "$scratch/project" || true)
  [ -z "$found" ] || fail "$hidden is named by $found"
done
echo "$blocks sessions as documented"
