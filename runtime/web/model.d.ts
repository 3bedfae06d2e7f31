// model.d.ts -- the types of model.js.

export type ErrorCode =
  | 'not_found' | 'http' | 'network' | 'offline' | 'wrong_size' | 'wrong_hash' | 'no_simd' | 'out_of_memory'   // loading
  | 'no_webgpu' | 'gpu_too_small' | 'device_lost' | 'no_weights' | 'no_timestamps' | 'no_fallback'             // WebGPU
  | 'aborted'
  | 'context_full' | 'cannot_rewind' | 'not_finite' | 'busy' | 'closed' | 'bad_argument' | 'wrong_kind'        // steps
  | 'no_tokenizer' | 'no_template' | 'refused' | 'stuck' | 'no_room' | 'failed';

/** Every failure rejects with a ModelError: `code` for programs, `message` (one sentence) for people. */
export declare class ModelError extends Error {
  readonly code: ErrorCode;
  readonly cause?: unknown;
}

export interface Progress {
  /** 'compile' (WebGPU): kernels are compiled during the download and, if they take longer, after it. */
  phase: 'download' | 'compile';
  /** In phase 'compile': kernels done, and kernels in all. */
  compiled?: number;
  kernels?: number;
  loaded: number;
  total: number;
  /** Bytes of `loaded` that were kept on this device. */
  cached: number;
  file: string;
  /** Another tab is loading the same model; this tab continues when it is done. */
  waiting?: boolean;
}

export interface LoadOptions {
  /** Address of the folder (default: the folder of model.js, or where a bundler put its files). */
  base?: string | URL;
  /** Replaces the global fetch. */
  fetch?: (url: string, init: { signal?: AbortSignal; cache?: 'no-store' | 'no-cache'; headers?: Record<string, string> }) => Promise<Response>;
  /** WebGPU, if it is not `navigator.gpu`: in Node that of npm's package `webgpu`. */
  gpu?: object;
  /** 'wasm': the processor computes if WebGPU is missing or the GPU is too small, and only then; about().fellBack says why.  The folder
   * must be built with -t webgpu,wasm32. */
  fallback?: 'wasm';
  /** WebGPU: compile kernels when steps need them; make kernels timeable; use noise as weights. */
  lazy?: boolean;
  profile?: boolean;
  randomWeights?: boolean;
  /** WebGPU: leave out kernels whose names begin with this, to see their cost; the text is then meaningless. */
  without?: string;
  /** WebGPU: false uses no subgroups, even if the GPU has them. */
  subgroups?: boolean;
  onProgress?: (progress: Progress) => void;
  /** Keep weights on the visitor's device, and continue broken downloads (default: false; no effect in Node). */
  cache?: boolean;
  signal?: AbortSignal;
}

export interface Sampling {
  /** 0: always the most probable token. */
  temperature?: number;
  /** 0: all. */
  topK?: number;
  /** 0 or 1: all. */
  topP?: number;
  minP?: number;
  /** 0 or 1: off. */
  repeatPenalty?: number;
  /** Last tokens that the penalty applies to, at most 64. */
  repeatLastN?: number;
  /** The same seed gives the same text; 0 continues the random numbers. */
  seed?: number;
}

export interface GenerateOptions extends Sampling {
  maxTokens?: number;
  /** Texts that end the output; they are not included. */
  stop?: string | string[];
  signal?: AbortSignal;
  /** Reports how much of the prompt has been read. */
  onProgress?: (done: number, total: number) => void;
  /** Continue after the model would end. */
  ignoreEnd?: boolean;
  /** A GBNF grammar that the text satisfies. */
  grammar?: string;
  /** A JSON schema; the text is JSON that satisfies it. */
  schema?: object;
  /** Turn texts of control tokens in the prompt into these tokens (default: true). */
  special?: boolean;
}

export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool' | string;
  content?: string | null;
  [key: string]: unknown;
}

/** In the form of OpenAI's chats: tools, tool_choice, chat_template_kwargs ...; other members are ignored. */
export interface ChatRequest { messages: Message[]; [key: string]: unknown }

export type ChatEvent =
  | { type: 'content' | 'reasoning'; text: string }
  | { type: 'call'; call: number; text: string; id?: string }
  | { type: 'arguments'; call: number; text: string }
  | { type: 'call_end'; call: number };

