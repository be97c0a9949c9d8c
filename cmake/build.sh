# Sourced by ./run and ./qm, with $root set: builds the programs that they start.
#
#   prepare PACKAGES PRESET/TARGET...   installs the missing packages of that group and builds the targets, in a subshell,
#                                       so that its lock ends with it. If it fails, it prints the reason and exits with 3.
#                                       If it may not write to the build folder, it uses what is built there.
#   file_of PRESET/TARGET               prints the path of the built target
# Sets $build, the build folder. QM_BUILD_DIR selects another one.
build=${QM_BUILD_DIR:-$root/build}
case $build in /*) ;; *) build=$root/$build ;; esac

file_of() {
  case $1 in
    sifive_e/*) echo "$build/sifive_e/firmware/$1" ;;
    *.elf) echo "$build/${1%%/*}/firmware/demo/${1#*/}" ;;
    *) echo "$build/${1%%/*}/host/${1#*/}" ;;
  esac
}

prepare() (
  packages=$1
  shift
  if ! mkdir -p "$build" 2>/dev/null || [ ! -w "$build" ]; then
    for wanted in "$@"; do
      [ -x "$(file_of "$wanted")" ] && continue
      echo "error: $build cannot be written to, and $(file_of "$wanted") is not there: set QM_BUILD_DIR to another folder" >&2
      exit 3
    done
    exit 0
  fi
  sh "$root/cmake/install-packages.sh" "$packages" || exit 3
  # Several calls may run at once; only one of them builds at a time.
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$build/.run-lock"
    flock 9
  fi
  for wanted in "$@"; do build_target "${wanted%%/*}" "${wanted#*/}"; done
)

# Builds one target of one preset; prints the output if that fails.
build_target() { # preset target
  log=$build/$1-run.log
  if [ ! -f "$build/$1/build.ninja" ]; then
    # Without the tests, which need another package; ./test configures them.
    (cd "$root" && cmake --preset "$1" -B "$build/$1" -D QM_TESTS=OFF) >"$log" 2>&1 </dev/null || failed "$1" "$log"
  elif ! ninja -C "$build/$1" -t query "$2" >/dev/null 2>&1; then
    # A package that the target needs may have been installed since.
    cmake "$build/$1" >"$log" 2>&1 </dev/null || failed "$1" "$log"
  fi
  case $(ninja -C "$build/$1" -n "$2" 2>&1) in
    *'no work to do'*) return ;;
  esac
  echo "building $2 ($1)" >&2
  ninja -C "$build/$1" "$2" >"$log" 2>&1 </dev/null || failed "$1" "$log"
}

failed() { # preset log
  tail -n 40 "$2" >&2
  echo "error: $1 cannot be built; the whole log is $2" >&2
  exit 3
}
