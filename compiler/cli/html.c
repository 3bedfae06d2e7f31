/* html.c -- see html.h. */
#include "html.h"
#include <math.h>
#include <string.h>

void html_puts(struct text *t, const char *s, size_t n)
{
    static const struct { char c; const char *entity; } entities[] = {
        { '<', "&lt;" }, { '>', "&gt;" }, { '&', "&amp;" }, { '"', "&quot;" }, { '\'', "&#39;" },
    };
    for (size_t i = 0; i < n; ) {
        uint32_t used;
        const uint32_t point = utf8_next(s + i, n - i, &used);
        size_t k = 0;
        while (k < COUNT_OF(entities) && point != (unsigned char)entities[k].c) k++;
        if (k < COUNT_OF(entities)) text_puts(t, entities[k].entity);
        else if (point != 0xfffd && (is_visible(point) || point == '\n' || point == '\t')) text_append(t, s + i, used);
        else text_puts(t, "\xef\xbf\xbd");
        i += used;
    }
}

void html_text(struct text *t, const char *s) { html_puts(t, s, strlen(s)); }

const char *html_number(struct arena *a, double x)
{
    const double size = fabs(x);
    if (size < 1000 && x == floor(x)) return arena_printf(a, "%.0f", x);
    if (size < 1000) return arena_printf(a, "%.*f", size < 0.1 ? 4 : size < 10 ? 3 : size < 100 ? 2 : 1, x);
    const char *digits = arena_printf(a, "%.0f", size);
    struct text t = { .arena = a };
    for (size_t i = 0, n = strlen(digits); i < n; i++) text_printf(&t, "%s%c", i && (n - i) % 3 == 0 ? "," : "", digits[i]);
    return arena_printf(a, "%s%s", x < 0 ? "-" : "", text_str(&t));
}

/* Styles for light and dark screens and for paper. Colours of programs have a contrast of 4.5 to the background in all of them (WCAG 2,
 * 1.4.3). */
