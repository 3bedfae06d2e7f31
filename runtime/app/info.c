/* info.c -- --version, --info: what the program knows about itself. */
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>

#include "runtime/device/launcher.h"
#include "runtime/model/pool.h"
#include "runtime/model/state.h"
#include "runtime/chat/template.h"
#include "runtime/run/guide.h"
#include "runtime/run/session.h"
#include "runtime/text/tokenize.h"

enum forge_status version_print(const struct forge_program *p, struct forge_error *error)
{
    printf("%s (%s), %s%s\n", p->model_name, p->target, p->compiler, forge_edited_source ? ", edited source" : "");
    return flush_stdout(error);
}

static void print_target(const struct forge_program *program, const struct forge_program *chosen)
{
    /* This does not look for a GPU; --check does. */
    printf("target         %s%s, needs", program->target, program == chosen && !program->gpu ? " (runs here)" : "");
    const char *const *feature = program->features;
    const bool any = feature && *feature;
    const char *through = program->gpu && program->gpu->api == FORGE_GPU_HIP ? "HIP" : "CUDA";
    if (program_ranks(program) > 1) {
        printf(" %u GPUs that are", program_ranks(program));
        for (uint32_t rank = 0; rank < program_ranks(program); rank++)
            printf("%s %s", rank > 0 ? "," : "", program_of_rank(program, rank)->gpu->arch);
        printf("%s, through %s", program->gpu->pipeline ? " as pipeline stages" : "", through);
    } else if (program->gpu) printf(" a GPU that is %s, through %s", program->gpu->arch, through);
    else if (!any) printf(" nothing");
    if (program->gpu && any) printf(", and");
    for (; any && *feature; feature++) printf(" %s", *feature);
    if (forge_n_programs > 1) printf("; reads %llu bytes of weights", (unsigned long long)program_weights_bytes(program));
    printf("\n");
}

static void print_kernels(const struct forge_program *p)
{
    printf("kernels       ");
    for (uint32_t i = 0; p->gpu && i < p->gpu->n_kernels; i++) printf(" %s", p->gpu->kernels[i].name);
    for (uint32_t i = 0; !p->gpu && i < p->n_decode; i++) {
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++) seen = p->decode[j].kernel == p->decode[i].kernel;
        if (!seen) printf(" %s", p->decode[i].name);
    }
    printf("\n");
}

/* A line for each kind of state: its size with a full context. */
static void print_states(const struct forge_program *p)
{
    static const char *const names[] = { "keys and values", "keys and values in rings", "recurrent values", "inputs of convolutions" };
    for (uint32_t kind = 0; kind < sizeof names / sizeof *names; kind++) {
        uint64_t bytes = 0;
        for (uint32_t rank = 0; rank < program_ranks(p); rank++) {
            const struct forge_program *part = program_of_rank(p, rank);
            for (uint32_t i = 0; i < part->n_states; i++) bytes += part->states[i].kind == kind ? part->states[i].bytes : 0;
        }
        if (bytes > 0) printf("state          %llu bytes of %s for %u tokens\n", (unsigned long long)bytes, names[kind], p->n_ctx);
    }
}

/* The share of each GPU in the model. */
static void print_ranks(const struct forge_program *p)
{
    typedef unsigned long long ull;
    for (uint32_t rank = 0; rank < program_ranks(p) && program_ranks(p) > 1; rank++) {
        const struct forge_program *part = program_of_rank(p, rank);
        printf("GPU %-10u %s, %llu bytes of weights, %llu of states, %llu of activations, %llu for collectives, %llu of code\n", rank,
               part->gpu->arch, (ull)part->weights_bytes, (ull)part->state_bytes, (ull)part->arena_bytes, (ull)part->gpu->collective_bytes,
               (ull)part->gpu->code_bytes);
    }
}

/* How a launcher started this process. */
static void print_processes(const struct forge_program *p)
{
    struct forge_launcher l;
    if (program_ranks(p) == 1 || launcher_find(&l, NULL) != FORGE_OK || l.n == 1) return;
    printf("processes      %u, by %s, a GPU each: this is number %u%s\n", l.n, l.name, l.rank,
           l.n == program_ranks(p) ? "" : "; the program needs a process for each GPU");
}

