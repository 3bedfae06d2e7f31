#!/bin/sh
# pack.sh FOLDER ARCHIVE -- packs every file of FOLDER into ARCHIVE, a tests/data/*/*.tar.xz.  Equal files give an equal archive.
# To change an archive: unpack it with tar xf, change the files, and pack them again.
# Files of one kind stand side by side, and xz is told that numbers have four bytes, or that there is text; the smallest result stays.
set -eu
[ $# -eq 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
(cd "$1" && find . -type f | sed 's,^\./,,' | awk '{ kind = $0; sub(/.*\./, "", kind); print kind " " $0 }' | LC_ALL=C sort | cut -d ' ' -f 2-) >"$tmp/list"
tar -C "$1" --format=ustar --owner=0 --group=0 --numeric-owner --mode=644 --mtime=2026-01-01 -cf "$tmp/tar" -T "$tmp/list"
for bits in lc=0,lp=2,pb=2 lc=0,lp=2,pb=0 lc=0,lp=0,pb=0 lc=3,lp=0,pb=0; do xz -c --check=crc32 --lzma2=preset=9e,dict=64MiB,$bits "$tmp/tar" >"$tmp/$bits"; done
smallest=$(cd "$tmp" && find . -name 'lc=*' -printf '%s %f\n' | sort -n | sed -n '1s/.* //p')
cat "$tmp/$smallest" >"$2"
