#!/bin/sh
# run_page.sh FORGEC MODEL.gguf CHECK_PAGE [CHROMIUM] -- the page of `forgec compare --format html` in a browser: bars in proportion to speeds, nothing wider than the
# page, light, dark and on paper; no scripts, nothing fetched, and names of files that contain HTML stay text.
forgec=$1 model=$2 check_page=$3 chromium=${4-}
. "$(dirname "$0")/../harness.sh"
[ -n "$chromium" ] || skip "there is no chromium (Debian: apt-get install chromium)"
[ -x "$check_page" ] || skip "check_page was not built (Debian: apt-get install libpng-dev)"

# browse ARGUMENTS... : chromium without this user's settings; its log is in $tmp/err
browse() {
    HOME=$tmp timeout 120 "$chromium" --headless --no-sandbox --disable-gpu --hide-scrollbars --disable-background-networking --disable-component-update \
        --disable-sync --no-first-run --user-data-dir="$tmp/browser" --enable-logging=stderr "$@"
}
browse --dump-dom about:blank > "$tmp/out" 2> "$tmp/err" || lacks "chromium does not start here: $(grep -v dbus "$tmp/err" | tail -n 1)"

# ---- a page with odd names and an odd source ----
odd=$tmp/'a<b>"c'"'"'&d|<script>.gguf'
cp "$model" "$odd"
"$forgec" build "$model" --emit source -o "$tmp/own.c" -q
printf '/* </pre><script src="http://nowhere.invalid/"></script><img src=x onerror=alert(1)> */\n' | cat "$tmp/own.c" - > "$tmp/<i>mine.c"
check page 0 "$forgec" compare "$odd" --source default --source "$tmp/<i>mine.c" -p 32 -n 32 -r 1 --min-time 0.1 --threads 1 --format html; err_empty
page=$tmp/page.html
mv "$tmp/out" "$page"
name=tags; tests=$((tests + 1))
tags=$(grep -oE '<[a-zA-Z!][a-zA-Z0-9]*' "$page" | sort -u | tr '\n' ' ')
for tag in $tags; do
    case " <! <b <body <circle <code <details <div <figcaption <figure <h1 <h2 <h3 <head <html <i <li <meta <p <path <polygon <pre <span <strong <style <summary <svg <table <tbody <td <text <th <thead <title <tr <ul <!DOCTYPE " in
    *" $tag "*) ;;
    *) bad "the page has $tag" ;;
    esac
done
grep -qE '<[^>]* (src|href|on[a-z]+)=|@import|url\(' "$page" && bad "the page fetches or runs something"
check words 0 cat "$page"
out_has 'a&lt;b&gt;'; out_has '&amp;d|&lt;script&gt;'; out_has 'source &lt;i&gt;mine.c'; out_has '1 added'
out_has '+/* &lt;/pre&gt;&lt;script src=&quot;http://nowhere.invalid/&quot;&gt;'; out_has 'ffn_down'; out_has 'ops/byte'

# ---- the browser's measurements: a copy of the page that measures itself ----
sed 's/<meta http-equiv[^>]*>//' "$page" > "$tmp/measuring.html"
cat >> "$tmp/measuring.html" <<'END'
<script>
const lines = ["width " + innerWidth, "fetched " + performance.getEntriesByType("resource").length];
document.querySelectorAll("details").forEach(d => d.open = true);
if (document.documentElement.scrollWidth > innerWidth) lines.push("over: the page, " + document.documentElement.scrollWidth);
document.querySelectorAll("body *").forEach(e => {
    const r = e.getBoundingClientRect();
    if (r.width && r.right > innerWidth + 0.5 && !e.closest(".wide, pre")) lines.push("over: " + e.tagName + " to " + r.right);
});
document.querySelectorAll("details").forEach(d => d.open = false);
document.querySelectorAll(".row .bar").forEach(e => {
    const r = e.getBoundingClientRect();
    lines.push("bar " + [r.left, r.top + scrollY, r.width, r.height].join(" ") + " " + getComputedStyle(e).backgroundColor.match(/\d+/g).slice(0, 3).join(" "));
});
document.body.innerHTML = "";
document.body.append(lines.join("\n"));
</script>
END
for how in light-1200 dark-1200 light-500; do
    shade=; [ "${how%-*}" = light ] || shade=--blink-settings=preferredColorScheme=0
    check "measured-$how" 0 browse $shade --window-size="${how#*-},3000" --dump-dom "file://$tmp/measuring.html"
    sed -i 's/<[^>]*>//g' "$tmp/out"
    out_lacks over:; out_has "fetched 0"
    mv "$tmp/out" "$tmp/measured"
    check "shot-$how" 0 browse $shade --window-size="${how#*-},3000" --screenshot="$tmp/shot.png" "file://$page"
    err_lacks CONSOLE
    check "pixels-$how" 0 "$check_page" "$page" "$tmp/measured" "$tmp/shot.png" "${how%-*}"
done
# a script would be blocked and reported: so the page has no script
sed 's|</body>|<script>1</script></body>|' "$page" > "$tmp/scripted.html"
check scripted 0 browse --screenshot="$tmp/shot.png" "file://$tmp/scripted.html"; err_has CONSOLE

# ---- on paper ----
check paper 0 browse --no-pdf-header-footer --print-to-pdf="$tmp/page.pdf" "file://$page"
[ "$(head -c 5 "$tmp/page.pdf")" = %PDF- ] || bad "no PDF"
if command -v pdftotext > /dev/null; then
    check paper-words 0 pdftotext -bbox "$tmp/page.pdf" "$tmp/words"
    awk '/<page / { match($0, /width="[0-9.]+/); wide = substr($0, RSTART + 7, RLENGTH - 7) + 0; pages++ }
        /<word / { match($0, /xMax="[0-9.]+/); if (substr($0, RSTART + 6, RLENGTH - 6) + 0 > wide) { print "beyond the paper: " $0; code = 1 } words++ }
        END { if (!pages || words < 200) { print pages + 0 " pages, " words + 0 " words"; code = 1 } exit code }' "$tmp/words" > "$tmp/out" || bad "the paper"
    check paper-text 0 pdftotext -layout "$tmp/page.pdf" -
    for text in Speed Numbers Kernels Sources ffn_down Prefill 'too few rounds' logit 'left out on paper' 'a<b>'; do out_has "$text"; done
    out_lacks "nowhere.invalid"
fi

summary
