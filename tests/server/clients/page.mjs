// page.mjs -- the page at / in Chromium, as a person uses it: types, reads, stops, asks again, by the keyboard alone.
// PROGRAM=... CHROMIUM=... [SHOTS=DIR] node page.mjs; the program has been built with tests/server/chat.jinja.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { browse } from "./browser.mjs";
import { serve } from "./program.mjs";

let server, page, folder;
const asked = [], complaints = [];                             // requests; what stands in the console
const last = "document.querySelector('#log').lastElementChild";
const ended = `${last}.className.includes('assistant') && !!${last}.querySelector('.again') && document.querySelector('#log').getAttribute('aria-busy') === 'false'`;
const shot = async name => process.env.SHOTS && page.shot(`${process.env.SHOTS}/${name}.png`);

async function media(scheme, width, height = 800) {
    await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    await page.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 });
}
async function open() {
    await page.send("Page.navigate", { url: server.url + "/" });
    await page.until("document.readyState === 'complete' && document.title !== 'Chat'");
    await page.until("document.activeElement.id === 'input'");  // autofocus comes with the first frame
}
async function say(text) {
    await page.run("document.querySelector('#input').focus()");
    await page.type(text);
    await page.press("Enter");
}
// Makes the next answers these texts, or lists of deltas, as the server would stream them; `sent` keeps the body of the request.
async function pretend(...answers) {
    const all = answers.map(a => typeof a === "string" ? a.match(/[^]{1,40}/g).map(content => ({ content })) : a);
    await page.run(`(() => {
        const real = fetch, all = ${JSON.stringify(all)};
        window.fetch = async (url, options) => {
            if (!all.length || !String(url).includes("completions")) return real(url, options);
            window.sent = JSON.parse(options.body);
            const events = all.shift().map(delta => "data: " + JSON.stringify({ choices: [{ index: 0, delta }] }) + "\\n\\n");
            const bytes = new TextEncoder().encode(events.join("") + "data: [DONE]\\n\\n");
            return new Response(new ReadableStream({ start(c) { for (let i = 0; i < bytes.length; i += 7) c.enqueue(bytes.slice(i, i + 7)); c.close(); } }));
        };
    })()`);
}
// Makes the next answer endless.
async function endless() {
    await page.run(`(() => {
        const real = fetch;
        window.fetch = async (url, options) => {
            window.fetch = real;
            const text = new TextEncoder().encode('data: {"choices":[{"index":0,"delta":{"content":"more "}}]}\\n\\n');
            return new Response(new ReadableStream({ start(c) {
                const timer = setInterval(() => c.enqueue(text), 5);
                options.signal.addEventListener("abort", () => { clearInterval(timer); c.error(new DOMException("", "AbortError")); });
            } }));
        };
    })()`);
}

before(async () => {
    folder = mkdtempSync(tmpdir() + "/page-");
    server = await serve();
    page = await browse(process.env.CHROMIUM, folder);
    page.on((method, p) => {
        if (method === "Network.requestWillBeSent") asked.push(p.request.url);
        if (method === "Runtime.consoleAPICalled") complaints.push(p.args.map(a => a.value ?? a.description).join(" "));
        if (method === "Runtime.exceptionThrown") complaints.push(p.exceptionDetails.exception?.description ?? p.exceptionDetails.text);
        if (method === "Log.entryAdded") complaints.push(p.entry.text);
    });
    for (const domain of ["Page", "Runtime", "Network", "Log", "Accessibility"]) await page.send(domain + ".enable");
    await media("light", 1000);
    await open();
});
after(async () => {
    await page?.close();
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
});

test("an answer streams, with its speed", async () => {
    await page.run(`(() => {
        window.lengths = new Set();
        new MutationObserver(() => lengths.add(${last}?.querySelector('.body').textContent.length)).observe(document.querySelector('#log'), { childList: true, subtree: true });
    })()`);
    await say("Tell me of the king");
    await page.until(ended);
    assert.equal(await page.run("document.querySelector('#log .user .body').textContent"), "Tell me of the king");
    assert(await page.run(`${last}.querySelector('.body').textContent.trim().length`) > 20);
    assert(await page.run("lengths.size") > 2, "the text comes at once");
    assert.match(await page.run(`${last}.querySelector('.note').textContent`), /^\d+ tokens, [\d.]+ tokens\/s/);
    assert.equal(await page.run("document.activeElement.id"), "input");
});

