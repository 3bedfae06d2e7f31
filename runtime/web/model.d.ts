// model.d.ts -- the types of model.js.

export type ErrorCode =
  | 'not_found' | 'http' | 'network' | 'offline' | 'wrong_size' | 'wrong_hash' | 'no_simd' | 'out_of_memory'   // loading
  | 'no_webgpu' | 'gpu_too_small' | 'device_lost' | 'no_weights' | 'no_timestamps' | 'no_fallback'             // of WebGPU
  | 'aborted'
  | 'context_full' | 'cannot_rewind' | 'not_finite' | 'busy' | 'closed' | 'bad_argument' | 'wrong_kind'        // steps
  | 'no_tokenizer' | 'no_template' | 'refused' | 'stuck' | 'no_room' | 'failed';

/** Every failure rejects with one: `code` for programs, `message` one sentence for people. */
export declare class ModelError extends Error {
  readonly code: ErrorCode;
  readonly cause?: unknown;
}

export interface Progress {
  /** 'compile': of a model for WebGPU, kernels are compiled beside the download, and behind it where they take longer. */
  phase: 'download' | 'compile';
  /** In phase 'compile': so many of so many kernels are done. */
  compiled?: number;
  kernels?: number;
  loaded: number;
  total: number;
  /** How many of `loaded` were kept on this device. */
  cached: number;
  file: string;
  /** Another tab is loading the same model, this one goes on when it is done. */
  waiting?: boolean;
}

export interface LoadOptions {
  /** Address of the folder; where model.js is unless given. */
  base?: string | URL;
  /** In the place of the global fetch. */
  fetch?: (url: string, init: { signal?: AbortSignal; cache?: string; headers?: Record<string, string> }) => Promise<Response>;
  /** WebGPU, where `navigator.gpu` is not it: in Node that of npm's package `webgpu`. */
  gpu?: object;
  /** 'wasm': where there is no WebGPU, or too small a GPU, and nowhere else, the processor computes; about().fellBack says why.  The folder
   * has to be built with -t webgpu,wasm32. */
  fallback?: 'wasm';
  /** WebGPU: kernels are compiled when steps need them, not all at once; kernels can be timed; noise takes the place of weights. */
  lazy?: boolean;
  profile?: boolean;
  randomWeights?: boolean;
  /** WebGPU: kernels whose names begin so are left out, to see what they cost; the text is none then. */
  without?: string;
  /** WebGPU: false does without subgroups, though the GPU has some. */
  subgroups?: boolean;
  onProgress?: (progress: Progress) => void;
  /** Keep weights on the visitor's device, and go on there with what broke off (default: false; of no effect in Node). */
  cache?: boolean;
  signal?: AbortSignal;
}

export interface Sampling {
  /** 0: always the likeliest token. */
  temperature?: number;
  /** 0: all. */
  topK?: number;
  /** 0 or 1: all. */
  topP?: number;
  minP?: number;
  /** 0 or 1: none. */
  repeatPenalty?: number;
  /** Tokens the penalty looks at, at most 64. */
  repeatLastN?: number;
  /** The same seed gives the same text; 0 goes on with the random numbers. */
  seed?: number;
}

export interface GenerateOptions extends Sampling {
  maxTokens?: number;
  /** Texts that end it, and are left out. */
  stop?: string | string[];
  signal?: AbortSignal;
  /** Told how much of the prompt has been read. */
  onProgress?: (done: number, total: number) => void;
  /** Go on where the model would end. */
  ignoreEnd?: boolean;
  /** GBNF, which the text satisfies. */
  grammar?: string;
  /** JSON schema of the text, which is JSON then. */
  schema?: object;
  /** Texts of control tokens in the prompt become those (default: true). */
  special?: boolean;
}

export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool' | string;
  content?: string | null;
  [key: string]: unknown;
}

/** As OpenAI's chats have it: tools, tool_choice, chat_template_kwargs ...; members that mean nothing are passed over. */
export interface ChatRequest { messages: Message[]; [key: string]: unknown }

export type ChatEvent =
  | { type: 'content' | 'reasoning'; text: string }
  | { type: 'call'; call: number; text: string; id?: string }
  | { type: 'arguments'; call: number; text: string }
  | { type: 'call_end'; call: number };

/** Why a text ended: by the model, a stop, maxTokens, or a full context; and how many tokens were drawn. */
export interface Result { reason: 'end' | 'stop' | 'length' | 'context'; tokens: number }

