#!/bin/sh
# build.sh [STORY.gguf [OTHER.gguf [DIR]]] -- builds the examples in DIR without make: two static libraries, and seven programs with one
# compiler call each.
# OTHER, for two.c, may be any other model (default: the story's model with a short context).  FORGEC, CC, CXX, CFLAGS: tools and flags.
# FORGEC_OPTIONS: options for forgec.  TARGET: another machine (CC and CXX must make programs for it).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
story=${1:-$here/../storyteller/storyteller-7m-q4_k_m.gguf} other=${2:-} out=${3:-embed-examples}
forgec=${FORGEC:-forgec} cc=${CC:-cc} cxx=${CXX:-c++} target=${TARGET:-native}
flags="-O2 -Wall -Wextra ${CFLAGS:-}"
mkdir -p "$out"

# 1. the models: a library and a header each; the story's model has no chat template, so it gets one
# shellcheck disable=SC2086  # options are words
"$forgec" build "$story" -q -t "$target" --chat-template "$here/chat.jinja" --emit lib --prefix story -o "$out/libstory.a" ${FORGEC_OPTIONS:-}
# shellcheck disable=SC2086
if [ -n "$other" ]; then "$forgec" build "$other" -q -t "$target" --emit lib --prefix other -o "$out/libother.a" ${FORGEC_OPTIONS:-}
else "$forgec" build "$story" -q -t "$target" --ctx 256 --emit lib --prefix other -o "$out/libother.a" ${FORGEC_OPTIONS:-}; fi

# 2. the programs
# shellcheck disable=SC2086
{
    "$cc"  $flags -std=c11   -I "$out" "$here/host.c"   -L "$out" -lstory -o "$out/host"
    "$cxx" $flags -std=c++17 -I "$out" "$here/host.cpp" -L "$out" -lstory -o "$out/host_cpp"
    "$cc"  $flags -std=c11   -I "$out" "$here/pool.c"   -L "$out" -lstory -pthread -o "$out/pool"
    "$cc"  $flags -std=c11   -I "$out" "$here/fork.c"   -L "$out" -lstory -o "$out/fork"
    "$cc"  $flags -std=c11   -I "$out" "$here/profile.c" -L "$out" -lstory -o "$out/profile"
    "$cc"  $flags -std=c11   -I "$out" "$here/chat.c"   -L "$out" -lstory -o "$out/chat"
    "$cc"  $flags -std=c11   -I "$out" "$here/two.c"    -L "$out" -lstory -lother -pthread -o "$out/two"
}
