#!/bin/sh
# start_scripts.sh SOURCE FOLDER: ./run and ./qm start built programs without write access, and report what is missing.
# The tool, the image and the programs that would build are stand-ins.
set -u
source=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder/tree" "$folder/tools" "$folder/tree/build/host-release/host" "$folder/tree/build/target-release/firmware/demo" || exit 1
for program in cmake ninja dpkg-query apt-get sudo; do
  printf '#!/bin/sh\nexit 77\n' >"$folder/tools/$program"
done
printf '#!/bin/sh\necho "started $*"\n' >"$folder/tree/build/host-release/host/qm"
printf '#!/bin/sh\n' >"$folder/tree/build/target-release/firmware/demo/quartermaster.elf"
chmod +x "$folder"/tools/* "$folder/tree/build/host-release/host/qm" "$folder/tree/build/target-release/firmware/demo/quartermaster.elf"
mkdir "$folder/tree/cmake"
cp "$source/run" "$source/qm" "$folder/tree"
cp "$source/cmake/build.sh" "$source/cmake/install-packages.sh" "$folder/tree/cmake"

cat >"$folder/cases.sh" <<'END'
set -u
folder=$1
PATH=$folder/tools:$PATH
export PATH
unset QM_BUILD_DIR QM_TRANSCRIPTS
expect() { # status words command...
  wanted=$1 words=$2
  shift 2
  "$@" >"$folder/log" 2>&1
  status=$?
  if [ $status -ne "$wanted" ] || ! grep -qF -- "$words" "$folder/log"; then
    cat "$folder/log"
    echo "error: $* ends with $status, or without \"$words\""
    exit 1
  fi
}
tree=$folder/tree
expect 0 'started check f.qm' "$tree/qm" check f.qm
expect 0 "started run --image $tree/build/target-release/firmware/demo/quartermaster.elf -c help" "$tree/run" -c help
expect 0 'started run --image other.elf' "$tree/run" --image other.elf
expect 3 "$tree/build/host-release/host/qm-analysis is not there: set QM_BUILD_DIR to another folder" "$tree/qm" report f.qm
QM_BUILD_DIR=elsewhere expect 3 "$tree/elsewhere/host-release/host/qm is not there" "$tree/qm" check f.qm
END

# Root may write everywhere, unless the file system forbids it.
if [ "$(id -u)" -ne 0 ]; then
  chmod -R a-w "$folder/tree"
  sh "$folder/cases.sh" "$folder"
  status=$?
  chmod -R u+w "$folder/tree"
  exit $status
fi
unshare -m true 2>/dev/null || { echo "no mount namespace here"; exit 77; }
exec unshare -m sh -c 'mount --bind "$1/tree" "$1/tree" && mount -o remount,ro,bind "$1/tree" && sh "$1/cases.sh" "$1"' sh "$folder"
