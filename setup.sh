#!/bin/sh
# setup.sh -- on a fresh Debian 12, Debian 13 or Ubuntu 24.04: prints a story, or runs all tests.
#   ./setup.sh story       install missing packages, build forgec, compile the bundled model, print a story
#   ./setup.sh test        install missing packages, build forgec in several ways, run all tests
#   ./setup.sh test quick  install missing packages, build forgec and its tests, run the tests that take seconds (ctest -L quick)
#   ./setup.sh test full   as test, with every combination of formats, fusion, modes and targets, and longer fuzzing: before a release
#   ./setup.sh mutants     run the tests against wrong versions of the sources; takes hours, continues where it stopped (tests/mutants.sh)
#   ./setup.sh package     install missing packages, build forgec, make a Debian package and a tarball of it in build/package
#   ./setup.sh packages    install the packages that story and test need, and nothing else
# Packages are installed with apt-get, as root or with sudo. If none is missing, neither root nor network is needed. The tests of clients,
# of WebGPU and of bundlers install eight npm packages in the build folder, the first time.
# FORGEC_TEST_CACHE=FOLDER: what the tests and (if installed) ccache compile is kept in this folder, which may outlive the build folder. By
# default it is kept in the build folder.
# CI=true: a test that would be skipped because a program is missing fails.
# On systems other than Debian and Ubuntu the script lists missing packages. `story` prints only the story to stdout.
set -eu
cd "$(dirname "$0")"
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' setup.sh; }

clang_versions='19 20 21 22 23 24 25 26 27 28 29'
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
started=$(date +%s)

say() { echo "== $*" >&2; }
stop() { echo "setup.sh: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# timed WHAT COMMAND...: runs the command and prints how long it took
timed() {
    what=$1; shift
    from=$(date +%s)
    say "$what"
    "$@" || stop "$what: failed"
    say "$what: $(($(date +%s) - from)) s"
}

# ---- what is installed ----

has_header() { has cc && echo "#include <$1>" | cc -E -x c -o /dev/null - >/dev/null 2>&1; }

has_cmake() {
    has cmake || return 1
    version=$(cmake --version | sed -n '1s/.*version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ "${version% *}" -gt 3 ] || { [ "${version% *}" -eq 3 ] && [ "${version#* }" -ge 22 ]; }
}

# Sets clang to the clang that forgec would use, and clang_version; fails without a clang.
find_clang() {
    for clang in ${FORGEC_CLANG:-$(for v in $clang_versions; do echo "clang-$v"; done) clang}; do
        has "$clang" || continue
        clang_version=$("$clang" --version 2>/dev/null | sed -n '1s/.*clang version \([0-9]*\).*/\1/p')
        [ "${clang_version:-0}" -ge 19 ] && return 0
    done
    return 1
}

has_lld() { lld=$("$clang" --print-prog-name=ld.lld) && [ -x "$lld" ]; }

has_clang_runtime() {       # AddressSanitizer and libFuzzer
    object=$(mktemp) || return 1
    echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return p && n > 3 ? 0 : 0; }' |
        "$clang" -x c -fsanitize=fuzzer,address -o "$object" - >/dev/null 2>&1 && code=0 || code=1
    rm -f "$object"
    return "$code"
}

# Sets packages to the missing packages for $1 (story or test). Those of clang have the version of the installed clang, if there is one.
missing() {
    packages=
    want() { packages="$packages $*"; }
    { has gcc && has_header stdio.h; } || want gcc libc6-dev
    has make || want make
    has_cmake || want cmake
    has_header yaml.h || want libyaml-dev
    has_header xxhash.h || want libxxhash-dev
    has_header cjson/cJSON.h || want libcjson-dev
    has_header sha2.h || want libmd-dev
    has_header zlib.h || want zlib1g-dev
    has_header cmocka.h || want libcmocka-dev
    [ "$1" != test ] || has_header event2/http.h || want libevent-dev          # programs with a server
    [ "$1" != test ] || has curl || want curl
    [ "$1" != test ] || has haproxy || [ -x /usr/sbin/haproxy ] || want haproxy                # examples/fleet
    if find_clang; then has_lld || want "lld-$clang_version"
    elif [ -n "${FORGEC_CLANG-}" ]; then stop "FORGEC_CLANG=$FORGEC_CLANG is no clang 19 or newer"
    else want clang lld; fi
    [ "$1" = test ] || return 0
    if ! find_clang; then want libclang-rt
    else has_clang_runtime || want "libclang-rt-$clang_version-dev"; fi
    has c++ || want g++                          # the examples of embedding in C++
    has qemu-system-aarch64 || want qemu-system-arm                 # images without an operating system
    has qemu-system-riscv64 || want qemu-system-misc
    if [ "$(uname -m)" = x86_64 ]; then         # programs for aarch64 are built here and run in qemu
        has qemu-aarch64 || want qemu-user
        has aarch64-linux-gnu-gcc || want gcc-aarch64-linux-gnu
        [ -f /usr/aarch64-linux-gnu/include/stdio.h ] || want libc6-dev-arm64-cross
    fi
}

# ---- installing packages ----

apt() {
    set -- env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -y -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif has sudo; then sudo "$@"
    else stop "packages are missing ($packages ): run this as root, or install sudo"
    fi >&2
}

# Replaces "clang", "lld" and "libclang-rt" in packages by the oldest version from 19 on that the archive has.
choose_clang() {
    case " $packages " in *" clang "*) ;; *) return 0 ;; esac
    for v in $clang_versions; do
        LC_ALL=C apt-cache policy "clang-$v" 2>/dev/null | grep -q 'Candidate: [^(]' || continue
        packages=$(echo "$packages" | sed "s/ clang / clang-$v /; s/ lld/ lld-$v/; s/ libclang-rt/ libclang-rt-$v-dev/")
        return 0
    done
    stop "the package archives of this system have no clang 19 or newer, which forgec needs to compile models.
  Debian 12 and 13 have clang-19 in main; Ubuntu 24.04 in universe of noble-updates: enable those, or see https://apt.llvm.org"
}

