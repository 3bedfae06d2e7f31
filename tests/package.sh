#!/bin/bash
# package.sh BUILD CPACK -- the packages that cpack makes from a finished BUILD: a tarball and, if dpkg is installed, a Debian package.  Both contain what a user
# needs, the packed forgec works without this tree, and the version stands in one place only.
build=$1 cpack=$2
root=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/harness.sh"
model=$root/examples/storyteller/storyteller-7m-q4_k_m.gguf

version=$(sed -n 's/^project(forgec VERSION \([0-9.]*\) .*/\1/p' "$root/CMakeLists.txt")
[ -n "$version" ] || bad "CMakeLists.txt has no version"
(cd "$build" && "$cpack" -B "$tmp/made") > "$tmp/out" 2>&1 || { bad "cpack"; cat "$tmp/out"; exit 1; }
: > "$tmp/out"
system=$(uname -s | tr 'A-Z' 'a-z')-$(uname -m)
tar=$tmp/made/forgec-$version-$system.tar.gz
name=tarball
[ -f "$tar" ] || { bad "no $(basename "$tar"), but $(ls "$tmp/made")"; exit 1; }
tar -xf "$tar" -C "$tmp" || exit 1
place=$tmp/forgec-$version-$system

# ---- the contents; libraries are in the folder of BUILD's CMAKE_INSTALL_LIBDIR ----
library=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$build/CMakeCache.txt")
parts="bin/forgec share/man/man1/forgec.1 share/bash-completion/completions/forgec share/zsh/site-functions/_forgec
    share/fish/vendor_completions.d/forgec.fish share/cmake/forgec/forgecConfig.cmake share/cmake/forgec/forgec.cmake share/pkgconfig/forgec.pc
    share/doc/forgec/README.md share/doc/forgec/CHANGELOG.md share/doc/forgec/SECURITY.md share/doc/forgec/LICENSE share/doc/forgec/docs/program.md
    share/doc/forgec/docs/recording.svg share/doc/forgec/examples/embed/host.c"
[ "$(uname -m)" != x86_64 ] || parts="$parts $library/forgec/libgfxsim.so"
# holds FOLDER: it has all parts, and nothing from the tests or from libraries that are linked in
holds() {
    for part in $parts; do
        tests=$((tests + 1))
        [ -s "$1/$part" ] || bad "no $part"
    done
    find "$1" -type f | sed "s|^$1/||" | grep -E '\.(a|o)$|cmocka|gguf$|^(bin/[^f]|tests/)' > "$tmp/out" && bad "what nobody asked for"
    : > "$tmp/out"
}
holds "$place"

# ---- it works, far from this tree ----
mkdir "$tmp/empty"
mv "$place" "$tmp/moved"
forgec=$tmp/moved/bin/forgec
(cd "$tmp/empty" && check version 0 "$forgec" --version && out_is "forgec $version"; [ "$failed" -eq 0 ]) || failed=1
for list in targets models formats; do
    name=$list tests=$((tests + 1))
    cmp -s <(cd "$tmp/empty" && "$forgec" $list) <("$build/forgec" $list) || bad "differs from the built forgec's"
done
name=plan tests=$((tests + 1))
cmp -s <(cd "$tmp/empty" && "$forgec" build "$model" -t gfx1151 --emit source -o -) <("$build/forgec" build "$model" -t gfx1151 --emit source -o -) ||
    bad "differs from the built forgec's"
name=paths tests=$((tests + 1))
! grep -qaF -e "$root/" "$forgec" || bad "the packed forgec holds a path of this tree"

# ---- one version ----
# versioned FILE SED: the first text that SED finds in FILE is the version
versioned() {
    name=$1 tests=$((tests + 1))
    found=$(sed -n "$2" "$1" | head -n 1)
    [ "$found" = "$version" ] || bad "has version '$found', CMakeLists.txt $version"
}
versioned "$root/CHANGELOG.md" 's/^## \([0-9.]*\).*/\1/p'
versioned "$tmp/moved/share/man/man1/forgec.1" 's/^\.TH .*"forgec \([0-9.]*\)".*/\1/p'
versioned "$tmp/moved/share/pkgconfig/forgec.pc" 's/^Version: //p'
versioned "$tmp/moved/share/cmake/forgec/forgecConfigVersion.cmake" 's/^set(PACKAGE_VERSION "\(.*\)").*/\1/p'
name="other places" tests=$((tests + 1))
(cd "$root" && grep -rnwF -e "$version" CMakeLists.txt setup.sh README.md cmake compiler runtime templates completion docs/forgec.1) > "$tmp/out"
sed -i '/^CMakeLists.txt:[0-9]*:project(/d; /"forgec [0-9.]*, clang/d; /, by forgec [0-9.]*, clang/d' "$tmp/out"     # examples in comments
[ ! -s "$tmp/out" ] || bad "the version is repeated"
: > "$tmp/out"

# ---- the package of Debian ----
if command -v dpkg-deb > /dev/null && command -v dpkg-shlibdeps > /dev/null; then
    name="Debian package"
    deb=$tmp/made/forgec_${version}_$(dpkg --print-architecture).deb
    if [ -f "$deb" ]; then
        dpkg-deb -x "$deb" "$tmp/deb" || bad "cannot be unpacked"
        holds "$tmp/deb/usr"
        control() { dpkg-deb -f "$deb" "$1" | tr '\n' ' '; }
        name=Version tests=$((tests + 1))
        [ "$(control Version)" = "$version " ] || bad "$(control Version)"
        # The binary needs no newer glibc than Depends names, and no library that Depends does not name.
        needed=$(objdump -T "$tmp/deb/usr/bin/forgec" | grep -oE 'GLIBC_[0-9.]+' | sed 's/.*_//' | sort -V | tail -n 1)
        name=Depends tests=$((tests + 6))
        control Depends > "$tmp/out"
        asked=$(sed -n 's/.*libc6 (>= \([0-9.]*\)).*/\1/p' "$tmp/out")
        [ "$(printf '%s\n' "$needed" "$asked" | sort -V | tail -n 1)" = "$asked" ] || bad "glibc $needed is needed"
        for library in libyaml-0-2 libxxhash0 libcjson1 libmd0 zlib1g; do grep -qw -e $library "$tmp/out" || bad "no $library"; done
        [ "$(grep -o ',' "$tmp/out" | wc -l)" -eq 5 ] || bad "other libraries"
        name=Recommends tests=$((tests + 1))
        control Recommends > "$tmp/out"
        grep -q '^clang-19 |.*, lld-19 |.*, libc6-dev' "$tmp/out" || bad "no clang and lld"
        : > "$tmp/out"
    else
        bad "no $(basename "$deb"), but $(ls "$tmp/made")"
    fi
fi
summary
