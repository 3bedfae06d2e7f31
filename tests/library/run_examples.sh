#!/bin/sh
# run_examples.sh FORGEC [PART...] -- the examples of embedding, and what a user of a library meets.  PART: all of these, or some
#   quotes    what docs/embedding.md quotes of the examples
#   text      examples/embed/build.sh; what host, host_cpp, pool, fork and two tell is what the executable tells at temperature 0
#   cross     the same for aarch64, in qemu
#   kinds     obj and shared instead of lib; pkg-config; C99, C++11 and gcc, clang take the header
#   symbols   the libraries of all targets need memcpy, memmove and memset, export the API and have no variables;
#             SYMBOLS_OF: of these targets
#   package   examples/embed and a project of all kinds by find_package(forgec), from an install tree of FORGEC's build folder
# What lacks its tools is left out with a line.  CFLAGS, CMAKE_GENERATOR as usual.
# shellcheck disable=SC2317,SC2015,SC2086  # parts are called by name; "a && b || fail" is meant; commands and numbers without quotes are words
set -eu
forgec=$(cd "$(dirname "$1")" && pwd)/$(basename "$1"); shift
[ $# -gt 0 ] || set -- quotes text cross kinds symbols package
root=$(cd "$(dirname "$0")/../.." && pwd)
examples=$root/examples/embed
story=$root/examples/storyteller/storyteller-7m-q8_0.gguf golden=$root/tests/data/golden/q-llama-Q8_0.gguf
prompt="Once upon a time" length=60
. "$(dirname "$0")/../harness.sh"
dir=$tmp

lacks() { echo "$name: left out, no $1"; }
has() { command -v "$1" >/dev/null 2>&1; }
nm_of() { for n in llvm-nm-19 llvm-nm nm; do has "$n" && { echo "$n"; return; }; done; }

# told MODEL TARGET NAME: the executable's text in $dir/NAME.  As many threads as a library has workers: the sums are cut alike.
told() {
    "$forgec" build "$1" -q -t "$2" -o "$dir/exe"
    ${emulator-} "$dir/exe" -q -t 8 -p "$prompt" -n $length --temp 0 >"$dir/$3"
}

# texts DIR: what the examples there tell
texts() {
    run() { program=$1; shift; case $program in profile | chat) ;; *) set -- "$prompt" $length "$@" ;; esac; ${emulator-} "$programs/$program" "$@" >"$dir/$program.text" 2>"$dir/$program.err" || bad "$program: exit code $?: $(cat "$dir/$program.err")"; }
    programs=$1
    run host 0;     same "$dir/story.text" "$dir/host.text" "host and the executable differ"
    if [ -x "$programs/host_cpp" ]; then run host_cpp 0; same "$dir/story.text" "$dir/host_cpp.text" "host_cpp and the executable differ"; fi
    for threads in 1 2 3 7; do
        run pool $threads
        same "$dir/story.text" "$dir/pool.text" "pool with $threads threads and the executable differ"
    done
    run fork
    sed '/^--$/,$d' "$dir/fork.text" >"$dir/ending"
    { cat "$dir/story.text"; echo; } >"$dir/wanted"
    same "$dir/wanted" "$dir/ending" "fork's first ending and the executable differ"
    [ "$(awk '/^--$/ { n++; next } { t[n + 0] = t[n + 0] $0 } END { for (i in t) print t[i] }' "$dir/fork.text" | sort -u | grep -c .)" -eq 3 ] || bad "fork tells no three endings"
    run profile 40 5
    awk '$1 == "sum" { steps += $2 > 0 && $6 > 0 } / launches / { rows++ } END { exit steps != 2 || rows < 10 }' "$dir/profile.text" ||
        bad "profile: $(cat "$dir/profile.text")"
    for seed in 1 2 3; do
        run chat "A king had a daughter." $seed
        grep -Eq '^\{[[:space:]]*"who": ?"([^"\\]|\\.){0,60}",[[:space:]]*"mood": ?"(merry|sad)",[[:space:]]*"years": ?[1-9][0-9]?[[:space:]]*\}$' "$dir/chat.text" ||
            bad "chat answers $(cat "$dir/chat.text")"
    done
    run two
    { printf 'Storyteller 7M: '; cat "$dir/story.text"; printf '\nq-llama: '; cat "$dir/other.text"; echo; } >"$dir/wanted"
    same "$dir/wanted" "$dir/two.text" "two and the executables differ"
}

# quoted SECTION FILE: the example of that section of docs/embedding.md is out of FILE, line by line.
quoted() {
    awk -v section="$1" '/^## / { inside = index($0, section) } /^```/ { code = inside && $0 == "```c"; next } code' "$root/docs/embedding.md" | sed 's/^ *//' >"$dir/quoted"
    [ -s "$dir/quoted" ] || bad "docs/embedding.md has no example under $1"
    sed 's/^ *//' "$examples/$2" >"$dir/source"
    ! grep -vxF -f "$dir/source" "$dir/quoted" >"$dir/text" || bad "docs/embedding.md quotes what $2 does not have: $(cat "$dir/text")"
}

