#!/bin/sh
# fleet.sh -- three programs behind HAProxy on this machine.
#   fleet.sh start PROGRAM DIR [OPTIONS...]   ports FLEET (8080), A, B, C (8081 to 8083) from the environment; DIR keeps logs and process ids
#   fleet.sh replace DIR a|b|c                waits until this program's requests have ended, and starts a new program in its place
#   fleet.sh kill DIR a|b|c                   the same at once: its requests are sent to the other programs
#   fleet.sh stop DIR                         ends all programs
set -eu
PATH=$PATH:/usr/sbin
: "${FLEET:=8080}" "${A:=8081}" "${B:=8082}" "${C:=8083}"
export FLEET A B C
here=$(cd "$(dirname "$0")" && pwd)

port_of() { case $1 in a) echo "$A" ;; b) echo "$B" ;; c) echo "$C" ;; *) echo "fleet.sh: no program $1" >&2; exit 2 ;; esac; }
# begin DIR NAME: as DIR/command says
begin() {
    sh -c 'exec "$@" 2>>"'"$1/$2.log"'"' sh $(cat "$1/command") --serve --port "$(port_of "$2")" &
    echo $! >"$1/$2.pid"
    for _ in $(seq 200); do
        ! curl -sf -o /dev/null "http://127.0.0.1:$(port_of "$2")/health" || return 0
        sleep 0.05
    done
    echo "fleet.sh: program $2 does not start: $(cat "$1/$2.log")" >&2
    exit 1
}
gone() { while kill -0 "$1" 2>/dev/null; do sleep 0.05; done; }

case ${1-} in
start)
    program=$2 dir=$3
    shift 3
    mkdir -p "$dir"
    echo "$program $*" >"$dir/command"
    for name in a b c; do begin "$dir" $name; done
    haproxy -f "$here/haproxy.cfg" >>"$dir/haproxy.log" 2>&1 &
    echo $! >"$dir/haproxy.pid"
    until curl -sf -o /dev/null "http://127.0.0.1:$FLEET/health"; do kill -0 "$(cat "$dir/haproxy.pid")" || { cat "$dir/haproxy.log"; exit 1; }; sleep 0.05; done
    ;;
replace|kill)
    dir=$2 pid=$(cat "$2/$3.pid")
    if [ "$1" = kill ]; then kill -9 "$pid"; else kill "$pid"; fi
    gone "$pid"
    begin "$dir" "$3"
    ;;
stop)
    for file in "$2"/*.pid; do kill "$(cat "$file")" 2>/dev/null || true; done
    for file in "$2"/*.pid; do gone "$(cat "$file")"; done
    ;;
*)  sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