install_missing() {
    missing "$1"
    [ -n "$packages" ] || return 0
    has apt-get || stop "missing (Debian's names):$packages; install them and run this again. clang must be 19 or newer"
    say "installing$packages"
    from=$(date +%s)
    apt update || say "apt-get update failed; trying with the package lists that are there"
    choose_clang
    # shellcheck disable=SC2086  # the names are words
    apt install --no-install-recommends $packages || stop "apt-get could not install:$packages"
    missing "$1"
    [ -z "$packages" ] || stop "still missing after the installation:$packages"
    say "packages: $(($(date +%s) - from)) s"
}

# AMD's HIP library, a download of 18 MB: a test runs a program for an AMD GPU with it on a machine without such a GPU. No other test needs
# it, so it is installed only if the script runs as root.
install_hip() {
    [ "$(uname -m)" = x86_64 ] && [ "$(id -u)" -eq 0 ] && has apt-get || return 0
    ! ldconfig -p 2>/dev/null | grep -q 'libamdhip64\.so' || return 0
    for v in 5 6 7; do
        LC_ALL=C apt-cache policy "libamdhip64-$v" 2>/dev/null | grep -q 'Candidate: [^(]' || continue
        say "installing libamdhip64-$v"
        apt install --no-install-recommends "libamdhip64-$v" || say "libamdhip64-$v cannot be installed; its test is skipped"
        return 0
    done
    say "the package archives have no libamdhip64; its test is skipped"
}

# The newest clang of the archive beside the oldest supported one, a download of 200 MB: a test compiles models with both. No other test
# needs it, so it is installed only if the script runs as root, and not if FORGEC_CLANG selects a clang for everything.
install_newest_clang() {
    [ -z "${FORGEC_CLANG-}" ] && [ "$(id -u)" -eq 0 ] && has apt-get || return 0
    newest=
    for v in $clang_versions; do
        LC_ALL=C apt-cache policy "clang-$v" 2>/dev/null | grep -q 'Candidate: [^(]' && newest=$v
    done
    if [ -z "$newest" ] || [ "$newest" = "$clang_version" ]; then say "the package archives have no newer clang; its test is skipped"; return 0; fi
    { has "clang-$newest" && has "ld.lld-$newest"; } && return 0
    say "installing clang-$newest lld-$newest"
    apt install --no-install-recommends "clang-$newest" "lld-$newest" || say "clang-$newest cannot be installed; its test is skipped"
}

