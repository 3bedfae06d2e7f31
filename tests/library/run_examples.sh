#!/bin/sh
# run_examples.sh FORGEC [PART...] -- the examples of embedding, and the use of a library.  PART: some of these parts; default: all
#   quotes    docs/embedding.md quotes the examples correctly
#   text      examples/embed/build.sh; host, host_cpp, pool, fork and two print the text that the executable prints at temperature 0
#   cross     the same for aarch64, in qemu
#   kinds     obj and shared instead of lib; pkg-config; the header compiles as C99 and C++11 with gcc and clang
#   symbols   the libraries of all targets need memcpy, memmove and memset, export the API and have no variables;
#             SYMBOLS_OF: only these targets
#   package   examples/embed and a project with all kinds of libraries by find_package(forgec), from an install tree of FORGEC's build folder
# A part whose tools are missing is left out with a line.  CFLAGS, CMAKE_GENERATOR as usual.
# shellcheck disable=SC2317,SC2015,SC2086  # parts are called by name; "a && b || fail" is meant; commands and numbers without quotes are words
set -eu
forgec=$(cd "$(dirname "$1")" && pwd)/$(basename "$1"); shift
[ $# -gt 0 ] || set -- quotes text cross kinds symbols package
root=$(cd "$(dirname "$0")/../.." && pwd)
examples=$root/examples/embed
story=$(dirname "$forgec")/tests/data/storyteller-7m-q8_0.gguf golden=$(dirname "$forgec")/tests/data/golden/q-llama-Q8_0.gguf
prompt="Once upon a time" length=60
. "$(dirname "$0")/../harness.sh"
dir=$tmp

without() { left_out "$name: no $1"; }
has() { command -v "$1" >/dev/null 2>&1; }
nm_of() { for n in llvm-nm-19 llvm-nm nm; do has "$n" && { echo "$n"; return; }; done; }

# told MODEL TARGET NAME: writes the executable's text to $dir/NAME.  It has as many threads as a library has workers, so that sums are divided in the same way.
told() {
    "$forgec" build "$1" -q -t "$2" -o "$dir/exe"
    ${emulator-} "$dir/exe" -q -t 8 -p "$prompt" -n $length --temp 0 >"$dir/$3"
}

# texts DIR: compares the texts of the examples there
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

# quoted SECTION FILE: every line of the example in that section of docs/embedding.md is in FILE.
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
    # a program that does not measure does not contain the profile
    if nm=$(nm_of) && [ -n "$nm" ]; then
        cc -I "$dir/examples" "$examples/host.c" -L "$dir/examples" -lstory -Wl,--gc-sections -o "$dir/small"
        $nm "$dir/small" >"$dir/a"; $nm "$dir/examples/profile" >"$dir/b"; $nm "$dir/examples/chat" >"$dir/c"
        ! grep -q 'library_timings\|story_profile' "$dir/a" && grep -q library_timings "$dir/b" || bad "what measures is in a program that does not"
        ! grep -q 'story_chat\|chat_render\|mask_fill\|forge_chat' "$dir/a" && grep -q forge_chat "$dir/c" || bad "what chats is in a program that does not"
    fi
    "$dir/examples/host" "$prompt" 40 0.7 >"$dir/a"; "$dir/examples/host_cpp" "$prompt" 40 0.7 >"$dir/b"
    same "$dir/a" "$dir/b" "sampled texts of host and host_cpp differ"
    long=$(printf '%05000d' 0)
    ! "$dir/examples/host" "$long" 1 >"$dir/a" 2>"$dir/err" && grep -q '^host: ' "$dir/err" && [ ! -s "$dir/a" ] || bad "a prompt longer than the context is not an error"
}

part_cross() {
    for tool in aarch64-linux-gnu-gcc qemu-aarch64; do has $tool || { without $tool; return; }; done
    if has aarch64-linux-gnu-g++; then cxx=aarch64-linux-gnu-g++; else cxx=true; without aarch64-linux-gnu-g++; fi
    emulator="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    length=12
    told "$story" aarch64 story.text
    told "$golden" aarch64 other.text
    FORGEC=$forgec TARGET=aarch64 CC=aarch64-linux-gnu-gcc CXX=$cxx sh "$examples/build.sh" "$story" "$golden" "$dir/cross"
    texts "$dir/cross"
    emulator='' length=60
    rm -f "$dir/story.text" "$dir/other.text"          # a library of another target
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
        without pkg-config
        cc -I "$dir/a folder" "$examples/host.c" "$dir/a folder/libstory.so" -o "$dir/obj/host"
    fi
    LD_LIBRARY_PATH="$dir/a folder" "$dir/obj/host" "$prompt" $length 0 >"$dir/text"
    same "$dir/story.text" "$dir/text" "a shared library tells something else"

    printf '#include "story.h"\nint main(void) { struct story *m; return story_open(&m, 0, STORY_ENCODE_SCRATCH(1), 0) == 0; }\n' >"$dir/h.c"
    for line in "gcc -std=c99" "g++ -x c++ -std=c++98 -Wno-long-long -Wno-variadic-macros" "clang-19 -std=c99" "clang++-19 -x c++ -std=c++11"; do
        has "${line%% *}" || { without "${line%% *}"; continue; }
            $line -Wall -Wextra -Wpedantic -Wconversion -Werror -I "$dir/obj" -c "$dir/h.c" -o "$dir/h.o" || bad "$line does not take story.h"
    done
}

