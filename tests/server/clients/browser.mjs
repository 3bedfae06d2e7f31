// browser.mjs -- headless Chromium by its DevTools protocol over a pipe: no package, no port.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import assert from "node:assert/strict";

const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"];
const keys = { Enter: [13, "\r"], Escape: [27], Tab: [9], " ": [32, " "] };

const webgpu = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-unsafe-swiftshader"];

// Opens one page.  folder: for chromium's files; gpu: with WebGPU, on SwiftShader.
export async function browse(chromium, folder, gpu = false) {
    const all = gpu ? [...flags.filter(f => f !== "--disable-gpu"), ...webgpu] : flags;
    const child = spawn(chromium, [...all, `--user-data-dir=${folder}`, "about:blank"],
        { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"], env: { ...process.env, HOME: folder } });
    const [, , err, to, from] = child.stdio, waiting = new Map(), events = [];
    let said = "", text = "", number = 0, session;
    const ended = new Promise(resolve => child.on("exit", code => {
        for (const { reject } of waiting.values()) reject(new Error(`chromium ended with ${code}: ${said}`));
        resolve();
    }));
    err.on("data", data => said += data);
    to.on("error", () => {});
    from.setEncoding("utf8");
    from.on("data", data => {
        const parts = (text + data).split("\0");
        text = parts.pop();
        for (const m of parts.map(p => JSON.parse(p))) {
            if (!m.id) { for (const hear of events) hear(m.method, m.params); continue; }
            const { resolve, reject } = waiting.get(m.id);
            waiting.delete(m.id);
            if (m.error) reject(new Error(m.error.message)); else resolve(m.result);
        }
    });
    const send = (method, params = {}) => new Promise((resolve, reject) => {
        waiting.set(++number, { resolve, reject });
        to.write(JSON.stringify({ id: number, method, params, sessionId: session }) + "\0");
    });
    const { targetInfos } = await send("Target.getTargets");
    session = (await send("Target.attachToTarget", { targetId: targetInfos.find(t => t.type === "page").targetId, flatten: true })).sessionId;

    const page = {
        send,
        on: hear => events.push(hear),
        // The value of an expression in the page; a promise is awaited.
        async run(expression) {
            const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
            assert(!exceptionDetails, exceptionDetails?.exception?.description ?? exceptionDetails?.text);
            return result.value;
        },
        // Waits until an expression is true.
        async until(expression, seconds = 10) {
            for (const since = Date.now(); !await page.run(expression); await new Promise(r => setTimeout(r, 10)))
                assert(Date.now() - since < 1000 * seconds, `not true after ${seconds} s: ${expression}`);
        },
        async type(characters) { await send("Input.insertText", { text: characters }); },
        async press(key, modifiers = 0) {
            const [windowsVirtualKeyCode, characters] = keys[key], event = { key, code: key === " " ? "Space" : key, modifiers, windowsVirtualKeyCode };
            await send("Input.dispatchKeyEvent", { type: characters ? "keyDown" : "rawKeyDown", text: characters, ...event });
            await send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
        },
        async shot(path) { writeFileSync(path, Buffer.from((await send("Page.captureScreenshot")).data, "base64")); },
        async close() {
            send("Browser.close").catch(() => {});
            await ended;
        },
    };
    return page;
}