/* The newest version of glibc's symbols that this program needs, from its dynamic section; 0: it is static. */
static uint32_t glibc_minor(void)
{
    const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
    const ElfW(Dyn)  *dynamic = NULL;
    uintptr_t         base = 0, needs = 0, names = 0;
    uint64_t          n = 0;
    uint32_t          newest = 0;
    for (uint64_t i = 0; headers && i < getauxval(AT_PHNUM); i++) {                  /* PT_PHDR comes first */
        if (headers[i].p_type == PT_PHDR) base = (uintptr_t)headers - headers[i].p_vaddr;
        if (headers[i].p_type == PT_DYNAMIC) dynamic = (const void *)(base + headers[i].p_vaddr);
    }
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const uintptr_t told = dynamic->d_un.d_ptr, at = told < base ? base + told : told;      /* glibc replaces some of them by
                                                                                                 * addresses */
        if (dynamic->d_tag == DT_VERNEED) needs = at;
        if (dynamic->d_tag == DT_STRTAB) names = at;
        if (dynamic->d_tag == DT_VERNEEDNUM) n = dynamic->d_un.d_val;
    }
    for (; needs && names && n; n--) {
        const ElfW(Verneed) *library = (const void *)needs;
        const char          *aux = (const char *)needs + library->vn_aux;
        for (uint32_t i = 0; i < library->vn_cnt; i++) {
            const ElfW(Vernaux) *one = (const void *)aux;
            unsigned minor;
            if (sscanf((const char *)names + one->vna_name, "GLIBC_2.%u", &minor) == 1 && minor > newest) newest = minor;
            aux += one->vna_next;
        }
        needs += library->vn_next;
    }
    return newest;
}

enum forge_status info_print(const struct forge_program *p, struct forge_error *error)
{
    printf("model          %s\n", p->model_name);
    printf("architecture   %s, %.1f M parameters, %u layers, hidden %u, vocabulary %u\n", p->architecture,
           (double)p->n_parameters * 1e-6, p->n_layer, p->n_embd, p->n_vocab);
    if (p->embedding) {
        static const char *const rows[] = { [FORGE_POOL_MEAN] = "the mean of all rows", [FORGE_POOL_CLS] = "the first row",
                                            [FORGE_POOL_LAST] = "the last row" };
        printf("embeddings     %u columns, %s; a token sees %s\n", p->n_embd, rows[p->embedding->pooling],
               p->embedding->whole ? "the whole text" : "those before it");
    }
    printf("formats        %s\n", p->formats);
    printf("model hash     %s\n", p->model_hash);
    printf("weights hash   %s\n", p->weights_hash);
    printf("weights        %llu bytes, %s\n", (unsigned long long)program_weights_bytes(p), forge_weights ? "inside" : "outside (-m)");
    printf("read per token %llu bytes of weights, %llu of state for every token before it\n", (unsigned long long)p->read_bytes,
           (unsigned long long)p->state_bytes_per_token);
    printf("activations    %llu bytes\n", (unsigned long long)p->arena_bytes);
    print_states(p);
    if (!p->gpu) {
        printf("launches       %u per token, %u per prompt step of up to %u tokens\n", p->n_decode, p->n_prefill, p->chunk);
        printf("threads        1 to %u\n", p->max_threads);
    } else {
        uint32_t launches = 0;
        for (uint32_t i = 0; i < p->gpu->n_prefill; i++)
            launches += p->gpu->prefill[i].tokens_most == 0 || p->gpu->prefill[i].tokens_most == p->chunk;
        printf("launches       %u per token%s, %u per prompt step of up to %u tokens\n", p->gpu->n_decode,
               p->embedding ? "" : " and one to draw the next", launches, p->chunk);
        if (p->gpu->most_columns) printf("columns        steps of 2 to %u tokens as decode computes them, %u launches\n",
                                         p->gpu->most_columns, p->gpu->n_columns);
        if (p->gpu->most_drafts) printf("speculation    up to %u drafts a step, %s (--spec)\n", p->gpu->most_drafts,
                                        p->gpu->n_pass ? "by the model's own block" : "looked up in the text");
        printf("code           %llu bytes, waves of %u lanes\n", (unsigned long long)p->gpu->code_bytes, p->gpu->wave);
    }
    print_ranks(p);
    print_processes(p);
    if (p->vocab && forge_vocab_differs(p->vocab))
        printf("tokens         %s\n", forge_vocab_is_llama_cpp(p->vocab) ? "as llama.cpp gives them (--pre llama.cpp)"
               : "as the model's own tokenizer gives them; llama.cpp tokenizes some texts differently");
    struct chat_about about;
    for (uint32_t i = 0; p->chat && chat_about(p->chat, i, &about); i++)
        printf("chat template  %.*s%s%u bytes, XXH3 %016llx\n", (int)about.n_name, about.name ? about.name : "", about.name ? ": " : "",
               about.bytes, (unsigned long long)about.hash);
    if (p->arithmetic) printf("arithmetic     %s\n", p->arithmetic);
    printf("options        %s\n", p->options);
    if (forge_defaults) printf("defaults       %s\n", forge_defaults);
    if (forge_grammar) printf("grammar        %u bytes\n", guide_image_bytes(forge_grammar));
    printf("compiler       %s\n", p->compiler);
    if (forge_edited_source) printf("edited source  %s: not what forgec emits\n", forge_edited_source);
    for (uint32_t i = 0; i < forge_n_programs; i++) print_target(forge_programs[i], p);
    const uint32_t minor = glibc_minor();
    if (minor) printf("libc           needs glibc 2.%u or newer\n", minor);
    print_kernels(p);
    return flush_stdout(error);
}
