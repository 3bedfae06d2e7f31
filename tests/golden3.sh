#!/bin/sh
# golden3.sh DIR FORGEC [TARGET [ID...]] -- outside CI: how far programs of other people's models are from the exact logits, as a table.
# DIR: manifest.json with lists of models (model, tokens, logits as float32 rows, tolerance.llamacpp_class_mean_kl or mean_kl: 1.5 times what
# llama.cpp's default differs by), or without one NAME.gguf, NAME.tokens and NAME.logits.f32.  TARGET: default this machine's.  Exit code 1 where a program differs by more, or does not build.
# Needs python3, nothing beside.
[ $# -ge 2 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
exec python3 - "$@" <<'EOF'
import array, json, math, os, subprocess, sys, tempfile

folder, forgec, target, wanted = sys.argv[1], sys.argv[2], sys.argv[3:4], sys.argv[4:]
def listed():
    if os.path.exists(os.path.join(folder, "manifest.json")):
        return json.load(open(os.path.join(folder, "manifest.json")))
    names = sorted(n[:-5] for n in os.listdir(folder) if n.endswith(".gguf"))
    size = lambda n: os.path.getsize(os.path.join(folder, n + ".logits.f32")) // 4
    count = lambda n: len(open(os.path.join(folder, n + ".tokens")).read().replace(",", " ").split())
    return {"models": [{"id": n, "model": n + ".gguf", "tokens": n + ".tokens", "logits": n + ".logits.f32", "n_vocab": size(n) // count(n)}
                       for n in names]}

manifest = listed()
kinds = [k for k in ("models", "quants", "wild", "trained") if isinstance(manifest.get(k), list)]
entries = [e for k in kinds for e in manifest[k] if "logits" in e and (not wanted or e["id"] in wanted)]

def floats(path):
    a = array.array("f")
    with open(path, "rb") as f:
        a.frombytes(f.read())
    return a

def log_softmax(row):
    most = max(row)
    total = math.log(sum(math.exp(x - most) for x in row))
    return [x - most - total for x in row]

def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stderr.strip().split("\n")[-1] if done.returncode else None

far = 0
print("| model | weights | mean KL | worst KL | 1.5 x llama.cpp | best token | |\n|---|---|---|---|---|---|---|")
with tempfile.TemporaryDirectory() as work:
    program, out = os.path.join(work, "program"), os.path.join(work, "logits")
    for e in entries:
        path = lambda name: os.path.join(folder, e[name])
        said = run(forgec, "build", path("model"), "-q", "-o", program, *(["-t", target[0]] if target else []))
        said = said or run(program, "-q", "--tokens", "@" + path("tokens"), "--print-tokens", "-n", "0", "--logits", out)
        weights = e.get("quant", "")
        if said:
            far += 1
            print(f"| {e['id']} | {weights} | | | | | {said[:120]} |", flush=True)
            continue
        truth, got, n = floats(path("logits")), floats(out), e["n_vocab"]
        rows = len(truth) // n
        at = e.get("compare_positions") or range(len(got) // n - rows, len(got) // n)
        kl, same = [], 0
        for i, p in enumerate(at):
            row = p if e.get("compare_positions") else i
            a, b = truth[row * n:(row + 1) * n], got[p * n:(p + 1) * n]
            la, lb = log_softmax(a), log_softmax(b)
            kl.append(sum(math.exp(x) * (x - y) for x, y in zip(la, lb)))
            same += a.index(max(a)) == b.index(max(b))
        t = e.get("tolerance", {})
        bound = t.get("llamacpp_class_mean_kl", t.get("mean_kl"))
        mean = sum(kl) / len(kl)
        beyond = bound is not None and not mean <= bound
        far += beyond
        print(f"| {e['id']} | {weights} | {mean:.1e} | {max(kl):.1e} | {'' if bound is None else f'{bound:.1e}'} | {same} of {len(kl)} |"
              f" {'beyond' if beyond else ''} |", flush=True)
print(f"\n{len(entries)} models, {far} beyond or not built", file=sys.stderr)
sys.exit(far > 0)
EOF