test("it is asked again", async () => {
    await pretend("Another one");
    await page.run(`${last}.querySelector('.again').click()`);
    await page.until(ended);
    assert.deepEqual(await page.run("[...document.querySelectorAll('#log .body')].map(e => e.textContent)"), ["Tell me of the king", "Another one"]);
    assert.deepEqual(await page.run("sent.messages"), [{ role: "user", content: "Tell me of the king" }]);
});

test("it stops, by the key and by the button", async () => {
    for (const how of ["Escape", "button"]) {
        await endless();
        await say("Go on");
        await page.until(`${last}.querySelector('.body')?.textContent.length > 20 && !document.querySelector('#stop').hidden`);
        assert.match(await page.run(`${last}.querySelector('.note').textContent`), /tokens\/s/);
        if (how === "Escape") await page.press("Escape");
        else await page.run("document.querySelector('#stop').click()");
        await page.until(ended);
        assert.equal(await page.run("document.querySelector('#send').hidden"), false);
        assert.equal(await page.run(`!!${last}.querySelector('.error')`), false);
    }
    await say("And a real one");                               // what was said goes on
    await page.until(ended);
    await server.idle();
});

test("settings go into requests, and stay", async () => {
    await page.run("document.querySelector('#open-settings').click()");
    assert(await page.run("document.querySelector('#settings').open"));
    assert.notEqual(await page.run("document.querySelector('[name=temperature]').placeholder"), "");
    await page.run(`for (const [n, v] of Object.entries({ system: "Be brief", temperature: "0.5", top_p: "0.9", top_k: "7", min_p: "0.1", max_tokens: "6", seed: "3" }))
        document.querySelector('#settings [name=' + n + ']').value = v`);
    await page.run("document.querySelector('#settings .primary').click()");
    await pretend("Yes");
    await page.run("document.querySelector('#fresh').click()");
    await say("Hello");
    await page.until(ended);
    const { messages, temperature, top_p, top_k, min_p, max_tokens, seed, stream } = await page.run("sent");
    assert.deepEqual({ messages, temperature, top_p, top_k, min_p, max_tokens, seed, stream },
        { messages: [{ role: "system", content: "Be brief" }, { role: "user", content: "Hello" }], temperature: 0.5, top_p: 0.9, top_k: 7, min_p: 0.1, max_tokens: 6, seed: 3, stream: true });
    await open();
    assert.equal(await page.run("document.querySelector('[name=top_k]').value"), "7");
    await say("And a real one");
    await page.until(ended);
    assert.match(await page.run(`${last}.querySelector('.note').textContent`), /^6 tokens/);
});

const answer = `# A king
He **was** *old*, and had \`gold\`; [more](https://example.org/a).

1. one
2. two

- three
- four

> said he

| name | age |
|---|---|
| Hans | 7 |

\`\`\`c
int main(void) { return 1 < 2 && "<b>"; }
\`\`\`
`;
const evil = `<img src=x onerror="window.hacked = 1"><script>window.hacked = 2</script> **<svg onload=window.hacked=3>** [x](javascript:window.hacked=4) [y](https://e.org/"onmouseover="window.hacked=5)
\`\`\`html
</code></pre><script>window.hacked = 6</script>
\`\`\`
| <iframe srcdoc="<script>parent.hacked = 7</script>"> | b |
|---|---|
| <a href="javascript:1">c</a> | d |
`;