/** Why a text ended (the model, a stop text, maxTokens, or a full context), and the number of tokens drawn. */
export interface Result { reason: 'end' | 'stop' | 'length' | 'context'; tokens: number }

export interface Info {
  readonly name: string;
  readonly target: string;
  readonly build: string;
  readonly forgec: string;
  readonly nVocab: number;
  readonly nCtx: number;
  readonly nEmbd: number;
  /** Tokens of a prompt that are computed at once. */
  readonly chunk: number;
  /** true: the model makes vectors of texts and writes no text. */
  readonly embeddings: boolean;
  readonly hasTokenizer: boolean;
  readonly hasChat: boolean;
  readonly hasGrammar: boolean;
  readonly weightsBytes: number;
  readonly memoryBytes: number;
  /** Default options. */
  readonly sampling: Readonly<Required<Omit<Sampling, 'seed'>>>;
}

/** Properties of the model that are known before it is loaded. */
export interface Card {
  readonly name: string;
  readonly target: string;
  readonly build: string;
  readonly engine: 'wasm' | 'webgpu';
  /** Size of all files. */
  readonly bytes: number;
  /** Size of the files that `fallback: 'wasm'` may load instead; 0: the folder has no fallback. */
  readonly fallbackBytes: number;
}

/** For people: what runs the model, and where weights are kept. */
export interface About extends Omit<Card, 'fallbackBytes'> {
  /** Why the processor computes instead of WebGPU: the error without a fallback; null: no fallback happened. */
  readonly fellBack: Readonly<{ code: ErrorCode; message: string }> | null;
  /** Describes what computes: the processor, or a GPU and how it is used. */
  readonly device: string;
  readonly memoryBytes: number;
  /** Where weights are kept on this device: files of the origin, entries of its Cache API, or nowhere.  note: a sentence if not all of
   * them are kept. */
  readonly storage: Readonly<{ kind: 'files' | 'entries' | 'none'; note: string }>;
}

export declare class Model {
  private constructor();
  readonly info: Info;
  about(): About;

  /** Tokens of a text.  bos (default: true): add the beginning-of-text token; special: turn texts of control tokens into these tokens. */
  encode(text: string, options?: { bos?: boolean; special?: boolean }): number[];
  /** The text of one token or of several. */
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
  /** Appends one token. */
  step(token: number, options?: { signal?: AbortSignal }): Promise<void>;
  /** Appends at most info.chunk tokens and returns the logits after each: [n][nVocab]; for an embedding model its rows: [n][nEmbd].
   * expected: the least number of tokens that the text will have, if known. */
  rows(tokens: Iterable<number>, options?: { expected?: number }): Promise<Float32Array>;
  /** Microseconds of each launch of a step of nTokens tokens, the least of some repeats; WebGPU, loaded with `profile`. */
  profile(nTokens: number, repeats?: number): Promise<{ name: string; us: number }[]>;
  /** WebGPU: runs `work` with single kernels, for tests (test_kernels.js); the context is empty afterwards. */
  withKernels<T>(work: (kernels: object) => Promise<T>): Promise<T>;
  /** The next token, drawn from the logits. */
  sample(options?: Sampling): Promise<number>;
  /** Goes back to the first n tokens (default: 0). */
  reset(n?: number): Promise<void>;
  /** The vector of a text (embedding models), of length 1 unless asItIs is set. */
  embed(input: string | Iterable<number>, options?: { asItIs?: boolean }): Promise<Float32Array>;

  /** Text after a prompt, or the content of an answer to messages, piece by piece.  The part of the prompt in the context is reused. */
  generate(input: string | number[] | Message[] | ChatRequest, options?: GenerateOptions): AsyncGenerator<string, Result, void>;
  /** The answer to messages as it arrives: content, reasoning and tool calls. */
  chat(input: Message[] | ChatRequest, options?: GenerateOptions): AsyncGenerator<ChatEvent, Result, void>;
  /** Draws tokens after the given tokens. */
  draw(tokens: Iterable<number>, options?: GenerateOptions): AsyncGenerator<number, Result, void>;
  close(): void;
}

export declare function about(): Card;
export declare function load(options?: LoadOptions): Promise<Model>;
export default load;
