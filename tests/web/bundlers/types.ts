// types.ts -- calls that the types of a folder must accept under tsc --strict, and, where it says so, must refuse.
import load, { about, load as named, Model, ModelError, type ChatEvent, type Info, type Progress, type Result } from 'model-processor';

const controller = new AbortController();
const options = { base: new URL('https://example.com/story/'), fetch, signal: controller.signal, cache: true, fallback: 'wasm' as const };
const model: Model = await load({ ...options, onProgress: ({ phase, loaded, total }: Progress) => console.log(phase, loaded / total) });
const other = await named({ base: '/story/', gpu: (navigator as { gpu?: object }).gpu, fetch: (url, init) => fetch(url, init) });

const card = about(), info: Info = model.info;
console.log(card.bytes, card.fallbackBytes, info.nCtx, info.sampling.temperature, model.about().fellBack?.message, model.about().storage.kind);

for await (const text of model.generate('Once upon a time', { temperature: 0.7, maxTokens: 200, stop: ['\n'], schema: { type: 'object' } }))
  console.log(text.toUpperCase());
for await (const text of other.generate([{ role: 'user', content: 'Hello' }], { stop: 'x' })) console.log(text.length);
const answer = model.chat({ messages: [{ role: 'user', content: 'Hello' }], tools: [] });
let result: Result | undefined;
for (;;) {
  const next = await answer.next();
  if (next.done) { result = next.value; break; }
  const event: ChatEvent = next.value;
  if (event.type === 'call') console.log(event.text, event.id ?? event.call);
  else if (event.type !== 'call_end') console.log(event.text);
}
console.log(result.reason, result.tokens);

const tokens: number[] = model.encode('text', { bos: false });
await model.prefill(new Set(tokens), { onProgress: (done, all) => console.log(done, all) });
await model.step(tokens[0] ?? model.bos);
const logits: Float32Array = await model.logits(), vector: Float32Array = await model.embed('text');
console.log(model.decode(tokens), model.decode(1), model.pieces(1).length, logits.length + vector.length, await model.sample({ seed: 1 }));
await model.reset();
for await (const token of model.draw(Int32Array.of(1), { ignoreEnd: true })) console.log(token + 1);
try {
  model.close();
} catch (error) {
  if (error instanceof ModelError && error.code === 'closed') console.log(error.cause);
}

// @ts-expect-error
model.generate(null);
// @ts-expect-error
model.generate('x', { stop: 5 });
// @ts-expect-error
model.decode('abc');
// @ts-expect-error
load({ fallback: 'cpu' });
// @ts-expect-error
new Model();
