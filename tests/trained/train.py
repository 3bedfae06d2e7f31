#!/usr/bin/env python3
"""train.py LLAMA_CPP OUT [NAME...] -- trains small models with transformers and converts them, for tests/trained/check.sh.

Each model has two to four layers of 256 columns and the bytes of a text as its tokens.  It is trained for 500 steps on Python's own library, its weights are
rounded to F16, llama.cpp's converter writes OUT/NAME.gguf, and transformers (eager attention, float32, on the CPU) gives the logits of 160 tokens:
OUT/NAME.tokens and OUT/NAME.logits.f32, float32 [160][256].  So weights, key set and logits come from programs that share nothing with forgec.
LLAMA_CPP: a source tree of llama.cpp v0.4.0, of which conversion/ and gguf-py/ are read.  Needs torch and transformers (5.17 was used) and a GPU.
"""
import gc
import glob
import json
import os
import sys
import sysconfig
import tempfile
import time
import traceback
from pathlib import Path

import torch
import transformers as t

VOCAB, CONTEXT, STEPS, BATCH, LENGTH = 256, 512, 500, 32, 256
COMMON = dict(vocab_size=VOCAB, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=384,
              max_position_embeddings=CONTEXT, pad_token_id=None, bos_token_id=0, eos_token_id=1, tie_word_embeddings=False)
EXPERTS = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128)
DEEPSEEK = dict(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=128, n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1)

# name: configuration, what differs from COMMON (None leaves a member out).
MODELS = {
    "llama": (t.LlamaConfig, dict(head_dim=64)),
    "mixtral": (t.MixtralConfig, dict(num_local_experts=8, num_experts_per_tok=2, intermediate_size=128)),
    "qwen2": (t.Qwen2Config, {}),
    "qwen3": (t.Qwen3Config, dict(head_dim=64)),
    "qwen3moe": (t.Qwen3MoeConfig, dict(head_dim=64, norm_topk_prob=True, **EXPERTS)),
    "qwen3next": (t.Qwen3NextConfig, dict(num_hidden_layers=4, head_dim=64, shared_expert_intermediate_size=128, linear_num_value_heads=4,
                                          linear_num_key_heads=2, linear_key_head_dim=64, linear_value_head_dim=64, **EXPERTS)),
    "gemma2": (t.Gemma2Config, dict(head_dim=64, query_pre_attn_scalar=64, sliding_window=64, tie_word_embeddings=True)),
    "gemma3": (t.Gemma3TextConfig, dict(head_dim=64, query_pre_attn_scalar=64, sliding_window=64, tie_word_embeddings=True)),
    "phi2": (t.PhiConfig, dict(num_key_value_heads=4, intermediate_size=1024, partial_rotary_factor=0.5)),
    "phi3": (t.Phi3Config, {}),
    "gpt2": (t.GPT2Config, dict(n_embd=256, n_layer=2, n_head=4, n_positions=CONTEXT, n_ctx=CONTEXT, hidden_size=None, num_hidden_layers=None, num_attention_heads=None,
                                num_key_value_heads=None, intermediate_size=None, max_position_embeddings=None, tie_word_embeddings=True)),
    "gptneox": (t.GPTNeoXConfig, dict(num_key_value_heads=None, rotary_pct=0.25)),
    "falcon": (t.FalconConfig, dict(num_key_value_heads=None, num_kv_heads=1, intermediate_size=None, tie_word_embeddings=True)),
    "gpt-oss": (t.GptOssConfig, dict(head_dim=64, intermediate_size=128, num_local_experts=8, num_experts_per_tok=2, sliding_window=64, rope_parameters=dict(
        rope_type="yarn", rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=256),
        max_position_embeddings=8192)),
    "lfm2": (t.Lfm2Config, dict(block_auto_adjust_ff_dim=False, layer_types=["conv", "full_attention"])),
    "olmo2": (t.Olmo2Config, {}),
    "cohere2": (t.Cohere2Config, dict(rotary_pct=1.0, num_hidden_layers=4, head_dim=64, sliding_window=64, tie_word_embeddings=True)),
    "granite": (t.GraniteConfig, dict(embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.0156, logits_scaling=4.0)),
    "granitehybrid": (t.GraniteMoeHybridConfig, dict(layer_types=["mamba", "attention"], num_local_experts=8, num_experts_per_tok=2, intermediate_size=128,
                                                     shared_intermediate_size=256, mamba_n_heads=8, mamba_d_head=64, mamba_d_state=64, mamba_n_groups=1,
                                                     embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.0156, logits_scaling=4.0)),
    "deepseek2": (t.DeepseekV3Config, dict(num_key_value_heads=4, scoring_func="sigmoid", q_lora_rank=96, kv_lora_rank=64, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
                                           **DEEPSEEK)),
    "glm4": (t.Glm4Config, dict(head_dim=64)),
    "glm4moe": (t.Glm4MoeConfig, dict(head_dim=64, use_qk_norm=True, **DEEPSEEK)),
    "ernie4_5": (t.Ernie4_5Config, dict(head_dim=64)),
    "exaone4": (t.Exaone4Config, dict(num_hidden_layers=4, head_dim=64, sliding_window=64, sliding_window_pattern=4)),
    "stablelm": (t.StableLmConfig, dict(partial_rotary_factor=0.25)),
    "starcoder2": (t.Starcoder2Config, dict(tie_word_embeddings=True)),
    "minimax-m2": (t.MiniMaxM2Config, dict(head_dim=64, rotary_dim=64, intermediate_size=128, num_local_experts=8, num_experts_per_tok=2)),
    "seed_oss": (t.SeedOssConfig, dict(head_dim=64)),
    "smollm3": (t.SmolLM3Config, dict(num_hidden_layers=4, no_rope_layer_interval=4)),
}


