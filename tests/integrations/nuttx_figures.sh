#!/usr/bin/env bash
# The cost of ostest and of the apps' heap test with each memory manager of NuttX, in rv-virt:nsh64: nuttx_figures.sh
# BUILD SOURCE
#
# Seconds on a processor that runs one instruction a nanosecond, from NSH's `time` (ostest mostly waits, the heap test
# never), and the most memory that was ever in use, from NSH's `free`, in bytes. This is no test: it builds NuttX up to
# four times. The TLSF manager needs peers/tlsf next to nuttx.tar.zst.
set -eu -o pipefail
build=$1 source=$(cd "$2" && pwd) config=nsh64
figures() { # NAME, MANAGER [SETTING ...]
  local name=$1 manager=$2
  shift 2
  folder=nuttx-figures-$name
  # shellcheck source=tests/integrations/nuttx_build.sh
  . "$source/tests/integrations/nuttx_build.sh"
  prepare_nuttx "$manager"
  if [ "$manager" = TLSF ] && [ ! -e mm/tlsf/tlsf ]; then
    local folder
    for folder in "${QM_THIRD_PARTY:-}" "$source/../shared/third_party"; do
      if [ -d "$folder/peers/tlsf" ]; then cp -r "$folder/peers/tlsf" mm/tlsf/tlsf; break; fi
    done
    chmod -R u+w mm/tlsf/tlsf
    mkdir mm/tlsf/tlsf/.git  # otherwise the Makefile downloads it
    (cd mm && for patch in tlsf/000*.patch; do patch -s -p0 <"$patch"; done)
  fi
  if [ $# -gt 0 ]; then configure_nuttx "$@"; fi
  build_nuttx
  boot_nuttx -icount 'shift=0,sleep=off'
  type_lines 'time ostest' free 'time heap' free
  quit_nuttx
  answer 'time ostest' | grep -q 'ostest_main: Exiting with status 0' || fail ostest
  printed | awk -v name="$name" '/^[0-9]+[.][0-9]+ sec$/ { seconds[++n] = $1 } / Umem$/ { most[++m] = $4 }
    END { printf "%-20s ostest %s s, at most %7d bytes; heap %s s, %7d bytes\n", name, seconds[1], most[1], seconds[2], most[2] }'
}
if [ $# -gt 2 ]; then shift 2; else set -- default tlsf quartermaster quartermaster_alone; fi
for name in "$@"; do
  case $name in
    default) (figures default DEFAULT) ;;
    tlsf) (figures tlsf TLSF) ;;
    quartermaster) (figures quartermaster CUSTOMIZE) ;;
    quartermaster_alone) (figures quartermaster_alone CUSTOMIZE CONFIG_QUARTERMASTER_TRACE=n CONFIG_QUARTERMASTER_COMMANDS=n) ;;
  esac
done
