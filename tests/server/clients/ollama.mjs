// ollama.mjs -- tests a program with Ollama's own client, as its users use it.
// PROGRAM=... node ollama.mjs; the program has been built with tests/server/chat.jinja.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Ollama } from "ollama";
import { serve } from "./program.mjs";

let server, client, model;
const messages = [{ role: "user", content: "Tell me of the king" }], options = { num_predict: 12 };
const tools = [{ type: "function", function: { name: "add", description: "Adds", parameters: {
    type: "object", properties: { a: { type: "integer", minimum: 0, maximum: 9 } }, required: ["a"], additionalProperties: false } } }];
const tool_choice = { type: "function", function: { name: "add" } };

before(async () => {
    server = await serve("--temp", "0");
    client = new Ollama({ host: server.url });
});
after(() => server.stop());

test("the model is described", async () => {
    const { models } = await client.list(), [running] = (await client.ps()).models;
    model = models[0].name;
    assert.equal(models.length, 1);
    assert.equal(running.digest, models[0].digest);
    assert(models[0].size > 1e6 && running.context_length > 0 && new Date(models[0].modified_at) < new Date(running.expires_at));
    assert.match(models[0].details.quantization_level, /^[A-Z0-9_]+$/);
    const shown = await client.show({ model });
    assert.deepEqual(shown.details, models[0].details);
    assert(shown.capabilities.includes("tools") && shown.model_info[`${shown.details.family}.context_length`] > 0);
    for (const text of ["license", "modelfile", "parameters", "template"]) assert.equal(typeof shown[text], "string");
    assert.match((await client.version()).version, /^\d+\.\d+\.\d+/);
});

test("chat, whole and in a stream", async () => {
    const answer = await client.chat({ model, messages, options, keep_alive: "10m" });
    assert.equal(answer.message.role, "assistant");
    assert.deepEqual([answer.done, answer.done_reason, answer.eval_count], [true, "length", 12]);
    assert(!isNaN(new Date(answer.created_at)) && answer.total_duration > 0);
    const parts = [];
    for await (const part of await client.chat({ model, messages, options, stream: true })) parts.push(part);
    assert.equal(parts.map(p => p.message.content).join(""), answer.message.content);
    assert(parts.length >= 2 && parts.every((p, i) => p.done === (i === parts.length - 1)));
    assert.equal(parts.at(-1).eval_count, 12);
});

test("tools, whole, in a stream, and their results", async () => {
    const asked = { model, messages, tools, tool_choice, options: { num_predict: 90 } };
    const { message } = await client.chat(asked), [call] = message.tool_calls;
    assert.equal(call.function.name, "add");
    assert(Number.isInteger(call.function.arguments.a));
    const calls = [];
    for await (const part of await client.chat({ ...asked, stream: true })) calls.push(...part.message.tool_calls ?? []);
    assert.deepEqual(calls.map(c => c.function), message.tool_calls.map(c => c.function));
    const next = await client.chat({ model, tools, options, messages: [...messages, message, { role: "tool", tool_name: "add", content: "7" }] });
    assert.equal(next.eval_count, 12);
});

test("JSON, thinking and the other kinds of requests", async () => {
    const format = { type: "object", properties: { name: { type: "string", maxLength: 8 }, age: { type: "integer" } }, required: ["name", "age"] };
    const { name, age } = JSON.parse((await client.chat({ model, messages, format })).message.content);
    assert(name.length <= 8 && Number.isInteger(age));
    const object = await client.generate({ model, prompt: "x", format: "json", options: { num_predict: 400 } });
    if (object.done_reason === "stop") JSON.parse(object.response);
    for (const think of [true, false, "low"]) assert.equal((await client.chat({ model, messages, think, options })).eval_count, 12);
    assert.equal((await client.generate({ model, prompt: "", keep_alive: 0 })).done_reason, "load");
    const raw = await client.generate({ model, prompt: "Once upon a time", raw: true, options });
    let text = "";
    for await (const part of await client.generate({ model, prompt: "Once upon a time", raw: true, stream: true, options })) text += part.response;
    assert.equal(text, raw.response);
    assert.notEqual((await client.generate({ model, prompt: "Once upon a time", options })).response, raw.response);
});

test("cancellation frees the slot", async () => {
    const endless = { model, stream: true, options: { num_predict: -1, temperature: 1 } };
    const stream = await client.chat({ ...endless, messages }), other = await client.generate({ ...endless, prompt: "Once" });
    const read = async parts => { for await (const part of parts) if (part) parts.abort(); };
    await assert.rejects(read(stream), { name: "AbortError" });
    client.abort();
    await assert.rejects(read(other), { name: "AbortError" });
    await server.idle();
});

test("what is not done is refused with a reason", async () => {
    const is = (status_code, says) => e => e.name === "ResponseError" && e.status_code === status_code && says.test(e.message);
    const images = ["AAAA"], prompt = "x";
    await assert.rejects(client.chat({ model, messages: [{ role: "user", content: "x", images }] }), is(400, /'images'.*text/));
    await assert.rejects(client.generate({ model, prompt, images }), is(400, /'images'.*text/));
    await assert.rejects(client.generate({ model, prompt, context: [1, 2] }), is(400, /'context'/));
    await assert.rejects(client.embed({ model, input: "x" }), is(400, /not vectors/));
    await assert.rejects(client.chat({ model, messages: [{ role: "user", content: "king ".repeat(5000) }] }), is(400, /context_length_exceeded/));
    await assert.rejects(client.pull({ model: "other" }), is(404, /\/api\/pull/));
});
