# What the tests of examples share; sourced with BUILD and SOURCE as arguments.
set -eu -o pipefail
build=$1 source=$2
scratch=$(mktemp -d)
transcript=$scratch/transcript qemu=''
leave() {
  [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
  rm -rf "$scratch"
}
trap leave EXIT

fail() {
  [ ! -s "$transcript" ] || tail -n 60 "$transcript"
  echo "FAILED: $*"
  exit 1
}

# Status 77, which ctest takes for skipped.
skip() {
  echo "skipped: $*"
  exit 77
}

quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; fail "$*"; }; }

need_picolibc() { [ -d /usr/lib/picolibc/riscv64-unknown-elf ] || skip "the package picolibc-riscv64-unknown-elf is missing"; }

# Installs the package, builds the example against it, and sets the image and what lies below it.
build_for_target() { # EXAMPLE [options of cmake]
  local name=$1
  shift
  quietly cmake --install "$build" --prefix "$scratch/qm"
  quietly cmake -G Ninja -S "$source/examples/$name" -B "$scratch/target" -D CMAKE_BUILD_TYPE=RelWithDebInfo \
    -D CMAKE_PREFIX_PATH="$scratch/qm" --toolchain "$scratch/qm/share/quartermaster/cmake/toolchains/riscv64.cmake" "$@"
  quietly cmake --build "$scratch/target"
  image=$scratch/target/$name.elf
  bios=default
  if grep -q qemu_virt_machine "$scratch/qm"/lib/cmake/quartermaster/quartermaster-config.cmake; then bios=none; fi
}

boot() { # options of QEMU; what is written to descriptor 3 is typed
  mkfifo "$scratch/input"
  exec 3<>"$scratch/input"
  timeout 200 qemu-system-riscv64 -machine virt -bios $bios -nographic -no-reboot -kernel "$image" "$@" <&3 >"$transcript" 2>&1 &
  qemu=$!
}

printed() { tr -d '\r' <"$transcript"; }

# Waits until the console has printed $prompts prompts in all.
await_prompt() {
  local i
  for ((i = 0; i < 900; ++i)); do
    if [ "$(printed | grep -c '^qm> ')" -ge "$prompts" ]; then return; fi
    kill -0 "$qemu" 2>/dev/null || break
    sleep 0.1
  done
  fail "prompt $prompts never came"
}
