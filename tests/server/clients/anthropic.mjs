// anthropic.mjs -- tests a program with Anthropic's own client, as its users use it.
// PROGRAM=... node anthropic.mjs; the program has been built with tests/server/chat.jinja.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { serve } from "./program.mjs";

let server, client, model;
const messages = [{ role: "user", content: "Tell me of the king" }];
const tools = [{ name: "add", description: "Adds", input_schema: {
    type: "object", properties: { a: { type: "integer", minimum: 0, maximum: 9 } }, required: ["a"], additionalProperties: false } }];
const forced = { tools, tool_choice: { type: "tool", name: "add", disable_parallel_tool_use: true } };

before(async () => {
    server = await serve("--temp", "0");
    client = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
    model = (await (await fetch(server.url + "/v1/models")).json()).data[0].id;
});
after(() => server.stop());

test("messages, whole and in a stream", async () => {
    const asked = { model, system: "be brief", messages, max_tokens: 12 };
    const answer = await client.messages.create(asked);
    assert.equal(answer.type, "message");
    assert.equal(answer.role, "assistant");
    assert.equal(answer.stop_reason, "max_tokens");
    assert.equal(answer.usage.output_tokens, 12);
    const stream = client.messages.stream(asked);
    let text = "";
    stream.on("text", delta => text += delta);
    const streamed = await stream.finalMessage();
    assert.equal(text, answer.content[0].text);
    assert.deepEqual(streamed.content, answer.content);
    assert.equal(streamed.stop_reason, "max_tokens");
    assert.equal(streamed.usage.output_tokens, 12);
    const [letter] = text.slice(4);
    const stopped = await client.messages.create({ ...asked, stop_sequences: [letter] });
    assert.equal(stopped.stop_reason, "stop_sequence");
    assert.equal(stopped.stop_sequence, letter);
});

test("tokens are counted", async () => {
    const { input_tokens } = await client.messages.countTokens({ model, messages });
    const { usage } = await client.messages.create({ model, messages, max_tokens: 1 });
    assert.equal(input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
});

test("tools, whole, in a stream, and their results", async () => {
    const answer = await client.messages.create({ model, messages, max_tokens: 90, ...forced });
    const [call] = answer.content.filter(block => block.type === "tool_use");
    assert.equal(answer.stop_reason, "tool_use");
    assert.equal(call.name, "add");
    assert(Number.isInteger(call.input.a));
    const stream = client.messages.stream({ model, messages, max_tokens: 90, ...forced });
    let input;
    stream.on("inputJson", (piece, whole) => input = whole);
    const streamed = (await stream.finalMessage()).content.filter(block => block.type === "tool_use");
    assert.deepEqual(streamed.map(block => block.input), [call.input]);
    assert.deepEqual(input, call.input);
    const next = await client.messages.create({
        model, max_tokens: 5, tools,
        messages: [...messages, { role: "assistant", content: answer.content }, { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "7" }] }],
    });
    assert(next.usage.output_tokens > 0);
});

test("tools: a call that the model chooses", async () => {
    const asked = {
        model, max_tokens: 90, tools, tool_choice: { type: "auto", disable_parallel_tool_use: true },
        messages: [...messages, { role: "assistant", content: "<tool_call>" }],
    };
    const answer = await client.messages.create(asked);
    assert.equal(answer.stop_reason, "tool_use");
    const [call] = answer.content;
    assert(call.name === "add" && Number.isInteger(call.input.a));
    const streamed = await client.messages.stream(asked).finalMessage();
    assert.deepEqual(streamed.content.map(block => block.input), [call.input]);
});

test("the tool runner, which asks for a thread, sends whole conversations instead", async () => {
    const given = [], run = ({ a }) => { given.push(a); return String(a); };
    const runner = client.beta.messages.toolRunner({
        model, messages, max_tokens: 90, max_iterations: 2, tool_choice: forced.tool_choice,
        tools: [{ ...tools[0], run, parse: input => input }],
    });
    await runner;
    assert(given.length >= 1 && given.every(Number.isInteger));
    const { messages: kept } = runner.params;
    assert(kept.length >= 3 && kept[0].content === messages[0].content);
    await assert.rejects(client.post("/v1/messages", { body: { model, messages, max_tokens: 1, thread: { type: "continue", previous_message_id: "msg_1" } } }),
        error => error.status === 400 && error.error.error.details.error_code === "thread_unsupported_request");
});

test("cancellation frees the slot", async () => {
    const stream = client.messages.stream({ model, messages, max_tokens: 100000 });
    stream.on("text", () => stream.abort());
    await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
    await server.idle();
});

test("errors have the client's classes", async () => {
    const is = (kind, type) => error => error instanceof kind && error.error.type === "error" && error.error.error.type === type;
    await assert.rejects(client.messages.create({ model, messages: [], max_tokens: 1 }), is(Anthropic.BadRequestError, "invalid_request_error"));
    await assert.rejects(client.messages.create({ model, messages }), is(Anthropic.BadRequestError, "invalid_request_error"));
    await assert.rejects(client.post("/v1/messages/nothing"), is(Anthropic.NotFoundError, "not_found_error"));
    writeFileSync("anthropic.keys", "right\n");
    const guarded = await serve("--api-key", "anthropic.keys");
    try {
        const by = apiKey => new Anthropic({ baseURL: guarded.url, apiKey, maxRetries: 0 }).messages.create({ model, messages, max_tokens: 1 });
        await assert.rejects(by("wrong"), is(Anthropic.AuthenticationError, "authentication_error"));
        assert.equal((await by("right")).usage.output_tokens, 1);
    } finally {
        await guarded.stop();
    }
});