part_symbols() {
    nm=$(nm_of)
    sed -n 's/^API(\(.*\))$/golden_\1/p' "$root/runtime/library/api.def" | sort >"$dir/api"
    for target in ${SYMBOLS_OF:-$("$forgec" targets | awk '{ print $1 }')}; do
        library=$dir/libgolden.a code=0
        "$forgec" build "$golden" -q -t "$target" --emit lib --prefix golden -o "$library" 2>"$dir/err" || code=$?
        # a library for a GPU is for programs with a C library
        hosted=''
        case $target in gfx*|sm_*) hosted='|memcmp|str[a-z]+|v?snprintf|(secure_)?getenv|(open|read|close)dir|open|read|close|access|clock_gettime|nanosleep|dl(open|sym|error)|__errno_location' ;;
            # symbols that the linker defines in every object of WebAssembly
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

# A project with all kinds of libraries, two folders deep, for what examples/embed does not use.
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
add_executable(smallest "${SMALLEST}")
target_link_libraries(smallest PRIVATE as_object)
add_library(user STATIC "${HOST}")
target_link_libraries(user PUBLIC story)
END
}

part_package() {
    has cmake || { without cmake; return; }
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
    awk '/^## / { inside = /smallest program/ } /^```/ { code = inside && $0 == "```c"; next } code' "$root/docs/embedding.md" >"$dir/smallest.c"
    make_with -S "$dir/project" -B "$built" -DMODEL="$story" -DHOST="$examples/host.c" -DSMALLEST="$dir/smallest.c" \
        -DCMAKE_C_FLAGS="-Wall -Wextra -Werror -pedantic" || return 0
    "$built/sub/smallest" >"$dir/text" && [ "$(head -c 30 "$dir/text")" = "$(head -c 30 "$dir/story.text")" ] ||
        bad "the program of docs/embedding.md tells $(head -c 200 "$dir/text")"
    "$built/sub/as_object_host" "$prompt" $length 0 >"$dir/text"
    same "$dir/story.text" "$dir/text" "EMIT obj tells something else"
    "$built/sub/as_shared_host" "$prompt" 10 0 | grep -q . || bad "EMIT shared tells nothing"
    "$forgec" build "$golden" -q -t portable --emit shared --prefix story -o "$dir/libstory.so"          # in the place of another
    ! LD_LIBRARY_PATH=$dir "$built/sub/as_shared_host" "$prompt" 10 0 >"$dir/text" 2>&1 && grep -q "header of another build" "$dir/text" ||
        bad "another model's library: $(cat "$dir/text")"
    [ -s "$(cat "$built/weights")" ] || bad "FORGEC_WEIGHTS is not a file"
    ! cmake -S "$dir/project" -B "$dir/bad" -DMODEL="" -DHOST=x -DCMAKE_PREFIX_PATH="$dir/installed" >"$dir/log" 2>&1 || bad "no MODEL is not an error"
    grep -q 'MODEL is missing' "$dir/log" || bad "a missing MODEL has another message"

    # a build of the target forgec alone, as ./setup.sh story makes it
    cmake -S "$root" -B "$dir/alone" -DFORGEC_TESTS=OFF >"$dir/log" 2>&1 && cp "$forgec" "$dir/alone/" &&
        cmake --install "$dir/alone" --prefix "$dir/second" >"$dir/log" 2>&1 || { bad "cmake --install of forgec alone"; tail -5 "$dir/log"; return; }
    "$dir/second/bin/forgec" --version >"$dir/text" || bad "forgec alone does not work where it is installed"
    if [ "$(uname -m)" = x86_64 ]; then
        grep -q 'Left out: the simulator' "$dir/log" || bad "nothing is said of the simulator: $(tail -5 "$dir/log")"
        ! "$dir/second/bin/forgec" verify "$golden" -t gfx1151 --simulate >"$dir/text" 2>&1 && grep -q 'target product' "$dir/text" ||
            bad "verify --simulate does not say what to build: $(cat "$dir/text")"
    fi

    # forgec as a part of a project: it is not built here, as that takes a minute
    mkdir "$dir/part"
    cat >"$dir/part/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(part LANGUAGES C)
add_subdirectory("$root" forgec)
forgec_add_model(story MODEL "$story" TARGET portable)
add_executable(host "$examples/host.c")
target_link_libraries(host PRIVATE story)
END
    cmake -S "$dir/part" -B "$dir/part/build" >"$dir/log" 2>&1 || { bad "add_subdirectory"; tail -20 "$dir/log"; return; }
    cmake --build "$dir/part/build" --target help >"$dir/text"
    grep -qw story_forgec "$dir/text" && grep -qw forgec "$dir/text" && ! grep -qwE 'product|test_[a-z]+' "$dir/text" || bad "add_subdirectory makes other targets"
}

for name; do
    tests=$((tests + 1)) before=$failed
    "part_$name"
    [ "$failed" -ne "$before" ] || echo "$name: done"
done
summary parts