test("Markdown is shown, HTML is text", async () => {
    await page.run("document.querySelector('#fresh').click()");
    await pretend(answer, evil);
    await say("Markdown, please");
    await page.until(ended);
    const found = await page.run(`Object.fromEntries(["h2", "strong", "em", "ol li", "ul li", "blockquote", "th", "td", "pre code", ".bar span", "p code"].map(s =>
        [s, [...${last}.querySelectorAll(".body " + s)].map(e => e.textContent)]))`);
    assert.deepEqual(found, { h2: ["A king"], strong: ["was"], em: ["old"], "ol li": ["one", "two"], "ul li": ["three", "four"], blockquote: ["said he"],
        th: ["name", "age"], td: ["Hans", "7"], "pre code": ['int main(void) { return 1 < 2 && "<b>"; }'], ".bar span": ["c"], "p code": ["gold"] });
    assert.deepEqual(await page.run(`[...${last}.querySelectorAll('.body a')].map(a => [a.href, a.rel, a.target])`), [["https://example.org/a", "noopener noreferrer", "_blank"]]);
    await say("<i>And</i> something evil");
    await page.until(ended);
    await page.run("new Promise(r => setTimeout(r, 50))");
    assert.equal(await page.run("window.hacked ?? 0"), 0);
    assert.equal(await page.run("document.querySelectorAll('#log script, #log img, #log svg, #log iframe, #log i, #log [onerror], #log a[href^=javascript]').length"), 0);
    assert(await page.run(`${last}.textContent.includes('<img src=x onerror="window.hacked = 1">')`));
});

test("reasoning stands apart, calls are shown", async () => {
    await pretend([{ role: "assistant", content: "" }, { reasoning_content: "Let me " }, { reasoning_content: "see <b>" }, { content: "So." },
        { tool_calls: [{ index: 0, id: "c", function: { name: "add", arguments: "" } }] }, { tool_calls: [{ index: 0, function: { arguments: "{}" } }] }]);
    await say("Think");
    await page.until(ended);
    assert.equal(await page.run(`${last}.querySelector('details div').textContent`), "Let me see <b>");
    assert.equal(await page.run(`${last}.querySelector('details').open`), false);
    assert.equal(await page.run(`${last}.querySelector('.body').innerText`), "So.\nadd {}");
    await page.run(`${last}.querySelector('details').open = true`);
    await page.run("document.querySelector('#main').scrollTop = 1e6");
    await shot("reasoning");
});

test("light, dark and narrow", async () => {
    const shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)";
    const wide = "[...document.querySelectorAll('body *')].filter(e => { const r = e.getBoundingClientRect(); return r.width && r.right > innerWidth + 0.5 && !e.closest('pre, table, dialog'); }).length";
    for (const [name, scheme, width] of [["light", "light", 1000], ["dark", "dark", 1000], ["narrow", "light", 360], ["narrow-dark", "dark", 360]]) {
        await media(scheme, width);
        const sum = await page.run(shade);
        assert(scheme === "dark" ? sum < 150 : sum > 600, `${name}: ${sum}`);
        assert.equal(await page.run("document.documentElement.scrollWidth > innerWidth"), false, name);
        assert.equal(await page.run(wide), 0, name);
        await page.run("document.querySelector('#main').scrollTop = 0");
        await shot(name);
        await page.run("document.querySelector('#open-settings').click()");
        assert(await page.run("document.querySelector('#settings').getBoundingClientRect().right <= innerWidth"), name);
        await shot(name + "-settings");
        await page.press("Escape");
    }
    await media("light", 1000);
});

// The relative luminance of WCAG, to check that text is readable.
test("contrast", async () => {
    for (const scheme of ["light", "dark"]) {
        await media(scheme, 1000);
        const worst = await page.run(`(() => {
            const rgb = c => { const v = c.match(/[\\d.]+/g).map(Number); return v.length > 3 && v[3] === 0 ? null : v; };
            const light = v => v.slice(0, 3).map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((s, c, i) => s + c * [0.2126, 0.7152, 0.0722][i], 0);
            const ground = e => rgb(getComputedStyle(e).backgroundColor) ?? ground(e.parentElement);
            return [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && !e.disabled && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
                const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
                return [(a + 0.05) / (b + 0.05), e.tagName + "." + e.className];
            }).sort((x, y) => x[0] - y[0])[0];
        })()`);
        assert(worst[0] >= 4.5, `${scheme}: ${worst}`);
    }
    await media("light", 1000);
});