static const char screen_style[] =
    ":root{color-scheme:light dark;--paper:#fff;--panel:#f5f6f8;--ink:#1b2230;--soft:#566070;--line:#dce0e7;--on:#fff;--add:#e3f4ea;"
    "--del:#fbe9e7;--c0:#2f5fc4;--c1:#b4540c;--c2:#1f7a56;--c3:#b0336f;--c4:#7547c0;--c5:#0d7084;--c6:#85562a;--c7:#5f6874}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#12161d;--panel:#1a2029;--ink:#e6e9ef;--soft:#a2acba;--line:#2e3643;--on:#12161d;"
    "--add:#15301f;--del:#3a1d1b;--c0:#7fa5f6;--c1:#f0a05e;--c2:#5cc79b;--c3:#ee82b4;--c4:#b795f2;--c5:#55c1d4;--c6:#cda077;"
    "--c7:#a9b2bf}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:66rem;padding:2.5rem 1.5rem 4rem;background:var(--paper);color:var(--ink);"
    "font:15px/1.55 system-ui,-apple-system,\"Segoe UI\",\"Noto Sans\",sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.7rem;line-height:1.25;margin:0 0 .4rem;font-weight:650}\n"
    "h2{font-size:1.2rem;margin:3rem 0 .8rem;font-weight:650}\nh3{font-size:1rem;margin:1.6rem 0 .6rem;font-weight:600}\n"
    "p,ul{margin:.6rem 0;max-width:48rem}\nul{padding-left:1.2rem}\n.soft,figcaption,.note{color:var(--soft)}\n"
    ".note,figcaption{font-size:.87rem}\n"
    ".c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}.c5{--c:var(--c5)}.c6{--c:var(--c6)}"
    ".c7{--c:var(--c7)}\n"
    ".tag{display:inline-block;min-width:1.45em;padding:0 .3em;border-radius:.3em;background:var(--c);color:var(--on);font-weight:650;"
    "font-size:.85em;line-height:1.5;text-align:center}\n"
    ".programs{list-style:none;padding:0;margin:1rem 0}\n.programs li{margin:.25rem 0}\n"
    ".wide{overflow-x:auto;margin:.8rem 0}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem;min-width:100%}\n"
    "th,td{padding:.3rem .6rem;text-align:right;vertical-align:top;border-bottom:1px solid var(--line);"
    "overflow-wrap:normal}\n"
    "th{font-weight:600;color:var(--soft)}\n"
    "th:first-child,td:first-child,.left{text-align:left}\ntd:first-child{min-width:9rem;overflow-wrap:anywhere}\n"
    ".number{white-space:nowrap}\n"
    ".row{display:grid;grid-template-columns:minmax(7rem,13rem) 1fr 15rem;gap:0 1rem;align-items:center;padding:.3rem 0}\n"
    ".track{position:relative;height:30px}\n"
    ".bar{position:absolute;left:0;top:3px;height:14px;background:var(--c);border-radius:0 3px 3px 0}\n"
    ".dots{position:absolute;left:0;right:0;top:20px;height:8px}\n"
    ".dots b{position:absolute;top:3px;height:1px;background:var(--soft)}\n"
    ".dots i{position:absolute;top:1px;width:5px;height:5px;margin-left:-2.5px;border-radius:50%;background:var(--c)}\n"
    ".value{text-align:right;font-variant-numeric:tabular-nums}\n"
    ".kernels .bar{position:static;height:.8em;display:block;min-width:1px}\n.kernels td.time{width:34%;padding-top:.65em}\n"
    ".kernels tbody{border-bottom:1px solid var(--line)}\n.kernels tbody td{border:0;padding-top:.12rem;padding-bottom:.12rem}\n"
    "figure{margin:1rem 0}\nfigure .wide svg{display:block;width:100%;min-width:36rem;height:auto;font-size:12px}\n"
    ".axis{stroke:var(--line);stroke-width:1}\n.roof{stroke:var(--ink);stroke-width:1.6;fill:none}\n"
    "svg text{fill:var(--soft)}\nsvg .label{fill:var(--ink)}\n.mark{fill:var(--c);fill-opacity:.75;stroke:var(--paper);stroke-width:.7}\n"
    "details{margin:.6rem 0;border:1px solid var(--line);border-radius:6px;background:var(--panel)}\n"
    "summary{cursor:pointer;padding:.5rem .8rem}\n"
    "pre{margin:0;padding:.6rem .8rem;overflow-x:auto;font:12.5px/1.45 ui-monospace,\"DejaVu Sans Mono\",monospace;overflow-wrap:normal;"
    "border-top:1px solid var(--line)}\n"
    "pre code{display:inline-block;min-width:100%;font:inherit}"
    "pre span{display:block;min-height:1.45em}\npre .add{background:var(--add)}\npre .del{background:var(--del)}\n"
    "pre .at{color:var(--soft)}\n"
    ".paper{display:none}\n"
    "@media(max-width:44rem){body{padding:1.5rem 1rem 3rem}.row{grid-template-columns:1fr}.value{text-align:left}}\n";
static const char paper_style[] =
    "@media print{:root{--paper:#fff;--panel:#fff;--ink:#000;--soft:#444;--line:#bbb;--on:#fff;--c0:#2f5fc4;--c1:#b4540c;--c2:#1f7a56;"
    "--c3:#b0336f;--c4:#7547c0;--c5:#0d7084;--c6:#85562a;--c7:#5f6874}\n"
    "body{max-width:none;padding:0;font-size:10pt}table{font-size:8pt}th,td{padding:.2rem .3rem}td:first-child{min-width:0}"
    ".wide{overflow:visible}figure .wide svg{min-width:0}\n"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}details{display:none}.paper{display:block}"
    "h2,h3{break-after:avoid}.row,figure,.kernels tbody,tr{break-inside:avoid}.row{grid-template-columns:8rem 1fr 13rem}}\n";

void html_head(struct text *t, const char *title)
{
    text_puts(t, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>");
    html_text(t, title);
    text_puts(t, "</title>\n<style>\n");
    text_puts(t, screen_style);
    text_puts(t, paper_style);
    text_puts(t, "</style>\n</head>\n<body>\n");
}