part_quotes() {
    quoted "Several texts" fork.c
    quoted "Where the time goes" profile.c
    quoted "Conversations" chat.c
}

part_text() {
    told "$story" native story.text
    told "$golden" native other.text
    FORGEC=$forgec CFLAGS="-Wpedantic -Wshadow -Wconversion -Werror ${CFLAGS-}" sh "$examples/build.sh" "$story" "$golden" "$dir/examples"
    texts "$dir/examples"
    # who does not measure pays nothing
    if nm=$(nm_of) && [ -n "$nm" ]; then
        cc -I "$dir/examples" "$examples/host.c" -L "$dir/examples" -lstory -Wl,--gc-sections -o "$dir/small"
        $nm "$dir/small" >"$dir/a"; $nm "$dir/examples/profile" >"$dir/b"; $nm "$dir/examples/chat" >"$dir/c"
        ! grep -q 'library_laps\|story_profile' "$dir/a" && grep -q library_laps "$dir/b" || bad "what measures is in a program that does not"
        ! grep -q 'story_chat\|chat_render\|mask_fill\|forge_chat' "$dir/a" && grep -q forge_chat "$dir/c" || bad "what chats is in a program that does not"
    fi
    "$dir/examples/host" "$prompt" 40 0.7 >"$dir/a"; "$dir/examples/host_cpp" "$prompt" 40 0.7 >"$dir/b"
    same "$dir/a" "$dir/b" "sampled texts of host and host_cpp differ"
    long=$(printf '%05000d' 0)
    ! "$dir/examples/host" "$long" 1 >"$dir/a" 2>"$dir/err" && grep -q '^host: ' "$dir/err" && [ ! -s "$dir/a" ] || bad "a prompt longer than the context is no error"
}

part_cross() {
    for tool in aarch64-linux-gnu-gcc qemu-aarch64; do has $tool || { lacks $tool; return; }; done
    if has aarch64-linux-gnu-g++; then cxx=aarch64-linux-gnu-g++; else cxx=true; lacks aarch64-linux-gnu-g++; fi
    emulator="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    length=12
    told "$story" aarch64 story.text
    told "$golden" aarch64 other.text
    FORGEC=$forgec TARGET=aarch64 CC=aarch64-linux-gnu-gcc CXX=$cxx sh "$examples/build.sh" "$story" "$golden" "$dir/cross"
    texts "$dir/cross"
    emulator='' length=60
    rm -f "$dir/story.text" "$dir/other.text"          # of another target
}

part_kinds() {
    mkdir "$dir/obj" "$dir/a folder"
    [ -s "$dir/story.text" ] || told "$story" native story.text
    "$forgec" build "$story" -q --emit obj --prefix story -o "$dir/obj/story.o"
    [ "$(ls "$dir/obj")" = "$(printf 'story.h\nstory.o')" ] || bad "--emit obj writes $(ls "$dir/obj")"
    cc -I "$dir/obj" "$examples/host.c" "$dir/obj/story.o" -o "$dir/obj/host"
    "$dir/obj/host" "$prompt" $length 0 >"$dir/text"
    same "$dir/story.text" "$dir/text" "an object tells something else"

    "$forgec" build "$story" -q --emit shared --prefix story -o "$dir/a folder/libstory.so"
    if has pkg-config; then
        flags=$(PKG_CONFIG_PATH="$dir/a folder" pkg-config --cflags --libs story)
        eval "cc \"\$examples/host.c\" $flags -o \"\$dir/obj/host\""
    else
        lacks pkg-config
        cc -I "$dir/a folder" "$examples/host.c" "$dir/a folder/libstory.so" -o "$dir/obj/host"
    fi
    LD_LIBRARY_PATH="$dir/a folder" "$dir/obj/host" "$prompt" $length 0 >"$dir/text"
    same "$dir/story.text" "$dir/text" "a shared library tells something else"

    printf '#include "story.h"\nint main(void) { return STORY_ENCODE_SCRATCH(1) == 0; }\n' >"$dir/h.c"
    for line in "gcc -std=c99" "g++ -x c++ -std=c++98 -Wno-long-long -Wno-variadic-macros" "clang-19 -std=c99" "clang++-19 -x c++ -std=c++11"; do
        has "${line%% *}" || { lacks "${line%% *}"; continue; }
            $line -Wall -Wextra -Wpedantic -Wconversion -Werror -I "$dir/obj" -c "$dir/h.c" -o "$dir/h.o" || bad "$line does not take story.h"
    done
}

