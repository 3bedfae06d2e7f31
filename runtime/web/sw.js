// sw.js -- the page without a network: keeps the files of one build, all or none of them, and compares each with its SHA-256.  With a
// network the server's files are used, so a new build is seen at once.  Weights are not handled here: cache.js keeps them.

const facts = null; // @facts: { build, files: [{ file, bytes, sha256 }] }, written by forgec

const ours = `forgec page ${registration.scope} `, name = ours + facts.build;
const at = (file) => registration.scope + (file === 'index.html' ? '' : file);     // some servers redirect requests of index.html

async function keep() {
  const responses = await Promise.all(facts.files.map(async ({ file, sha256 }) => {
    const response = await fetch(at(file), { cache: 'no-cache' });
    if (!response.ok) throw new Error(`${file}: status ${response.status}`);
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', await response.clone().arrayBuffer()));
    if (Array.from(hash, (b) => b.toString(16).padStart(2, '0')).join('') !== sha256) throw new Error(`${file} is from another build`);
    return [file, response];
  }));
  const cache = await caches.open(name);
  await Promise.all(responses.map(([file, response]) => cache.put(at(file), response)));
  await skipWaiting();
}

async function forgetOthers() {
  for (const other of await caches.keys()) if (other.startsWith(ours) && other !== name) await caches.delete(other);
  await clients.claim();
}

async function answer(file) {
  try {
    return await fetch(at(file), { cache: 'no-cache' });
  } catch (error) {
    const kept = await (await caches.open(name)).match(at(file));
    if (kept) return kept;
    throw error;
  }
}

oninstall = (event) => event.waitUntil(keep());
onactivate = (event) => event.waitUntil(forgetOthers());
onfetch = (event) => {
  const { origin, pathname } = new URL(event.request.url), path = origin + pathname;
  const file = path.startsWith(registration.scope) ? path.slice(registration.scope.length) || 'index.html' : '';
  if (event.request.method === 'GET' && facts.files.some((one) => one.file === file)) event.respondWith(answer(file));
};
