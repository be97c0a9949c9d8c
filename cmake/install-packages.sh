#!/bin/sh
# Installs the Debian or Ubuntu packages that building, running or testing needs and that are missing; says which and why.
#
#   cmake/install-packages.sh run    what ./run needs: the firmware, QEMU, the host tool
#   cmake/install-packages.sh analysis  what qm report, export, diff and symbolize need beyond that
#   cmake/install-packages.sh test   what ./test needs beyond both
#   cmake/install-packages.sh formats  the programs that open what qm exports, in the tests named formats
#   cmake/install-packages.sh full   what ./test full needs beyond that
#   cmake/install-packages.sh bench  what bench/run needs beyond the first
#
# Status: 0 when nothing is missing (any more), 1 when something is and could not be installed; then the list says what.
# Quiet when nothing is missing: 20 ms.
set -u

packages_run='
cmake                    configures the build
ninja-build              builds
g++                      compiles the host tool
g++-riscv64-linux-gnu    compiles the firmware: the cross compiler that ships the C++ headers
qemu-system-misc         emulates the RISC-V board
opensbi                  the firmware below ours: starts harts, timers, interrupts between harts
libcli11-dev             command line of the host tool
libfmt-dev               text output of the host tool
zlib1g-dev               checksums and compression of captures
'
packages_analysis='
libdw-dev                reads names, files and lines from the image
nlohmann-json3-dev       reports in JSON
libprotozero-dev         exports to pprof
libsqlite3-dev           exports to SQLite
'
packages_test='
clang-19                 compiles the builds with sanitizers, in half of the time
libclang-rt-19-dev       its sanitizers
llvm-19                  names the places in their reports
valgrind                 finds bad accesses to free memory, of which a checking build tells it
lld-19                   links the firmware that Clang compiles
python3                  runs the tests: ./test
clang-format-14          holds the tree against .clang-format
spin                     searches the models of the concurrent arguments for errors
relacy-dev               runs the depot, the registry and the lock with the memory model of C++
doxygen                  makes the API reference, in the test that it makes no warning
mkdocs                   makes the site of the documents, in the test that it is whole
gdb-multiarch            reads the allocator and its trace on the target in the test of the GDB commands
curl                     fetches the program of examples/sqlite
picolibc-riscv64-unknown-elf  its C library
zstd                     unpacks the sources of foreign kernels
pkg-config               finds the package of a host build
meson                    builds firmware that has the library as a subproject
kconfig-frontends-nox    configures NuttX
genromfs                 makes its file system
gcc-riscv64-unknown-elf  compiles it
'
packages_formats='
chromium                 shows the page of qm report --html
nodejs                   drives it, by keyboard and, where its npm can fetch that, with axe-core
heaptrack                heaptrack_print, which opens the export to heaptrack
golang-go                go tool pprof, which opens the export to pprof
python3-jsonschema       validates exports that are JSON
sqlite3                  opens the export to SQLite
'
packages_full='
clang-tidy               looks for mistakes in the libraries and the host tool
python3-clang-19         finds the places that the mutants of tests/mutation change
'
packages_bench='
nlohmann-json3-dev            figures of benches
gnuplot-nox                   draws how costs grow
picolibc-riscv64-unknown-elf  the malloc that benches on the target compare with
libjemalloc2                  mallocs that the bench on the host compares with
libmimalloc2.0                "
libtcmalloc-minimal4          "
'

case ${1:-} in
  run) wanted=$packages_run ;;
  analysis) wanted=$packages_run$packages_analysis ;;
  test) wanted=$packages_run$packages_analysis$packages_test ;;
  formats) wanted=$packages_formats ;;
  full) wanted=$packages_full ;;
  bench) wanted=$packages_run$packages_bench ;;
  *) echo "usage: $0 run|analysis|test|formats|full|bench" >&2; exit 1 ;;
esac

names() { printf '%s\n' "$1" | awk 'NF { print $1 }'; }

if ! command -v dpkg-query >/dev/null 2>&1; then
  # Another distribution: believe that the programs stand for their packages.
  for program in cmake ninja g++ riscv64-linux-gnu-g++ qemu-system-riscv64; do
    command -v "$program" >/dev/null 2>&1 && continue
    echo "$program is missing. Install the equivalents of these Debian packages:" >&2
    printf '%s\n' "$wanted" | sed '/^$/d; s/^/  /' >&2
    exit 1
  done
  exit 0
fi

# shellcheck disable=SC2046 # a list of words
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $(names "$wanted") 2>/dev/null | awk '$2 == "installed" { print $1 }')
missing=
for name in $(names "$wanted"); do
  printf '%s\n' "$installed" | grep -qxF "$name" || missing="$missing $name"
done
[ -z "$missing" ] && exit 0

echo "Missing packages, to be installed now:" >&2
for name in $missing; do
  printf '%s\n' "$wanted" | awk -v name="$name" '$1 == name { print "  " $0 }' >&2
done

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "error: not root and no sudo; as root: apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
  as_root=sudo
fi
install() {
  # shellcheck disable=SC2086 # lists of words
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends $missing \
    </dev/null >&2
}
# The lists may be old or not there: try, fetch them, try again.
if ! install; then
  $as_root apt-get -q update </dev/null >&2
  install || {
    echo "error: could not install:$missing" >&2
    exit 1
  }
fi
