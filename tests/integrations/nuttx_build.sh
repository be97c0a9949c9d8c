# NuttX with a memory manager, for rv-virt; sourced with $source, $build, $config and $folder set, the name of the
# folder for the build.
work=$build/integrations/$folder
mkdir -p "$work"
work=$(cd "$work" && pwd)
# shellcheck disable=SC2034 # used by board.sh
scratch=$work
# shellcheck source=tests/support/board.sh
. "$source/tests/support/board.sh"
# shellcheck source=tests/integrations/third_party.sh
. "$source/tests/integrations/third_party.sh"
case $config in
  nsh64 | smp64) xlen=64 ;;
  nsh) xlen=32 ;;
esac
harts=1
# shellcheck disable=SC2034 # used by board.sh
patience=400 # ostest alone takes 100 s if it waits in real time
[ "$config" != smp64 ] || harts=8
image=$work/nuttx/nuttx

# Configures NuttX: CONFIG_NAME=VALUE, n for off.
configure_nuttx() { # SETTING ...
  local setting name
  for setting in "$@"; do
    name=${setting%%=*}
    sed -i -E "/^(# )?$name[= ]/d" .config
    if [ "${setting#*=}" != n ]; then echo "$setting" >>.config; fi
  done
  make olddefconfig >/dev/null 2>&1
}

# Unpacks and configures NuttX once. DEVICE_TREE would download. Debian's compiler has no libm. Frame pointers and the
# allocator need stack space. ostest's spin locks go round 10^5 times instead of 10^7. smp64 has no frame pointers.
prepare_nuttx() { # MANAGER, as DEFAULT
  command -v kconfig-conf >/dev/null && command -v genromfs >/dev/null || skip 'the packages kconfig-frontends and genromfs are missing'
  command -v riscv64-unknown-elf-gcc >/dev/null || skip 'the package gcc-riscv64-unknown-elf is missing'
  unpack_third_party nuttx 'NuttX and its apps' \
    'git clone https://github.com/apache/nuttx && git clone https://github.com/apache/nuttx-apps apps && tar --zstd -cf nuttx.tar.zst nuttx apps'
  ln -sfn "$source/integrations/nuttx" "$work/apps/quartermaster"
  ln -sfn "$source/tests/integrations/nuttx" "$work/apps/qm_tests"
  cd "$work/nuttx"
  if [ ! -e configured ]; then
    quietly ./tools/configure.sh -l "rv-virt:$config"
    sed -i -E 's/^(CONFIG_[A-Z0-9_]*STACKSIZE)=(2048|3072)$/\1=4096/' .config
    configure_nuttx CONFIG_LIBC_FDT=n CONFIG_DEVICE_TREE=n CONFIG_LIBM_TOOLCHAIN=n CONFIG_LIBM_NONE=y CONFIG_MM_DEFAULT_MANAGER=n "CONFIG_MM_$1_MANAGER=y" "CONFIG_FRAME_POINTER=$([ "$config" = smp64 ] && echo n || echo y)" \
      CONFIG_DEFAULT_TASK_STACKSIZE=4096 CONFIG_PTHREAD_STACK_DEFAULT=4096 CONFIG_ARCH_INTERRUPTSTACK=4096 CONFIG_INIT_STACKSIZE=8192 CONFIG_SYSTEM_NSH_STACKSIZE=8192 \
      CONFIG_MM_REGIONS=2 CONFIG_PIPES=y CONFIG_TESTING_OSTEST=y CONFIG_TEST_LOOP_SCALE=1 CONFIG_TESTING_HEAP=y CONFIG_TESTING_MEMORY_STRESS=y CONFIG_BOARDCTL_POWEROFF=y "CONFIG_CCACHE=$(command -v ccache >/dev/null && echo y || echo n)"
    touch configured
  fi
}

# NuttX is built once, so its dependencies are not listed, and its apps here are always compiled. Its makefiles ask the
# compiler for the libgcc 2500 times, and for RV32 Debian's compiler names the libgcc of another processor, because
# -march= has extensions after a _. The library is compiled in few pieces, because that is faster.
build_nuttx() {
  local abi=lp64d libgcc
  [ "$xlen" = 64 ] || abi=ilp32d
  libgcc=$(riscv64-unknown-elf-gcc "-march=rv${xlen}imafdc" "-mabi=$abi" -print-libgcc-file-name)
  find "$work"/apps/{quartermaster,qm_tests}_build -name '*.o' -delete 2>/dev/null || true
  quietly make -j2 MKDEP=true "COMPILER_RT_LIB=$libgcc" 'QM_CMAKE_OPTIONS=-D QM_UNITY=ON -D QM_PCH=ON' CROSSDEV=riscv64-unknown-elf-
}

# NSH. The kernel's output is in the transcript too.
prompt='nsh> '
boot_nuttx() { # options of QEMU
  boot_image "$xlen" "$image" -machine aclint=on -bios none -semihosting -monitor none -serial stdio -smp "$harts" "$@"
}
quit_nuttx() {
  await_prompt
  kill "$qemu"
  wait "$qemu" || true
  qemu=''
  ! printed | grep -E 'PANIC|Assertion failed|EXCEPTION' || fail "NuttX has stopped"
}
# A background command first prints $2. This may happen in the middle of the line of the next prompt, for which there is
# no wait.
type_background() { # LINE, PATTERN
  local said='nsh: no_command: command not found'
  type_lines "$1"
  await_text "$2"
  printf 'no_command\n' >&3
  await_text "^$said"
  prompts=$(printed | awk -v said="$said" 'index($0, said) == 1 { exit } /^nsh> / { ++count } END { print count + 1 }')
}
await_text() { # PATTERN
  local i
  for ((i = 0; i < patience * 10; ++i)); do
    if printed | grep -q "$1"; then return; fi
    sleep 0.1
  done
  fail "no text $1"
}
# @returns the output of the command that was typed as $1, up to the next prompt.
answer() { printed | sed 's/\x1b\[K//g' | awk -v line="nsh> $1" '$0 == line { on = 1; next } /^nsh> / { on = 0 } on' || true; }
