// openai.mjs -- tests a program with OpenAI's own client, as its users use it.
// PROGRAM=... node openai.mjs; the program has been built with tests/server/chat.jinja.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { serve } from "./program.mjs";

let server, client, model;
const messages = [{ role: "user", content: "Tell me of the king" }];
const add = {
    type: "function",
    function: {
        name: "add",
        description: "Adds",
        parameters: {
            type: "object",
            properties: { a: { type: "integer", minimum: 0, maximum: 99 }, b: { type: "integer", minimum: 0, maximum: 99 } },
            required: ["a", "b"],
            additionalProperties: false,
        },
    },
};
const isSum = text => {
    const { a, b, ...more } = JSON.parse(text);
    return [a, b].every(v => Number.isInteger(v) && v >= 0 && v <= 99) && Object.keys(more).length === 0;
};

before(async () => {
    server = await serve("--temp", "0");
    client = new OpenAI({ baseURL: server.url + "/v1", apiKey: "none", maxRetries: 0 });
});
after(() => server.stop());

test("models", async () => {
    const list = [];
    for await (const m of client.models.list()) list.push(m);
    assert.equal(list.length, 1);
    assert.equal(list[0].object, "model");
    model = list[0].id;
});

test("chat", async () => {
    const answer = await client.chat.completions.create({ model, messages, max_completion_tokens: 12, logprobs: true, top_logprobs: 2 });
    const [choice] = answer.choices;
    assert.equal(answer.object, "chat.completion");
    assert(answer.system_fingerprint);
    assert.equal(choice.message.role, "assistant");
    assert(choice.message.content.length > 0);
    assert.equal(choice.finish_reason, "length");
    assert.equal(choice.logprobs.content.length, 12);
    assert.equal(choice.logprobs.content[0].top_logprobs.length, 2);
    assert.equal(answer.usage.completion_tokens, 12);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 12);
});

test("a stream, with usage in its last chunk", async () => {
    const whole = await client.chat.completions.create({ model, messages, max_tokens: 12 });
    const stream = await client.chat.completions.create({ model, messages, max_tokens: 12, stream: true, stream_options: { include_usage: true } });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    const last = chunks.pop();
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.completion_tokens, 12);
    assert(chunks.every(c => c.choices.length === 1 && !c.usage && c.id === last.id));
    assert.equal(chunks.map(c => c.choices[0].delta.content ?? "").join(""), whole.choices[0].message.content);
    assert.equal(chunks.filter(c => c.choices[0].finish_reason).length, 1);
    assert(chunks.length >= 3);
});

test("a stream by the helper", async () => {
    const stream = client.chat.completions.stream({ model, messages, max_tokens: 8 });
    let text = "";
    stream.on("content", delta => text += delta);
    const answer = await stream.finalChatCompletion();
    assert.equal(answer.choices[0].message.content, text);
});

test("tools: a call that must be, whole and in a stream", async () => {
    const asked = { model, messages, tools: [add], tool_choice: { type: "function", function: { name: "add" } }, parallel_tool_calls: false };
    const answer = await client.chat.completions.create(asked);
    const [call] = answer.choices[0].message.tool_calls;
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
    assert.equal(call.function.name, "add");
    assert(isSum(call.function.arguments));
    const stream = client.chat.completions.stream(asked);
    let pieces = "";
    stream.on("tool_calls.function.arguments.delta", event => pieces += event.arguments_delta);
    const streamed = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
    assert.equal(streamed.function.arguments, call.function.arguments);
    assert.equal(pieces, call.function.arguments);
    assert(streamed.id.startsWith("call_"));
});

