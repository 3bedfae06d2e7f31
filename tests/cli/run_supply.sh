#!/bin/sh
# run_supply.sh FORGEC MODEL -- influences on the bytes of a program besides its sources: the environment, tools of other versions, the machine's libc.
set -u
forgec=$(realpath "$1") model=$2
. "$(dirname "$0")/../harness.sh"
clang=$(command -v "${FORGEC_CLANG:-clang-19}") || skip "no clang-19"

# ---- variables that clang reads do not reach it, nor the cache ----
mkdir "$tmp/evil"
for header in stdlib.h stdint.h string.h features.h; do
    printf '#include_next <%s>\n#ifndef EVIL\n#define EVIL\n__attribute__((constructor)) static void evil(void) { extern int puts(const char *); puts("evil"); }\n#endif\n' \
        $header >"$tmp/evil/$header"
done
check clean 0 "$forgec" build -q "$model" --ctx 64 -o "$tmp/two"
check environment 0 env XDG_CACHE_HOME="$tmp/cache" CPATH="$tmp/evil" C_INCLUDE_PATH="$tmp/evil" CCC_OVERRIDE_OPTIONS="+-DEVIL_2" COMPILER_PATH="$tmp/evil" LIBRARY_PATH="$tmp/evil" \
    GCC_EXEC_PREFIX="$tmp/evil/" "$forgec" build -q "$model" --ctx 64 -o "$tmp/one"
same "$tmp/one" "$tmp/two" "a variable of the environment got into the program"

# ---- glibc: its version is reported, and is not newer than on the oldest supported system ----
check told 0 "$forgec" build "$model" --ctx 64 -o "$tmp/one"; err_has "; needs glibc 2."
needs=$(sed -n 's/.*; needs glibc //p' "$tmp/err")
check info 0 "$tmp/one" --info; out_has "needs glibc $needs or newer"
for option in '' --server; do
    [ -z "$option" ] || [ -f "/usr/lib/$(uname -m)-linux-gnu/libevent_core.a" ] || continue
    # shellcheck disable=SC2086
    check "glibc $option" 0 "$forgec" build "$model" --ctx 64 $option -o "$tmp/one"
    minor=$(sed -n 's/.*; needs glibc 2\.//p' "$tmp/err")
    [ "${minor:-99}" -le 35 ] || bad "needs glibc 2.$minor; Ubuntu 22.04 has 2.35"
done
check static 0 "$forgec" build "$model" --ctx 64 --static -o "$tmp/one"; err_lacks "glibc"

# ---- an lld that is older than clang, first in PATH, if clang's own is missing ----
mkdir "$tmp/bin"
printf '#!/bin/sh\necho "Debian LLD 14.0.6 (compatible with GNU linkers)"\n' >"$tmp/bin/ld.lld"
cat >"$tmp/bin/clang" <<EOF
#!/bin/sh
[ "\$1" = --print-prog-name=ld.lld ] && { echo "$tmp/bin/ld.lld"; exit; }
exec "$clang" "\$@"
EOF
chmod +x "$tmp/bin/clang" "$tmp/bin/ld.lld"
version=$("$clang" --version | sed -n '1s/.*clang version \([0-9]*\).*/\1/p')
refuse lld 1 "lld $version is missing ($tmp/bin/ld.lld is 14): on Debian or Ubuntu: apt-get install lld-$version" \
    "$forgec" build "$model" -t gfx1151 --ctx 64 --clang "$tmp/bin/clang" -o "$tmp/one"
printf '#!/bin/sh\necho "Debian LLD %s.1.7 (compatible with GNU linkers)"\n' "$version" >"$tmp/bin/ld.lld"
cat >"$tmp/bin/clang" <<EOF
#!/bin/sh
case " \$* " in *" --version "*) exec "$clang" "\$@" ;; *" --print-prog-name=ld.lld "*) echo "$tmp/bin/ld.lld"; exit ;; esac
echo "ld.lld: error: unknown argument '--lto-CGO3'" >&2
exit 1
EOF
refuse tool 1 "unknown argument" "$forgec" build "$model" -t gfx1151 --ctx 64 --clang "$tmp/bin/clang" -o "$tmp/one"; err_lacks "mistake in forgec"

# ---- bare targets need no C library for their assembly either ----
for target in wasm32 cortex-m7 ${full:+riscv64 aarch64-none}; do
    check "asm $target" 0 "$forgec" build -q "$model" -t $target --ctx 64 --emit asm -o "$tmp/asm"; err_empty
done

# ---- large weights: the linker script places them after everything else (real ones exceed 2 GiB) ----
if [ "$(uname -m)" = x86_64 ]; then
    script=$(dirname "$0")/../../cmake/large-weights.ld
    check object 0 "$forgec" build -q "$model" --ctx 64 --emit obj --prefix m -o "$tmp/m.o"
    printf '#include "m.h"\nint main(void) { struct m *m; return m_open(&m, 0, 0, 0) == M_OK; }\n' >"$tmp/use.c"
    for how in -no-pie -static -static-pie -pie; do         # addresses are compared as texts: awk reads 20e10 as a number
        check "large $how" 0 "$clang" -fuse-ld=lld $how -I "$tmp" "$tmp/use.c" "$tmp/m.o" -Wl,-T,"$script" -o "$tmp/use"
        [ $code -ne 0 ] || last=$(readelf -SW "$tmp/use" | sed 's/^ *\[ *[0-9]*\] *//' | awk '$2 ~ /PROGBITS|NOBITS/ && $3 "" > most "" { most = $3; name = $1 } END { print name }')
        [ "$code" -ne 0 ] || [ "$last" = .forge_weights ] || bad "the last section is $last"
    done
fi

# ---- the example of a fleet has no publicly known key ----
name=manifest tests=$((tests + 1))
! grep -qE 'kind: Secret|stringData' "$(dirname "$0")/../../examples/fleet/kubernetes.yaml" || bad "kubernetes.yaml has a key of its own"

# ---- no /proc ----
if unshare -rm sh -c 'mount -t tmpfs none /proc' 2>/dev/null || unshare -m sh -c 'mount -t tmpfs none /proc' 2>/dev/null; then
    refuse proc 1 "/proc is not mounted" unshare -rm sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$forgec" build "$model" --no-cache --ctx 64 -o "$tmp/one"
fi
summary
