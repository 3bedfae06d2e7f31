#!/bin/sh
# processor.sh FORGEC [TURN [TURNS]] -- prints the first lines of a test run: the processor, the target that forgec builds for here, and which of the tests
# that take turns run.  TURNS: a file that lists them (THIRD rows of matrix.def); other tests divide their own work by TURN.
name=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2> /dev/null | head -n 1)
for target in sapphire-rapids x86-64-v4 x86-64-v3-vnni x86-64-v3 aarch64-v8.6 aarch64 portable; do
    "$1" targets 2> /dev/null | grep "^$target " | grep -vq "does not run here" && break
done
echo "tests on ${name:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) processors, programs for $target"
turn=${2:-0}
[ -z "${3-}" ] || cat "$3"
sed -n 's/^ROW("\([^"]*\)".* TURN)$/\1/p' "$(dirname "$0")/matrix.def" | sort | uniq -c | while read -r parts test; do
    echo "turn $turn: $test has part $((turn % parts)) of $parts; check_asan, check_kernels and emitted have part $((turn % 3)) of 3"
done
