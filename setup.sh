#!/bin/sh
# setup.sh -- from a fresh Debian 12, Debian 13 or Ubuntu 24.04 to a story, or to a run of all tests.
#   ./setup.sh story       install what is missing, build forgec, compile the bundled model, print a story
#   ./setup.sh test        install what is missing, build forgec in several ways, run all tests
#   ./setup.sh test full   the same with every combination of formats, fusion, modes and targets, and longer fuzzing: before a release
#   ./setup.sh packages    install what both need, and nothing else
# Packages are installed with apt-get, as root or through sudo; where nothing is missing neither is asked for, and no network.  Tests with clients of
# others, and of WebGPU, install four packages of npm's in the build folder, the first time.
# Elsewhere than on Debian and Ubuntu the script says what is missing.  Only the story goes to stdout of `story`.
set -eu
cd "$(dirname "$0")"

clang_versions='19 20 21 22 23 24 25 26 27 28 29'
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
started=$(date +%s)

say() { echo "== $*" >&2; }
stop() { echo "setup.sh: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# timed WHAT COMMAND...: runs it and says how long it took
timed() {
    what=$1; shift
    from=$(date +%s)
    say "$what"
    "$@" || stop "$what: failed"
    say "$what: $(($(date +%s) - from)) s"
}

# ---- what is there ----

has_header() { has cc && echo "#include <$1>" | cc -E -x c -o /dev/null - >/dev/null 2>&1; }

has_cmake() {
    has cmake || return 1
    version=$(cmake --version | sed -n '1s/.*version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ "${version% *}" -gt 3 ] || { [ "${version% *}" -eq 3 ] && [ "${version#* }" -ge 22 ]; }
}

# Sets clang to the one forgec would take, and clang_version; fails when there is none.
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

# Adds to packages what is missing for $1 (story or test).  clang: the packages of which version.
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

# ---- installing it ----

apt() {
    set -- env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -y -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif has sudo; then sudo "$@"
    else stop "packages are missing ($packages ): run this as root, or install sudo"
    fi >&2
}

# Turns "clang", "lld" and "libclang-rt" in packages into the oldest version, 19 or later, that the archive has.
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

# AMD's HIP library, 18 MB to load: with it a program for an AMD GPU is tried on a machine without one.  Only its test needs it, so only root gets it.
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

# A browser, 100 MB to load, with what reads its pictures and papers: they hold the page of `forgec compare`, and the browser that of programs with a server.
# Only those tests need them, so only root gets them.
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

# Node and npm, 50 MB to load where Debian's are missing, and with them the clients of OpenAI and Anthropic and WebGPU into the build folder
# DIR: clients and the page of programs with a server are tried, kernels of WGSL run.  Only those tests need them, so only root gets packages.
install_node() {
    has node && has npm && return 0
    [ "$(id -u)" -eq 0 ] && has apt-get || return 0
    set --
    has node || set -- nodejs
    say "installing $* npm"
    apt install --no-install-recommends "$@" npm || say "$* npm cannot be installed; the tests of clients and of WebGPU are skipped"
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
    timed "compiling the model" build/release/forgec build examples/storyteller/storyteller-7m-q8_0.gguf -o build/story >&2
    say "build/story -p 'Once upon a time' -n 250 --temp 0.7 --top-p 0.9 -s 6"
    build/story -p 'Once upon a time' -n 250 --temp 0.7 --top-p 0.9 -s 6 --echo
    echo
    say "done in $(($(date +%s) - started)) s; another story: the same without -s 6"
}

build_forgec() {
    log=$(cmake --preset release 2>&1) || { echo "$log"; return 1; }
    cmake --build build/release --target forgec --parallel "$jobs"
}

# Everything is one ctest run, so that its summary is the last word; FORGEC_CHECKS adds clang, sanitizers and fuzzers to it.
tests() {       # DIR [CMAKE-OPTIONS...]
    out=$1; shift
    install_missing test
    install_hip
    install_browser
    install_node
    install_modules tests/server/clients "$out/npm" "the test of clients"
    install_modules tests/webgpu "$out/webgpu" "the test of WebGPU"
    export XDG_CACHE_HOME="$PWD/$out/cache"
    timed "configuring (gcc, warnings are errors)" cmake -S . -B "$out" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc -DFORGEC_TESTS=ON \
        -DFORGEC_WERROR=ON -DFORGEC_CHECKS=ON "$@"
    timed "building" cmake --build "$out" --parallel "$jobs"
    say "testing"
    cd "$out"
    exec ctest --parallel "$jobs" --output-on-failure --no-tests=error
}

case "$*" in
    story) story ;;
    test) tests build/test ;;
    'test full') tests build/full -DFORGEC_FULL=ON ;;
    packages) install_missing test; install_hip; install_browser; install_node; say "nothing is missing" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; [ "${1-}" = --help ] || exit 2 ;;
esac