def text():
    """The bytes that are learnt: Python's standard library and what texts are beside it."""
    library = sysconfig.get_paths()["stdlib"]
    parts, size = [], 0
    for path in sorted(glob.glob(library + "/*.py") + glob.glob(library + "/*/*.py")):
        with open(path, "rb") as f:
            parts.append(f.read())
        size += len(parts[-1])
        if size > 16 << 20:
            break
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).long()


def configuration(name):
    kind, own = MODELS[name]
    members = {**COMMON, **own}
    return kind(**{k: v for k, v in members.items() if v is not None or k == "pad_token_id"}, attn_implementation="eager")


def trained(name, data, steps):
    torch.manual_seed(sum(name.encode()))
    model = t.AutoModelForCausalLM.from_config(configuration(name), attn_implementation="eager").float().cuda().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    loss = None
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * min(1, (step + 1) / 50)
        starts = torch.randint(len(data) - LENGTH - 1, (BATCH,))
        rows = torch.stack([data[s:s + LENGTH] for s in starts]).cuda()
        loss = model(input_ids=rows, labels=rows, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.half().float())
    return model.cpu().eval(), float(loss)


def convert(llama_cpp, folder, path, published):
    """llama.cpp's own converter, but for the vocabulary: there is none, tokens are numbers.
    published: members as published configurations have them, which transformers 5 does not write again (rotary_pct, scoring_func)."""
    sys.path[:0] = [llama_cpp, os.path.join(llama_cpp, "gguf-py")]
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    def no_vocabulary(self):
        self.gguf_writer.add_tokenizer_model("none")
        if not any(k.endswith(".vocab_size") for k in self.gguf_writer.kv_data[0]):
            self.gguf_writer.add_vocab_size(VOCAB)

    config = {**ModelBase.load_hparams(Path(folder), False), **published}
    kind = get_model_class(get_model_architecture(config, ModelType.TEXT))
    kind.set_vocab = no_vocabulary
    kind.no_mtp = True
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:      # gemma3's converter counts the tokens
        json.dump(dict(model=dict(vocab={str(i): i for i in range(VOCAB)}), added_tokens=[]), f)
    with torch.inference_mode():
        kind(Path(folder), gguf.LlamaFileType.MOSTLY_F16, Path(path), hparams=config, model_name="trained-" + Path(path).stem).write()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    llama_cpp, out, names = sys.argv[1], sys.argv[2], sys.argv[3:] or list(MODELS)
    os.makedirs(out, exist_ok=True)
    data, failed = text(), 0
    for name in names:
        begun = time.time()
        try:
            model, loss = trained(name, data, int(os.environ.get("STEPS", STEPS)))
            tokens = data[1000:1160]
            with torch.no_grad():
                logits = model(input_ids=tokens[None], use_cache=False).logits[0].float().contiguous()
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                convert(llama_cpp, folder, os.path.join(out, name + ".gguf"), MODELS[name][1])
            logits.numpy().tofile(os.path.join(out, name + ".logits.f32"))
            with open(os.path.join(out, name + ".tokens"), "w") as f:
                print(*tokens.tolist(), file=f)
            print(json.dumps(dict(name=name, loss=round(loss, 3), seconds=round(time.time() - begun, 1))), flush=True)
            del model
            gc.collect()
        except Exception as error:  # the next one may work
            failed += 1
            traceback.print_exc()
            print(json.dumps(dict(name=name, error=f"{type(error).__name__}: {error}"[:600])), flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
