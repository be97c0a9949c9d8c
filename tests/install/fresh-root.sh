#!/bin/sh
# Clones the repository into an empty Debian 12 that has only git, and runs it there.
#
#   sudo tests/install/fresh-root.sh [DIR] [COMMAND ...]
#
# DIR       where the root is made (default: a new directory under /var/tmp); an existing root is reused with a
#           fresh clone, so that a second run shows that nothing is installed twice
# COMMAND   runs in the clone, each with /bin/sh -c (default: './run demo' and './test')
#
# QM_MIRROR replaces debootstrap's own mirror; http_proxy is used. Needs root, debootstrap, 4 GB of disk. It clones the
# committed state. It ends with the time of each command; status 0 iff each had status 0. The root remains; nothing
# remains mounted.
set -eu

repository=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
root=${1:-}
[ $# -eq 0 ] || shift
[ $# -ne 0 ] || set -- './run demo' './test'
[ -n "$root" ] || root=$(mktemp -d /var/tmp/quartermaster-root.XXXXXX)
mirror=${QM_MIRROR:-}

if [ "$(id -u)" -ne 0 ]; then
  echo "fresh-root.sh: needs root, for chroot and mount" >&2
  exit 1
fi
if ! command -v debootstrap >/dev/null 2>&1; then
  echo "fresh-root.sh: needs debootstrap (apt-get install debootstrap)" >&2
  exit 1
fi

# In separate namespaces: mounts and processes end together with this script.
if [ "${QM_FRESH_ROOT_INSIDE:-}" != yes ]; then
  export QM_FRESH_ROOT_INSIDE=yes
  exec unshare --mount --pid --fork --kill-child "$0" "$root" "$@"
fi

if [ ! -x "$root/bin/sh" ]; then
  echo "== debootstrap --variant=minbase bookworm $root $mirror"
  debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"}
  # Neither unusual dates of a proxy's or a mirror's archives matter here, nor packages' recommendations.
  echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/90fresh-root"
fi
[ ! -f /etc/resolv.conf ] || cp /etc/resolv.conf "$root/etc/resolv.conf"
[ ! -f /etc/hosts ] || cp /etc/hosts "$root/etc/hosts"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

inside() {
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} /bin/sh -c "$1" </dev/null
}

echo "== git"
inside 'command -v git >/dev/null || { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends git; }'
rm -rf "$root/srv/quartermaster.git" "$root/root/quartermaster"
git clone -q --bare --no-local "$repository" "$root/srv/quartermaster.git"
inside 'git config --global --add safe.directory "*" && git clone -q /srv/quartermaster.git /root/quartermaster'

summary=''
failed=0
for command in "$@"; do
  echo "== $command"
  begun=$(date +%s)
  status=0
  inside "cd /root/quartermaster && $command" || status=$?
  summary="$summary$command: status $status after $(($(date +%s) - begun)) s
"
  [ "$status" -eq 0 ] || failed=1
done
echo "== $root"
printf '%s' "$summary"
exit "$failed"
