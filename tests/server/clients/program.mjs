// program.mjs -- a compiled program as a server, for tests: PROGRAM names it.
import { spawn } from "node:child_process";
import assert from "node:assert/strict";

// Starts the program and waits until it listens; it ends with the tests.
export async function serve(...options) {
    const child = spawn(process.env.PROGRAM, ["--serve", "--port", "0", "--slots", "2", "-s", "1", ...options], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    const url = await new Promise((resolve, reject) => {
        child.on("error", reject);
        child.on("exit", code => reject(new Error(`exit code ${code}: ${said}`)));        // once it listens, this says nothing
        child.stderr.on("data", data => {
            const at = /listening at (http:\S+)/.exec(said += data);
            if (at) resolve(at[1]);
        });
    });
    const ended = new Promise(resolve => child.on("exit", resolve));
    const slots = async () => (await (await fetch(url + "/slots")).json()).filter(s => s.is_processing).length;
    return {
        url,
        slots,
        // Waits until no slot has a text: a client that has just left may have left one.
        async idle() {
            const since = Date.now();
            while (await slots() > 0) {
                assert(Date.now() - since < 5000, "a slot is still busy after 5 s");
                await new Promise(resolve => setTimeout(resolve, 5));
            }
        },
        // The number of tokens generated since the server started.
        async drawn() { return Number(/^llamacpp:tokens_predicted_total (\S+)/m.exec(await (await fetch(url + "/metrics")).text())[1]); },
        async stop() {
            child.kill("SIGTERM");
            assert.equal(await ended, 0, said);
        },
    };
}