test("names for those who cannot see", async () => {
    await page.run("document.querySelector('#open-settings').click()");
    const nodes = async () => (await page.send("Accessibility.getFullAXTree")).nodes.filter(n => !n.ignored).map(n => ({ role: n.role?.value, name: n.name?.value ?? "", ...Object.fromEntries((n.properties ?? []).map(p => [p.name, p.value.value])) }));
    const acting = ["button", "textbox", "spinbutton", "link", "dialog", "log", "form"];
    for (const n of await nodes()) if (acting.includes(n.role) && n.role !== "form") assert(n.name !== "", `${n.role} without a name`);
    const dialog = await nodes(), names = role => dialog.filter(n => n.role === role).map(n => n.name);
    assert.deepEqual(names("dialog"), ["Settings"]);
    assert.deepEqual(names("spinbutton"), ["Temperature", "Top-p", "Top-k", "Min-p", "Most tokens of an answer", "Seed"]);
    await page.press("Escape");
    const tree = await nodes(), named = role => tree.filter(n => n.role === role).map(n => n.name);
    assert(named("textbox").includes("Message"));
    for (const name of ["New", "Settings", "Send", "Regenerate"]) assert(named("button").includes(name), name);
    assert.deepEqual(named("log"), ["Conversation"]);
    assert.equal(tree.find(n => n.role === "log").live, "polite");
    assert(tree.some(n => n.role === "status"));
    assert(tree.some(n => n.role === "heading" && n.name !== ""));
    assert(tree.some(n => n.role === "main"));
});

test("the keyboard is enough", async () => {
    await open();
    const at = async () => page.run("document.activeElement.id || document.activeElement.name || document.activeElement.className");
    assert.equal(await at(), "input");
    await page.type("first");
    await page.press("Enter", 8);                              // with Shift: a line
    await page.type("second");
    assert.equal(await page.run("document.querySelector('#input').value"), "first\nsecond");
    await page.press("Enter");
    await page.until(ended);
    const way = [];
    for (let i = 0; i < 12 && !way.includes("again"); i++) {
        await page.press("Tab");
        way.push(await at());
    }
    assert(way.includes("open-settings") && way.includes("fresh") && way.includes("again"), way.join(" "));
    assert.notEqual(await page.run("getComputedStyle(document.activeElement).outlineStyle"), "none");
    await page.press("Enter");                                 // again
    await page.until(ended);
    await page.run("document.querySelector('#open-settings').focus()");
    await page.press("Enter");
    assert(await page.run("document.querySelector('#settings').open"));
    await page.press("Escape");
    await page.until("!document.querySelector('#settings').open && document.activeElement.id === 'input'");
    await page.run("document.querySelector('#fresh').focus()");
    await page.press(" ");
    assert.equal(await page.run("document.querySelector('#log').childElementCount"), 0);
    assert.equal(await at(), "input");
});

test("a new chat begins while an answer comes", async () => {
    await endless();
    await say("Go on");
    await page.until(`${last}.querySelector('.body')?.textContent.length > 20`);
    await page.run("document.querySelector('#fresh').click()");
    await page.until("document.querySelector('#log').getAttribute('aria-busy') === 'false'");
    assert.equal(await page.run("document.querySelector('#log').childElementCount"), 0);
    await pretend("Yes");
    await say("Something else");
    await page.until(ended);
    assert.deepEqual(await page.run("sent.messages.filter(m => m.role !== 'system')"), [{ role: "user", content: "Something else" }]);
});

test("what goes wrong is said", async () => {
    await say("king ".repeat(3000));
    await page.until(ended);
    assert.match(await page.run(`${last}.querySelector('.note.error').textContent`), /context/);
    assert.equal(complaints.splice(0).filter(c => !/400 \(Bad Request\)/.test(c)).length, 0);      // Chromium's own line of that
    await page.run("window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))");
    await page.run(`${last}.querySelector('.again').click()`);
    await page.until(ended);
    assert.match(await page.run(`${last}.querySelector('.note.error').textContent`), /cannot be reached/);
});

test("nothing from elsewhere, nothing in the console", async () => {
    assert(asked.length > 5);
    assert.deepEqual(asked.filter(url => !url.startsWith(server.url + "/") && !url.startsWith("data:")), []);
    assert.deepEqual(complaints, []);
});
