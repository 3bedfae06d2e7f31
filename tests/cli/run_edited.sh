#!/bin/sh
# run_edited.sh FORGEC MODEL.gguf LIBSIMT [GFXSIM] -- sources edited by hand: forgec cc and forgec verify --source, --info, and refusals.
set -u
[ $# -ge 3 ] || { echo "usage: run_edited.sh FORGEC MODEL.gguf LIBSIMT [GFXSIM]" >&2; exit 2; }
forgec=$1 model=$2 simt=$3 gfxsim=${4-} here=$(cd "$(dirname "$0")" && pwd)
. "$(dirname "$0")/../harness.sh"

# ---- a CPU ----
cd "$tmp" || exit 1
check emit 0 "$forgec" build "$model" --ctx 256 --emit source -q -o story.c
check build 0 "$forgec" build "$model" --ctx 256 -q -o built
check build-info 0 ./built --info; out_lacks edited
check unedited 0 "$forgec" cc story.c "$model" --ctx 256 -q -o same; same built same "the program of an unedited source is another one"
check unedited-elsewhere 0 sh -c 'mkdir -p "a ?\" b" && cp story.c "a ?\" b/other.c"'
check unedited-verify 0 "$forgec" verify --source story.c "$model" --ctx 256 --tokens 3; out_has "with story.c"; out_has "  ok"

# one constant of the norms is wrong: it compiles, and only the logits show it
sed 's/1e-05f\|9\.99999975e-06f\|9\.99999997e-07f\|1e-06f/0.5f/g' story.c >wrong.c
name=wrong; ! cmp -s story.c wrong.c || bad "nothing was edited"
check wrong 0 "$forgec" cc wrong.c "$model" --ctx 256 -q -o wrong
check wrong-info 0 ./wrong --info; out_has "edited source  "
sum=$(sed -n 's/^edited source  \([0-9a-f]*\):.*/\1/p' "$tmp/out")
[ ${#sum} -eq 32 ] || bad "no hash of 32 digits"
! command -v xxhsum >/dev/null || [ "$sum" = "$(xxhsum -H2 wrong.c | cut -d ' ' -f 1)" ] || bad "the hash is not XXH3-128 of the file"
check wrong-version 0 ./wrong --version; out_has "edited source"
check wrong-verify 1 "$forgec" verify --source wrong.c "$model" --ctx 256 --tokens 3; out_has "FAILED"; out_has "OUT OF BOUNDS"
out_has "the first kernel whose output is not the emitted source's: attn_qkv of layer 0, at token 0"
check wrong-json 1 "$forgec" verify --source wrong.c "$model" --ctx 256 --tokens 3 --json; out_has '"source":	"wrong.c"'
# the same text from another path: the same program
cp wrong.c 'a ?" b/other.c'
for path in wrong.c 'a ?" b/other.c'; do
    check path 0 "$forgec" cc "$path" "$model" --ctx 256 --no-cache --emit asm -q -o "asm.${path%%[. ]*}"
done
same asm.wrong asm.a "the path got into the code"
check path-program 0 "$forgec" cc 'a ?" b/other.c' "$model" --ctx 256 -q -o path; same wrong path "the path got into the program"

# clang's messages are about the user's file
line=$(($(wc -l <story.c) + 1))
{ cat story.c; echo 'int broken = no_such_name;'; } >broken.c
check broken 1 "$forgec" cc broken.c "$model" --ctx 256 -q -o broken; err_has "broken.c:$line:14: error: "; err_lacks "<stdin>"; err_has "could not compile broken.c"; err_lacks "mistake in forgec"
{ cat story.c; echo 'int broken = no_such_name;'; } >'a ?" b/other.c'
check broken-path 1 "$forgec" cc 'a ?" b/other.c' "$model" --ctx 256 -q -o broken; err_has "a ?\" b/other.c:$line:14: error: "
[ ! -e broken ] || bad "a program"

# ---- what it was emitted for ----
check no-ctx 1 "$forgec" cc story.c "$model" -o none; err_has "; say --ctx 256"; one_line
check other-ctx 1 "$forgec" verify --source story.c "$model" --ctx 128; err_has "; say --ctx 256"; one_line
check other-options 1 "$forgec" cc story.c "$model" --ctx 256 --fuse none --kv q8_0 -o none; err_has "; say --fuse layer --kv f16"; one_line
check exact 1 "$forgec" cc story.c "$model" --ctx 256 --exact -o none; err_has "; say --kv f16 and leave out --exact"; one_line
check exact-kv 1 "$forgec" cc story.c "$model" --ctx 256 --exact --kv f16 -o none; err_has "; leave out --exact"; one_line
check other-target 1 "$forgec" cc story.c "$model" --ctx 256 -t portable -o none; err_has "; say -t "; one_line
check other-machine 1 "$forgec" cc story.c "$model" --ctx 256 -t gfx1151 -o none; err_has "; say -t "; one_line
check two-targets 1 "$forgec" cc story.c "$model" --ctx 256 -t x86-64-v3,x86-64-v4 -o none; err_has "one target"; one_line
sed 's/GGUF [0-9a-f]*/GGUF 00112233445566778899aabbccddeeff/' story.c >model.c
check other-model 1 "$forgec" cc model.c "$model" --ctx 256 -o none; err_has "another model"; one_line
echo 'int main(void) { return 0; }' >main.c
check no-source 1 "$forgec" cc main.c "$model" --ctx 256 -o none; err_has "is not a source that forgec emits"; one_line
sed '1,/^ \*\//d' story.c >headless.c
check headless 0 "$forgec" cc headless.c "$model" --ctx 256 -q -o headless
check headless-target 1 "$forgec" cc headless.c "$model" --ctx 256 -t portable -o none; err_has "is not a source that forgec emits"; one_line
check missing 1 "$forgec" cc missing.c "$model" --ctx 256 -o none; err_has "missing.c"; one_line
name=none; [ ! -e none ] || bad "a program"

# ---- kernels of a GPU: on the emulator of lanes, and on the simulator ----
lanes=$here/../lanes/simt32.yaml
export FORGE_HIP_LIBRARY="$simt"
# gpu NAME TARGET OPTIONS...
gpu() {
    label=$1 target=$2
    shift 2
    check "$label-emit" 0 "$forgec" build "$model" -t "$target" --ctx 64 --emit source -q -o kernels.hip
    sed 's/1e-05f\|9\.99999975e-06f\|9\.99999997e-07f\|1e-06f/0.5f/g' kernels.hip >wrong.hip
    ! cmp -s kernels.hip wrong.hip || bad "nothing was edited"
    check "$label-verify" 0 "$forgec" verify --source kernels.hip "$model" -t "$target" --ctx 64 --tokens 2 "$@"; out_has "  ok"
    check "$label-wrong" 1 "$forgec" verify --source wrong.hip "$model" -t "$target" --ctx 64 --tokens 2 "$@"; out_has "FAILED"
    out_has "the first kernel whose output is not the emitted source's: attn_qkv of layer 0, at token 0"
}
gpu lanes "$lanes"
check lanes-cc 0 "$forgec" cc kernels.hip "$model" -t "$lanes" --ctx 64 -q -o same; check lanes-build 0 "$forgec" build "$model" -t "$lanes" --ctx 64 -q -o built; same built same "other bytes"
check lanes-cc-wrong 0 "$forgec" cc wrong.hip "$model" -t "$lanes" --ctx 64 -q -o wrong; check lanes-info 0 ./wrong --info; out_has "edited source  "
check lanes-target 1 "$forgec" cc kernels.hip "$model" --ctx 64 -o none; err_has "; say -t simt32"; one_line
unset FORGE_HIP_LIBRARY
[ -z "$gfxsim" ] || [ -z "$full" ] || { FORGEC_GFXSIM=$gfxsim; export FORGEC_GFXSIM; gpu simulator "$here/../simulator/gfx1151-few.yaml" --simulate; }

# ---- clang's messages about text that forgec wrote itself: one line ----
mkdir clang templates templates/cpu
cat >clang/clang <<EOF
#!/bin/sh
case " \$* " in
*" --version "*) echo "clang version 19.1.7" ;;
*" --print-prog-name=ld.lld "*) echo /bin/false ;;
*) cat >/dev/null; echo "<stdin>:7:3: warning: something" >&2; echo "<stdin>:12:14: error: expected expression" >&2; echo "   12 | code" >&2; exit \$(cat "$tmp/clang/code") ;;
esac
EOF
chmod +x clang/clang
echo 1 >clang/code                      # not by the environment: clang has one of its own
check own 1 "$forgec" build "$model" --clang "$tmp/clang/clang" --emit asm --no-cache -o none; one_line; err_has "model.c:12:14: error: expected expression; "; err_has "please report it"; err_lacks "12 | code"
check own-verbose 1 "$forgec" build "$model" --clang "$tmp/clang/clang" --emit asm --no-cache -v -o none; err_has "12 | code"; err_has "please report it"
echo 0 >clang/code
check own-warning 0 "$forgec" build "$model" --clang "$tmp/clang/clang" --emit asm --no-cache -q -o said; one_line; err_has "forgec: warning: clang says: "; err_has "please report it"
echo 137 >clang/code
check own-killed 1 "$forgec" build "$model" --clang "$tmp/clang/clang" --emit asm --no-cache -o none; one_line; err_has "signal 9"; err_lacks "mistake"
check templates 1 "$forgec" build "$model" --clang "$tmp/clang/clang" --emit asm --no-cache --templates templates -o none; err_has "12 | code"; err_has "the templates of templates"; err_lacks "mistake"
name=none; [ ! -e none ] || bad "a product"
summary
