# Functions that the tests of examples share; sourced with BUILD and SOURCE as arguments.
set -eu -o pipefail
build=$1 source=$2
scratch=$(mktemp -d)
# shellcheck source=tests/support/board.sh
. "$source/tests/support/board.sh"
trap 'leave; rm -rf "$scratch"' EXIT

need_picolibc() { [ -d /usr/lib/picolibc/riscv64-unknown-elf ] || skip "the package picolibc-riscv64-unknown-elf is missing"; }

# Installs the package, builds the example with it, and sets the image and the firmware below it.
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

boot() { boot_image 64 "$image" -bios "$bios" -no-reboot "$@"; } # options of QEMU
