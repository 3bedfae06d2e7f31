#!/bin/sh
# run_server.sh FORGEC TEST_SERVER TEST_CHATS TEST_CALLS AGENTS MODEL [OPTIONS...] -- builds MODEL with a server and these options, and
# tests it; then again with a chat template, and with a C library that often has no memory (FAULT_LIBRARY, tests/fault/fault.c).
set -eu
forgec=$1 test=$2 chats=$3 calls=$4 agents=$5 model=$6
shift 6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$forgec" build "$model" --server -q -o "$work/program" "$@"
"$test" "$work/program"
"$forgec" build "$model" --server -q -o "$work/program" --chat-template "$(dirname "$0")/chat.jinja" "$@"
"$chats" "$work/program"
"$calls" "$work/program"
FAULT_LIBRARY= "$agents" "$work/program" 3 -- --slots 4 -t 2
[ -z "${FAULT_LIBRARY-}" ] || FAULT_IN=program FAULT=malloc:60 FAULT_ACTION=often "$agents" "$work/program" 2 -- --slots 4 -t 2
