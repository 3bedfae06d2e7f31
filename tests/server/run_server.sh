#!/bin/sh
# run_server.sh FORGEC TEST_SERVER MODEL [OPTIONS...] -- builds MODEL with a server, with these options of the build, and tries it.
set -eu
forgec=$1 test=$2 model=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$forgec" build "$model" --server -q -o "$work/program" "$@"
"$test" "$work/program"
