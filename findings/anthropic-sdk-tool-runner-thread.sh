#!/bin/sh
# anthropic-sdk-tool-runner-thread.sh -- the tool runner of @anthropic-ai/sdk 1.14.0 (npm) continues a thread that no answer has confirmed.
#
# Its first request has "thread":{"type":"create"}.  A server that passes over members which it does not know answers as ever, without a word of a thread.
# The second request then has "thread":{"type":"continue","previous_message_id":...} and of the conversation the tool's result alone: neither the question nor
# the call.  Any server of this API that knows no threads thus answers without the conversation, and nothing fails.  A guess would be that the client sends
# whole conversations until an answer names a thread.
# Seen with node 20.20.2 on 2026-11-28.  Needs node, npm and the network; exit code 1 when the behaviour is another one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --ignore-scripts --no-audit --no-fund @anthropic-ai/sdk@1.14.0 >/dev/null
cat >try.mjs <<'JS'
import http from 'node:http';
import Anthropic from '@anthropic-ai/sdk';

const bodies = [];
const call = { content: [{ type: 'tool_use', id: 't1', name: 'add', input: { a: 1 } }], stop_reason: 'tool_use' };
const end = { content: [{ type: 'text', text: 'done' }], stop_reason: 'end_turn' };
const server = http.createServer((request, response) => {
  let text = '';
  request.on('data', (part) => { text += part; });
  request.on('end', () => {
    bodies.push(JSON.parse(text));
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ id: `m${bodies.length}`, type: 'message', role: 'assistant', model: 'm', stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 }, ...(bodies.length === 1 ? call : end) }));
  });
}).listen(0, '127.0.0.1');
await new Promise((done) => server.once('listening', done));
const client = new Anthropic({ baseURL: `http://127.0.0.1:${server.address().port}`, apiKey: 'none', maxRetries: 0 });
await client.beta.messages.toolRunner({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Add.' }],
  tools: [{ name: 'add', description: 'adds', input_schema: { type: 'object' }, run: () => 'ok', parse: (v) => v }] });
server.close();
for (const b of bodies) console.log(`thread ${JSON.stringify(b.thread)}, messages ${JSON.stringify(b.messages)}`);
const [first, second] = bodies;
const same = bodies.length === 2 && first.thread?.type === 'create' && second.thread?.type === 'continue' && second.messages.length === 1 &&
  second.messages[0].content[0].type === 'tool_result';
process.exit(same ? 0 : 1);
JS
node try.mjs