// The model begins the call by itself: here the beginning of its answer does.
test("tools: a call that the model chooses", async () => {
    const asked = { model, messages: [...messages, { role: "assistant", content: "<tool_call>" }], tools: [add], parallel_tool_calls: false };
    const answer = await client.chat.completions.create(asked);
    const [call] = answer.choices[0].message.tool_calls;
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
    assert(call.function.name === "add" && isSum(call.function.arguments));
    const stream = client.chat.completions.stream(asked);
    const pieces = [];
    stream.on("tool_calls.function.arguments.delta", event => pieces.push(event.arguments_delta));
    assert.equal((await stream.finalChatCompletion()).choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
    assert.equal(pieces.join(""), call.function.arguments);
});

test("tools: the helper runs them and sends results", async () => {
    const given = [];
    const runner = client.chat.completions.runTools({
        model, messages, tool_choice: { type: "function", function: { name: "add" } }, parallel_tool_calls: false,
        tools: [{ type: "function", function: { ...add.function, parse: JSON.parse, function: sum => { given.push(sum); return String(sum.a + sum.b); } } }],
    });
    await runner.done();
    assert.equal(given.length, 1);
    assert(Number.isInteger(given[0].a + given[0].b));
    const result = runner.messages.find(m => m.role === "tool");
    assert.equal(result.content, String(given[0].a + given[0].b));
});

test("tools: results are read", async () => {
    const call = { id: "call_1", type: "function", function: { name: "add", arguments: '{"a":1,"b":2}' } };
    const answer = await client.chat.completions.create({
        model, max_tokens: 5, tools: [add],
        messages: [...messages, { role: "assistant", content: null, tool_calls: [call] }, { role: "tool", tool_call_id: "call_1", content: "3" }],
    });
    assert.equal(answer.usage.completion_tokens, 5);
});

const Person = z.object({ name: z.string().max(8), kind: z.enum(["king", "fox"]), ages: z.array(z.number().int().min(0).max(120)).max(3) });
test("a JSON schema, parsed by the helper", async () => {
    const asked = { model, messages, temperature: 1, seed: 3, response_format: zodResponseFormat(Person, "person") };
    const { parsed, content } = (await client.chat.completions.parse(asked)).choices[0].message;
    assert.deepEqual(Person.parse(JSON.parse(content)), parsed);
    const stream = client.chat.completions.stream(asked);
    assert.deepEqual((await stream.finalChatCompletion()).choices[0].message.parsed, parsed);
    const object = await client.chat.completions.create({ model, messages, max_tokens: 200, response_format: { type: "json_object" } });
    if (object.choices[0].finish_reason === "stop") assert.equal(typeof JSON.parse(object.choices[0].message.content), "object");
});

// Long and short prompts with a common beginning, one of only a few tokens: each read after whatever the cache holds, and read as a whole.
test("the same request twice", async () => {
    const story = "Once upon a time there was a king who had three sons, and the youngest of them went into the wood to look for a fox. ";
    const prompts = [story.repeat(2) + "The fox", story.repeat(2) + "The fox said to him that he", story + "So", "Once upon", "Once upon a time the"];
    const ask = (prompt, cache_prompt) => client.completions.create({ model, prompt, max_tokens: 24, temperature: 1, seed: 5, cache_prompt });
    const texts = [];
    for (const prompt of prompts) texts.push((await ask(prompt, false)).choices[0].text);
    for (let round = 0; round < 2; round++)
        for (const i of [0, 1, 0, 2, 3, 4, 1, 4, 2, 0]) assert.equal((await ask(prompts[i], true)).choices[0].text, texts[i], prompts[i]);
    // A conversation, and the same again.
    const talk = async () => {
        const said = [{ role: "user", content: story }];
        for (let turn = 0; turn < 3; turn++) {
            const { message } = (await client.chat.completions.create({ model, messages: said, max_tokens: 12, temperature: 1, seed: 7 })).choices[0];
            said.push(message, { role: "user", content: "And then?" });
        }
        return said.map(m => m.content);
    };
    assert.deepEqual(await talk(), await talk());
});

// Sixteen texts as long as the context: they would take seconds if nobody stopped them.
const long = { n: 16, max_tokens: 100000, ignore_eos: true };
async function isCut(leave) {
    const all = 16 * ((await (await fetch(server.url + "/props")).json()).default_generation_settings.n_ctx - 100);
    const before = await server.drawn();
    await leave(async () => { while (await server.drawn() === before); });
    await server.idle();
    const drawn = await server.drawn() - before;
    assert(drawn > 0 && drawn < all, `${drawn} tokens, of ${all} of a request`);
}

test("cancellation frees the slot", async () => {
    const abort = new AbortController(), other = new AbortController();
    await isCut(async () => {
        let chunks = 0;
        for await (const chunk of await client.chat.completions.create({ model, messages, ...long, stream: true }, { signal: abort.signal }))
            if (chunk && ++chunks === 3) abort.abort();        // the client ends the loop
    });
    await isCut(async begun => {
        begun().then(() => other.abort());
        await assert.rejects(client.chat.completions.create({ model, messages, ...long }, { signal: other.signal }), OpenAI.APIUserAbortError);
    });
});

test("so do connections that are reset or closed", async () => {
    const body = JSON.stringify({ prompt: "Once", ...long }), head = `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n`;
    for (const how of ["resetAndDestroy", "destroy", "end"])
        await isCut(async begun => {
            const socket = connect(new URL(server.url).port, "127.0.0.1", () => socket.write(head + body)).on("error", () => {});
            await begun();
            socket[how]();
        });
});

test("errors have the client's classes", async () => {
    const is = (kind, status, say) => error => error instanceof kind && error.status === status && say.test(error.message);
    await assert.rejects(client.chat.completions.create({ model, messages: [] }), is(OpenAI.BadRequestError, 400, /'messages'/));
    await assert.rejects(client.chat.completions.create({ model, messages, temperature: "hot" }), is(OpenAI.BadRequestError, 400, /'temperature'/));
    await assert.rejects(client.chat.completions.create({ model, messages, tools: [add], tool_choice: { type: "function", function: { name: "no" } } }),
        is(OpenAI.BadRequestError, 400, /'no'/));
    await assert.rejects(client.chat.completions.create({ model, messages: [{ role: "user", content: "king ".repeat(5000) }] }),
        is(OpenAI.BadRequestError, 400, /context_length_exceeded/));
    await assert.rejects(client.embeddings.create({ model, input: "king" }), is(OpenAI.BadRequestError, 400, /not vectors/));
    await assert.rejects(client.get("/nothing"), is(OpenAI.NotFoundError, 404, /\/v1\/nothing/));
    await assert.rejects(client.images.generate({ prompt: "king" }), is(OpenAI.NotFoundError, 404, /images/));
    await assert.rejects(client.responses.create({ model, input: "x", previous_response_id: "resp_1" }), is(OpenAI.BadRequestError, 400, /not stored/));
    const nobody = new OpenAI({ baseURL: "http://127.0.0.1:1/v1", apiKey: "none", maxRetries: 0 });
    await assert.rejects(nobody.models.list(), OpenAI.APIConnectionError);
});

test("keys", async () => {
    writeFileSync("keys", "# of the test\nright\n");
    const guarded = await serve("--api-key", "keys");
    try {
        const by = apiKey => new OpenAI({ baseURL: guarded.url + "/v1", apiKey, maxRetries: 0 }).completions.create({ model, prompt: "Once", max_tokens: 1 });
        await assert.rejects(by("wrong"), OpenAI.AuthenticationError);
        assert.equal((await by("right")).usage.completion_tokens, 1);
    } finally {
        await guarded.stop();
    }
});

test("completions", async () => {
    const asked = { model, prompt: "Once upon a time", max_tokens: 10, logprobs: 2 };
    const answer = await client.completions.create(asked);
    assert.equal(answer.object, "text_completion");
    assert.equal(answer.choices[0].logprobs.tokens.length, 10);
    let text = "";
    for await (const chunk of await client.completions.create({ ...asked, stream: true })) text += chunk.choices[0].text;
    assert.equal(text, answer.choices[0].text);
    const many = await client.completions.create({ ...asked, n: 2, best_of: 2, temperature: 1, stop: ["."] });
    assert.equal(many.choices.length, 2);
});

test("responses", async () => {
    const asked = { model, input: "Tell me of the king", instructions: "be brief", max_output_tokens: 9 };
    const answer = await client.responses.create(asked);
    assert.equal(answer.object, "response");
    assert.equal(answer.status, "incomplete");
    assert.equal(answer.incomplete_details.reason, "max_output_tokens");
    assert.equal(answer.usage.output_tokens, 9);
    assert.equal((await client.responses.inputTokens.count(asked)).input_tokens, answer.usage.input_tokens);
    assert(answer.output_text.length > 0);
    const stream = client.responses.stream(asked);
    let text = "";
    stream.on("response.output_text.delta", event => text += event.delta);
    const streamed = await stream.finalResponse();
    assert.equal(text, answer.output_text);
    assert.equal(streamed.output_text, answer.output_text);
    const parsed = await client.responses.parse({ model, input: "x", text: { format: zodTextFormat(Person, "person") } });
    Person.parse(parsed.output_parsed);
    const { function: { name, description, parameters } } = add;
    const calls = {
        model, input: "x", tools: [{ type: "function", name, description, parameters, strict: true }], tool_choice: { type: "function", name }, parallel_tool_calls: false,
    };
    const called = await client.responses.create(calls);
    const [call] = called.output.filter(item => item.type === "function_call");
    assert(call.name === "add" && isSum(call.arguments));
    const streamedCall = client.responses.stream(calls);
    let pieces = "";
    streamedCall.on("response.function_call_arguments.delta", event => pieces += event.delta);
    assert.equal((await streamedCall.finalResponse()).output.find(item => item.type === "function_call").arguments, call.arguments);
    assert.equal(pieces, call.arguments);
    const next = await client.responses.create({
        model, max_output_tokens: 4,
        input: [{ role: "user", content: "x" }, call, { type: "function_call_output", call_id: call.call_id, output: "7" }],
    });
    assert.equal(next.usage.output_tokens, 4);
});

test("a conversation reads only what is new", async () => {
    const first = await client.chat.completions.create({ model, messages, max_tokens: 20 });
    const next = await client.chat.completions.create({
        model, max_tokens: 3, messages: [...messages, first.choices[0].message, { role: "user", content: "Go on" }],
    });
    assert(next.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 1);
});