part_symbols() {
    nm=$(nm_of)
    sed -n 's/^API(\(.*\))$/golden_\1/p' "$root/runtime/library/api.def" | sort >"$dir/api"
    for target in ${SYMBOLS_OF:-$("$forgec" targets | awk '{ print $1 }')}; do
        library=$dir/libgolden.a code=0
        "$forgec" build "$golden" -q -t "$target" --emit lib --prefix golden -o "$library" 2>"$dir/err" || code=$?
        # a GPU's is for programs that have a C library
        hosted=''
        case $target in gfx*|sm_*) hosted='|memcmp|str[a-z]+|v?snprintf|getenv|open|read|close|access|clock_gettime|nanosleep|dl(open|sym|error)|__errno_location' ;;
            # what every object of WebAssembly has from its linker
            wasm*) hosted='|__indirect_function_table|__stack_pointer' ;; esac
        [ $code -eq 0 ] || { bad "$target: $(cat "$dir/err")"; continue; }
        more=$($nm -u "$library" | awk -v allowed="^(memcpy|memmove|memset$hosted)\$" 'NF == 2 && $2 !~ allowed { print $2 }' | tr '\n' ' ')
        [ -z "$more" ] || bad "$target needs $more"
        $nm -g --defined-only "$library" | awk 'NF == 3 { print $3 }' | sort >"$dir/exported"
        same "$dir/api" "$dir/exported" "$target exports something else than the API"
        more=$($nm "$library" | awk 'NF == 3 && $2 ~ /^[bBcC]$/ { print $3 }' | tr '\n' ' ')
        [ -z "$more" ] || bad "$target has variables: $more"
        ! grep -qF -e "$dir" -e "$root" "$library" || bad "$target: a path of this machine is in it"
    done
}

# A project of all kinds, two folders deep: what examples/embed does not use.
write_project() {
    mkdir -p "$1/sub"
    cat >"$1/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(kinds LANGUAGES C)
find_package(forgec 0.1 REQUIRED)
forgec_add_model(as_object MODEL "${MODEL}" PREFIX story EMIT obj)
forgec_add_model(as_shared MODEL "${MODEL}" PREFIX story EMIT shared TARGET portable)
forgec_add_model(story MODEL "${MODEL}" OPTIONS --weights external --ctx 256)
get_target_property(weights story FORGEC_WEIGHTS)
file(WRITE "${CMAKE_BINARY_DIR}/weights" "${weights}")
add_subdirectory(sub)
END
    cat >"$1/sub/CMakeLists.txt" <<'END'
foreach(kind as_object as_shared)
  add_executable(${kind}_host "${HOST}")
  target_link_libraries(${kind}_host PRIVATE ${kind})
endforeach()
add_library(user STATIC "${HOST}")
target_link_libraries(user PUBLIC story)
END
}

part_package() {
    has cmake || { lacks cmake; return; }
    build=$(dirname "$forgec")
    [ -f "$build/CMakeCache.txt" ] || { skip "build folder of $forgec"; return; }
    [ -s "$dir/other.text" ] || { told "$story" native story.text; told "$golden" native other.text; }
    cmake --install "$build" --prefix "$dir/first" >"$dir/log" 2>&1 || { bad "cmake --install; is everything built?"; tail -5 "$dir/log"; return; }
    mv "$dir/first" "$dir/installed"                     # an install tree can be moved
    if has pkg-config; then
        found=$(PKG_CONFIG_PATH=$dir/installed/share/pkgconfig pkg-config --variable=forgec forgec)
        "$found" --version >"$dir/text" || bad "pkg-config says that forgec is $found"
    fi
    make_with() { cmake "$@" -DCMAKE_PREFIX_PATH="$dir/installed" >"$dir/log" 2>&1 && cmake --build "$built" >>"$dir/log" 2>&1 || { bad "$1 $2"; tail -20 "$dir/log"; return 1; }; }
    built=$dir/built
    make_with -S "$examples" -B "$built" -DSTORY_MODEL="$story" -DOTHER_MODEL="$golden" || return 0
    texts "$built"
    touch "$built/stamp"
    cmake --build "$built" >"$dir/log" 2>&1
    [ -z "$(find "$built/forgec" -newer "$built/stamp" -type f)" ] || bad "the models are built again though nothing changed"

    built=$dir/kinds
    write_project "$dir/project"
    make_with -S "$dir/project" -B "$built" -DMODEL="$story" -DHOST="$examples/host.c" || return 0
    "$built/sub/as_object_host" "$prompt" $length 0 >"$dir/text"
    same "$dir/story.text" "$dir/text" "EMIT obj tells something else"
    "$built/sub/as_shared_host" "$prompt" 10 0 | grep -q . || bad "EMIT shared tells nothing"
    [ -s "$(cat "$built/weights")" ] || bad "FORGEC_WEIGHTS is no file"
    ! cmake -S "$dir/project" -B "$dir/bad" -DMODEL="" -DHOST=x -DCMAKE_PREFIX_PATH="$dir/installed" >"$dir/log" 2>&1 || bad "no MODEL is no error"
    grep -q 'MODEL is missing' "$dir/log" || bad "a missing MODEL has another message"
}

for name; do
    tests=$((tests + 1)) before=$failed
    "part_$name"
    [ "$failed" -ne "$before" ] || echo "$name: done"
done
summary parts