export interface Info {
  readonly name: string;
  readonly target: string;
  readonly build: string;
  readonly forgec: string;
  readonly nVocab: number;
  readonly nCtx: number;
  readonly nEmbd: number;
  /** Tokens of a prompt computed at once. */
  readonly chunk: number;
  /** The model gives vectors of texts and writes none. */
  readonly embeddings: boolean;
  readonly hasTokenizer: boolean;
  readonly hasChat: boolean;
  readonly hasGrammar: boolean;
  readonly weightsBytes: number;
  readonly memoryBytes: number;
  /** What is used where options say nothing. */
  readonly sampling: Readonly<Required<Omit<Sampling, 'seed'>>>;
}

/** What is known of the model before it is loaded. */
export interface Card {
  readonly name: string;
  readonly target: string;
  readonly build: string;
  readonly engine: 'wasm' | 'webgpu';
  /** Of all files. */
  readonly bytes: number;
  /** Of all that `fallback: 'wasm'` may load in their place; 0: the folder has nothing to fall back to. */
  readonly fallbackBytes: number;
}

/** For people: what runs the model, and what is kept. */
export interface About extends Omit<Card, 'fallbackBytes'> {
  /** Why the processor computes where WebGPU was wanted: the error without a fall-back; null: what was wanted computes. */
  readonly fellBack: Readonly<{ code: ErrorCode; message: string }> | null;
  /** Words for what computes: the processor, or a GPU and how it is used. */
  readonly device: string;
  readonly memoryBytes: number;
  /** Where weights are kept on this device: files of the origin, entries of its Cache API, nowhere.  note: a sentence where that is not all
   * of them, or none. */
  readonly storage: Readonly<{ kind: 'files' | 'entries' | 'none'; note: string }>;
}

export declare class Model {
  private constructor();
  readonly info: Info;
  about(): About;

  /** Tokens of a text.  bos (default: true): with what begins a text; special: texts of control tokens become those. */
  encode(text: string, options?: { bos?: boolean; special?: boolean }): number[];
  /** The text of a token, or of several together. */
  decode(tokens: number | Iterable<number>): string;
  /** The bytes of one token, perhaps a part of a character. */
  pieces(token: number): Uint8Array;
  readonly bos: number;
  readonly eos: number;
  isEnd(token: number): boolean;

  /** Tokens in the context. */
  readonly nPast: number;
  readonly tokens: number[];
  /** The logits after the last token. */
  logits(): Promise<Float32Array>;
  /** Appends tokens. */
  prefill(tokens: Iterable<number>, options?: { signal?: AbortSignal; onProgress?: (done: number, total: number) => void }): Promise<void>;
  /** Appends one. */
  step(token: number, options?: { signal?: AbortSignal }): Promise<void>;
  /** Appends at most info.chunk tokens and gives the logits after each: [n][nVocab]; of a model of embeddings its rows: [n][nEmbd]. */
  rows(tokens: Iterable<number>): Promise<Float32Array>;
  /** Microseconds of each launch of a step of so many tokens, the least of some repeats; WebGPU, loaded with `profile`. */
  profile(nTokens: number, repeats?: number): Promise<{ name: string; us: number }[]>;
  /** WebGPU: what `work` does with the kernels by themselves, for tests of them (test_kernels.js); the context is empty behind it. */
  withKernels<T>(work: (kernels: object) => Promise<T>): Promise<T>;
  /** The next token, drawn from the logits. */
  sample(options?: Sampling): Promise<number>;
  /** Back to the first n tokens (default: 0). */
  reset(n?: number): Promise<void>;
  /** The vector of a text, of a model of embeddings; of length 1 unless asItIs. */
  embed(input: string | Iterable<number>, options?: { asItIs?: boolean }): Promise<Float32Array>;

  /** Text behind a prompt, or the content of an answer to messages, piece by piece.  What the context has of the prompt stays. */
  generate(input: string | number[] | Message[] | ChatRequest, options?: GenerateOptions): AsyncGenerator<string, Result, void>;
  /** The answer to messages as it comes: content, reasoning and calls of tools. */
  chat(input: Message[] | ChatRequest, options?: GenerateOptions): AsyncGenerator<ChatEvent, Result, void>;
  /** Tokens behind tokens. */
  draw(tokens: Iterable<number>, options?: GenerateOptions): AsyncGenerator<number, Result, void>;
  close(): void;
}

export declare function about(): Card;
export declare function load(options?: LoadOptions): Promise<Model>;
export default load;