# A browser, a download of 100 MB, and tools that read its PNG and PDF output: they test the page of `forgec compare`, and the browser tests
# the page of programs with a server. Only these tests need them, so they are installed only if the script runs as root.
install_browser() {
    [ "$(id -u)" -eq 0 ] && has apt-get || return 0
    set --
    { has chromium || has chromium-browser; } || set -- chromium
    has_header png.h || set -- "$@" libpng-dev
    has pdftotext || set -- "$@" poppler-utils
    for package in "$@"; do
        LC_ALL=C apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' && continue
        say "the package archives have no $package; the tests of pages are skipped"
        return 0
    done
    [ $# -gt 0 ] || return 0
    say "installing $*"
    apt install --no-install-recommends "$@" || say "$* cannot be installed; the tests of pages are skipped"
}

# Node and npm, a download of 50 MB if Debian's packages are missing. npm then installs the clients of OpenAI and Anthropic, WebGPU, and
# bundlers in the build folder. They test clients and the page of programs with a server, run WGSL kernels, and pack folders for pages. Only
# these tests need them, so the packages are installed only if the script runs as root.
install_node() {
    has node && has npm && return 0
    [ "$(id -u)" -eq 0 ] && has apt-get || return 0
    set --
    has node || set -- nodejs
    say "installing $* npm"
    apt install --no-install-recommends "$@" npm || say "$* npm cannot be installed; the tests of clients, of WebGPU and of bundlers are skipped"
}

install_modules() {     # FOLDER WITH package.json, FOLDER, TESTS
    if ! has npm; then say "there is no npm; $3 is skipped"; return 0; fi
    ! cmp -s "$1/package-lock.json" "$2/installed" || return 0
    mkdir -p "$2"
    cp "$1/package.json" "$1/package-lock.json" "$2"
    say "installing what $1/package.json names with npm"
    if (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1) >&2; then cp "$1/package-lock.json" "$2/installed"
    else say "npm cannot install it; $3 is skipped"; rm -rf "$2"; fi
}

# ---- the commands ----

story() {
    install_missing story
    timed "building forgec" build_forgec >&2
    timed "compiling the model" build/release/forgec build examples/storyteller/storyteller-7m-q4_k_m.gguf -o build/story >&2
    say "build/story -p 'Once upon a time' -n 250 --temp 0.7 --top-p 0.9 -s 6"
    build/story -p 'Once upon a time' -n 250 --temp 0.7 --top-p 0.9 -s 6 --echo
    echo
    say "done in $(($(date +%s) - started)) s; another story: the same without -s 6"
}

# The packages run on this system and newer ones: packages made on Debian 12 also run on Debian 13 and Ubuntu 24.04.
package() {
    install_missing story
    timed "building forgec" build_product build/package >&2
    rm -rf build/package/made
    timed "packing" sh -c 'cd build/package && cpack -B made >pack.log 2>&1 || { cat pack.log; exit 1; }' >&2
    rm -f build/package/forgec[-_]*
    for made in build/package/made/forgec[-_]*; do
        mv "$made" build/package/
        case $made in *.sha256) ;; *) echo "build/package/${made##*/}" ;; esac
    done
    rm -rf build/package/made
}

build_product() {
    log=$(cmake -S . -B "$1" -DCMAKE_BUILD_TYPE=Release -DFORGEC_TESTS=OFF 2>&1) || { echo "$log"; return 1; }
    cmake --build "$1" --target product --parallel "$jobs"
}

build_forgec() {
    log=$(cmake --preset release 2>&1) || { echo "$log"; return 1; }
    cmake --build build/release --target forgec --parallel "$jobs"
}

# Everything is one ctest run, so that its summary comes last. FORGEC_CHECKS adds clang, sanitizers and fuzzers to it; tests that these run
# are left out of the plain build.
tests() {       # TIER DIR [CMAKE-OPTIONS...]
    tier=$1 out=$2; shift 2
    install_missing test
    install_newest_clang
    install_hip
    install_browser
    install_node
    install_modules tests/server/clients "$out/npm" "the test of clients"
    install_modules tests/webgpu "$out/webgpu" "the test of WebGPU"
    install_modules tests/web/bundlers "$out/bundlers" "the test of bundlers"
    case ${FORGEC_TEST_CACHE:-/} in /*) ;; *) FORGEC_TEST_CACHE=$PWD/$FORGEC_TEST_CACHE ;; esac
    if has ccache; then
        CCACHE_DIR=${CCACHE_DIR:-${FORGEC_TEST_CACHE:+$FORGEC_TEST_CACHE/ccache}}
        CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)} CCACHE_BASEDIR=$PWD
        export CCACHE_DIR CCACHE_BASEDIR
        set -- -DCMAKE_C_COMPILER_LAUNCHER=ccache "$@"
    fi
    export XDG_CACHE_HOME="${FORGEC_TEST_CACHE:-$PWD/$out/tests/cache}"
    timed "configuring (gcc, warnings are errors)" cmake -S . -B "$out" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc -DFORGEC_TESTS=ON \
        -DFORGEC_WERROR=ON -DFORGEC_CHECKS=ON -DFORGEC_TEST_CACHE="$XDG_CACHE_HOME" "$@"
    timed "building" cmake --build "$out" --parallel "$jobs"
    say "testing"
    cd "$out"
    case $tier in
    quick) set -- -L '^quick$' ;;
    full) set -- ;;
    *) set -- -LE '^sanitized$' ;;
    esac
    exec ctest --parallel "$jobs" --output-on-failure --no-tests=error "$@"
}

mutants() {     # [--only ROOM|NAME] [--again]
    install_missing test
    install_node
    install_modules tests/server/clients build/mutants/npm "the test of clients"
    install_modules tests/webgpu build/mutants/webgpu "the test of WebGPU"
    install_modules tests/web/bundlers build/mutants/bundlers "the test of bundlers"
    exec sh tests/mutants.sh "$@"
}

if [ "${1-}" = mutants ]; then shift; mutants "$@"; fi
case "$*" in
    story) story ;;
    test) tests default build/test ;;
    'test quick') tests quick build/test ;;
    'test full') tests full build/full -DFORGEC_FULL=ON ;;
    package) package ;;
    packages) install_missing test; install_newest_clang; install_hip; install_browser; install_node; say "nothing is missing" ;;
    -h|--help) usage ;;
    *) [ $# -eq 0 ] || echo "setup.sh: unknown arguments: $*" >&2; usage >&2; exit 2 ;;
esac
