/* family.c -- see family.h. */
#include "family.h"
#include <string.h>

const char *const family_names[N_FAMILIES + 1] = { [FAMILY_RDNA3] = "rdna3", [FAMILY_CDNA3] = "cdna3", [FAMILY_HOPPER] = "hopper" };

static const struct { const char *archs, *prefixes[3]; } families[N_FAMILIES] = {
    [FAMILY_RDNA3]  = { "gfx110x, gfx115x", { "gfx110", "gfx115" } },
    [FAMILY_CDNA3]  = { "gfx942", { "gfx942" } },
    [FAMILY_HOPPER] = { "sm_90 and later", { "sm_9", "sm_1" } },
};

bool family_has_arch(uint32_t family, const char *arch)
{
    for (const char *const *prefix = families[family].prefixes; *prefix; prefix++)
        if (!strncmp(arch, *prefix, strlen(*prefix))) return true;
    return false;
}

const char *family_archs(uint32_t family) { return families[family].archs; }

const char *family_file(struct arena *a, const struct target *p)
{
    return arena_printf(a, "templates/gpu/machine/%s.h", strcmp(p->api, "host") ? family_names[p->family] : "host");
}

bool family_multiplies_in_fours(const struct target *p) { return !strcmp(p->arch, "sm_90a"); }
