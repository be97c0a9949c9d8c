#!/usr/bin/env bash
# The library as a subproject of firmware that is built by Meson, RV64: meson.sh SOURCE COMPILER_PREFIX
set -eu -o pipefail
source=$(cd "$1" && pwd) prefix=$2
command -v meson >/dev/null || { echo "skipped: meson is missing: apt install meson"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
cd "$scratch"
mkdir -p subprojects port
ln -s "$source" subprojects/quartermaster
cp "$source"/tests/package/small/{leak.c,board.c,board.h,start.S,firmware.ld} .
cp "$source/tests/package/small/qm_port.hpp" port
cat >cross.ini <<END
[binaries]
c = '${prefix}gcc'
cpp = '${prefix}g++'
ar = '${prefix}ar'
strip = '${prefix}strip'
[built-in options]
c_args = ['-march=rv64gc', '-mabi=lp64d', '-ffreestanding', '-fno-pie', '-mcmodel=medany', '-ffunction-sections', '-fno-stack-protector',
  '-fno-omit-frame-pointer', '-fno-optimize-sibling-calls']
cpp_args = ['-march=rv64gc', '-mabi=lp64d', '-fno-pie']
[host_machine]
system = 'none'
cpu_family = 'riscv64'
cpu = 'rv64gc'
endian = 'little'
[properties]
skip_sanity_check = true
END
cat >meson.build <<'END'
project('firmware', 'c', 'cpp', default_options: ['buildtype=minsize'])
quartermaster = dependency('quartermaster', fallback: 'quartermaster', default_options: ['port=port', 'magazines=false', 'page_bytes=512'])
script = meson.current_source_dir() / 'firmware.ld'
executable('firmware', 'leak.c', 'board.c', 'start.S', name_suffix: 'elf', dependencies: quartermaster, link_depends: script,
  link_args: ['-nostdlib', '-static', '-no-pie', '-Wl,--gc-sections', '-Wl,--no-warn-rwx-segments', '-Wl,--build-id=none', '-T', script, '-lgcc'])
END
meson setup --cross-file cross.ini build >log 2>&1 || { tail -n 30 log; fail "meson setup"; }
ninja -C build >log 2>&1 || { tail -n 30 log; fail "ninja"; }
timeout --kill-after=5 60 qemu-system-riscv64 -machine virt -m 16M -nographic -monitor none -serial stdio -bios none -kernel build/firmware.elf </dev/null | tee said
grep -q '^the trace works' said || fail "the firmware"
# Errors are reported: a missing port, and a program of the host.
rm port/qm_port.hpp
if meson setup --cross-file cross.ini without >log 2>&1; then fail "a project without a port is configured"; fi
grep -q 'no qm_port.hpp in' log || { tail log; fail "no word of the port"; }
if meson setup native >log 2>&1; then fail "a program of the host is configured"; fi
grep -q 'for RISC-V: name a cross file' log || { tail log; fail "no word of the cross file"; }
