# Sources of other projects; sourced with $source and $work set.

# Unpacks third_party/NAME.tar.zst into $work. If there is none, status 77, which ctest interprets as skipped.
unpack_third_party() { # NAME, what it is, how to get it
  local folder archive=''
  for folder in "${QM_THIRD_PARTY:-}" "$source/../shared/third_party"; do
    if [ -n "$folder" ] && [ -f "$folder/$1.tar.zst" ]; then
      archive=$folder/$1.tar.zst
      break
    fi
  done
  if [ -z "$archive" ]; then
    echo "skipped: there is no $1.tar.zst, $2, in \$QM_THIRD_PARTY or ../shared/third_party: $3"
    exit 77
  fi
  command -v zstd >/dev/null || { echo "skipped: the package zstd is missing, which unpacks $archive"; exit 77; }
  if [ ! -e "$work/$1.unpacked" ] || [ "$archive" -nt "$work/$1.unpacked" ]; then
    tar -C "$work" --zstd -xf "$archive"
    touch "$work/$1.unpacked"
  fi
}
