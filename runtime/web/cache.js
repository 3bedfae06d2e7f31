// cache.js -- keeps the pieces of weights on the visitor's device: model.js imports it in a browser if load has `cache: true`.
// In a worker the pieces are files of the origin (OPFS), which are written in place and can therefore be resumed; elsewhere they are
// entries of the Cache API, which are always complete.
// All work is done under one lock for each address, so a second tab waits.  model.js compares what is read with its hash.

const STEP = 1 << 22;
const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, '0')).join('');

const notes = {
  insecure: 'The page came neither by https nor from this machine, so the browser keeps nothing: the model is downloaded at every visit.',
  refused: 'The browser keeps nothing for this page, so the model is downloaded at every visit.',
  full: 'There is no room to keep all of the model here, so the rest is downloaded again at the next visit.',
};

function giveUp(store, error) {
  store.full = true;
  store.note = error.name === 'QuotaExceededError' ? notes.full : notes.refused;
}

/** A piece as a file: NAME once its hash is known to be right, NAME.part before that. */
class FilePiece {
  constructor(store, file) {
    this.store = store;
    this.file = file;
    this.access = null;
  }

  /** Opens NAME; false if it does not exist. */
  async open(name, create = false) {
    try {
      this.handle = await this.store.folder.getFileHandle(name, { create });
    } catch (error) {
      if (error.name === 'NotFoundError') return false;
      throw error;
    }
    for (let tries = 0; !this.access; tries++)           // a tab that has just been closed may hold the file a little longer than the lock
      try {
        this.access = await this.handle.createSyncAccessHandle();
      } catch (error) {
        if (error.name !== 'NoModificationAllowedError' || tries === 30) throw error;
        await new Promise((later) => setTimeout(later, 100));
      }
    return true;
  }

  /** Reads what is stored here into target from `at` on; returns the number of bytes.  A complete piece is closed again; an incomplete
   * one stays open so that writing can continue. */
  async read(target, at, progress) {
    let done = 0;
    try {
      for (const [name, whole] of [[this.file.file, true], [`${this.file.file}.part`, false]]) {
        if (!await this.open(name)) continue;
        const size = this.access.getSize();
        if (whole ? size !== this.file.bytes : size > this.file.bytes) {
          await this.drop();
          continue;
        }
        while (done < size) {
          const n = this.access.read(target.subarray(at + done, at + Math.min(size, done + STEP)), { at: done });
          if (n === 0) throw new Error('the file is shorter than its size');
          done += n;
          progress(n);
        }
        this.whole = whole;
        if (whole) this.close();
        return size;
      }
    } catch {
      progress(-done);
      await this.drop();
    }
    return 0;
  }

  /** Writes bytes that arrived, from `at` of the piece on. */
  async write(bytes, at) {
    if (this.store.full) return this.close();
    try {
      if (!this.access) await this.open(`${this.file.file}.part`, true);
      if (at < this.access.getSize()) this.access.truncate(at);
      if (this.access.write(bytes, { at }) !== bytes.length) throw new DOMException('written in part', 'QuotaExceededError');
    } catch (error) {
      giveUp(this.store, error);
      await this.drop();
    }
  }

  /** The hash was right: from now on the piece is complete. */
  async done() {
    if (this.whole || !this.access) return;
    this.access.flush();
    this.close();
    await this.handle.move?.(this.file.file).catch(() => {});           // a .part file of full size is as good
  }

  async drop() {
    this.close();
    for (const name of [this.file.file, `${this.file.file}.part`]) await this.store.folder.removeEntry(name).catch(() => {});
  }

  close() {
    this.access?.close();
    this.access = null;
  }
}

class FileStore {
  kind = 'files';
  note = '';
  full = false;

  static async open(key, build) {
    if (!globalThis.FileSystemFileHandle?.prototype.createSyncAccessHandle) return null;
    const store = new FileStore(), root = await navigator.storage.getDirectory();
    const ours = await (await root.getDirectoryHandle('forgec', { create: true })).getDirectoryHandle(key, { create: true });
    for await (const name of ours.keys()) if (name !== build) await ours.removeEntry(name, { recursive: true }).catch(() => {});
    store.folder = await ours.getDirectoryHandle(build, { create: true });
    return store;
  }

  piece(file) { return new FilePiece(this, file); }
}

/** A piece as an entry of the Cache API, which is written when the piece is complete. */
class EntryPiece {
  constructor(store, file) {
    this.store = store;
    this.file = file;
    this.url = store.url(file.file);
  }

  async read(target, at, progress) {
    let done = 0;
    try {
      const entry = await this.store.cache.match(this.url);
      if (!entry) return 0;
      const reader = entry.body.getReader();
      for (let part; !(part = await reader.read()).done; done += part.value.length) {
        if (done + part.value.length > this.file.bytes) throw new Error('the stored piece is too long');
        target.set(part.value, at + done);
        progress(part.value.length);
      }
      if (done < this.file.bytes) throw new Error('the stored piece is too short');
      this.whole = true;
      return done;
    } catch {
      progress(-done);
      await this.drop();
      return 0;
    }
  }

  write() {}

  async done(bytes) {
    if (this.whole || this.store.full) return;
    try {
      await this.store.cache.put(this.url, new Response(bytes.slice()));
    } catch (error) {
      giveUp(this.store, error);
    }
  }

  async drop() { await this.store.cache.delete(this.url).catch(() => {}); }
  close() {}
}

class EntryStore {
  kind = 'entries';
  note = '';
  full = false;

  static async open(key, build) {
    const store = new EntryStore();
    store.url = (name) => `${location.origin}/${build}/${name}`;
    store.cache = await caches.open(`forgec weights ${key}`);
    for (const request of await store.cache.keys())
      if (!request.url.startsWith(store.url(''))) await store.cache.delete(request);
    return store;
  }

  piece(file) { return new EntryPiece(this, file); }
}

/** Returns the store of pieces for the folder at `base`, with `kind` (`files`, `entries`, `none`) and a `note` for people; close() lets
 * the next tab continue.  onWait is called when another tab holds the lock. */
export async function openCache(base, build, { signal, onWait } = {}) {
  const none = { kind: 'none', note: globalThis.isSecureContext ? notes.refused : notes.insecure, piece: () => null, close() {} };
  if (!navigator.locks) return none;
  const key = hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(base))).slice(0, 16);
  const ask = (options) => new Promise((resolve, reject) => {
    navigator.locks.request(`forgec ${key}`, options, (lock) => lock ? new Promise((release) => resolve(release)) : resolve(null))
      .catch(reject);
  });
  let release;
  try {
    release = await ask({ ifAvailable: true });
  } catch {
    return none;
  }
  if (!release) {
    onWait?.();
    release = await ask({ signal });
  }
  for (const Store of [FileStore, EntryStore]) {
    const store = await Store.open(key, build).catch(() => null);
    if (store) return Object.assign(store, { close: release });
  }
  release();
  return none;
}
