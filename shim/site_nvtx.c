/*
 * NVTX ranges, as an NVTX injection library: the NVTX code inside each library that uses it finds this file through
 * NVTX_INJECTION64_PATH, calls InitializeInjectionNvtx2() once, and from then on the functions put into its table.
 *
 * Each thread keeps the texts of its open ranges: RANGES of them, the texts together in TEXT_BYTES. What is beyond is
 * counted and not kept, so that pops still pair. A push or pop allocates nothing and takes no lock. The ranges of all
 * domains are on one stack; a pop takes the innermost of its own domain. The domain "NCCL" is left out: its ranges
 * name NCCL's own functions, below our hooks.
 *
 * Threads: any.
 */
#include "shim/site_sources.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#define RANGES 32
#define TEXT_BYTES 4096
#define DOMAINS 64
#define STRINGS 4096 /* registered strings are copied and live as long as the process */
#define STRING_BYTES 1024

struct range {
    nvtxDomainHandle_t domain;
    uint16_t text; /* offset in texts; terminated */
    bool popped;   /* out of turn: a range inside it, of another domain, is open still */
};

static _Thread_local struct {
    uint32_t depth;
    uint32_t beyond; /* open ranges that found no room; while there are some, no new one is kept */
    uint16_t used;   /* bytes of texts */
    struct range ranges[RANGES];
    char texts[TEXT_BYTES];
} mine;

/* The handles that we give out are our own. A NULL domain is the default one. */
struct nvtxDomainRegistration_st {
    bool ignored;
};

struct nvtxStringRegistration_st {
    size_t length; /* below STRING_BYTES */
    char text[];
};

static struct nvtxDomainRegistration_st domains[DOMAINS];
static nvtxStringHandle_t strings[STRINGS]; /* each written once; kept for leak checkers, read by nobody */
static _Atomic unsigned domain_count, string_count;

/* ---------------------------------------------------------------- texts */

/* The code point as UTF-8; returns how many bytes. */
static size_t encode(uint32_t code, char out[4])
{
    if (code > 0x10ffff)
        code = '?';
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00u >> length) | code); /* as many leading ones as there are bytes */
    return length;
}

/* Each copies into STRING_BYTES, cuts there, terminates, returns the length. NULL is the empty text. */
static size_t copy_narrow(char *out, const char *text)
{
    size_t length = text != NULL ? strnlen(text, STRING_BYTES - 1) : 0;
    if (length > 0)
        memcpy(out, text, length);
    out[length] = '\0';
    return length;
}

static size_t copy_wide(char *out, const wchar_t *text)
{
    size_t length = 0;
    for (; text != NULL && *text != L'\0' && length + 4 < STRING_BYTES; text++)
        length += encode((uint32_t)*text, out + length);
    out[length] = '\0';
    return length;
}

static size_t copy_registered(char *out, const struct nvtxStringRegistration_st *string)
{
    if (string == NULL)
        return copy_narrow(out, NULL);
    memcpy(out, string->text, string->length + 1);
    return string->length;
}

static size_t copy_message(char *out, const nvtxEventAttributes_t *attributes)
{
    if (attributes == NULL)
        return copy_narrow(out, NULL);
    switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
        return copy_narrow(out, attributes->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
        return copy_wide(out, attributes->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED:
        return copy_registered(out, attributes->message.registered);
    default:
        return copy_narrow(out, NULL);
    }
}

/* ---------------------------------------------------------------- the stack of a thread */

/* Both return the level of the range, counting from 0, as NVTX wants it. */
static int push(nvtxDomainHandle_t domain, const char *text, size_t length)
{
    int level = (int)(mine.depth + mine.beyond);
    if (mine.beyond > 0 || mine.depth == RANGES || mine.used + length + 1 > TEXT_BYTES) {
        mine.beyond++;
        return level;
    }
    mine.ranges[mine.depth++] = (struct range){.domain = domain, .text = mine.used};
    memcpy(mine.texts + mine.used, text, length + 1);
    mine.used = (uint16_t)(mine.used + length + 1);
    return level;
}

static void drop_popped(void)
{
    while (mine.depth > 0 && mine.ranges[mine.depth - 1].popped)
        mine.used = mine.ranges[--mine.depth].text;
}

static int pop(nvtxDomainHandle_t domain)
{
    if (mine.beyond > 0) {
        mine.beyond--;
        return (int)(mine.depth + mine.beyond);
    }
    for (uint32_t i = mine.depth; i-- > 0;) {
        if (mine.ranges[i].popped || mine.ranges[i].domain != domain)
            continue;
        mine.ranges[i].popped = true;
        drop_popped();
        return (int)i;
    }
    return -1; /* a pop without a push */
}

static void take_module(struct rp_modules *modules, const struct rp_rule_match *match, struct rp_site_finding *finding)
{
    if (finding->module == RP_MODULE_UNKNOWN && match->module_rule != NULL)
        finding->module = rp_site_intern(modules, match->module, match->module_length);
}

void rp_site_from_nvtx(struct rp_modules *modules, struct rp_site_finding *finding)
{
    for (uint32_t i = mine.depth; i-- > 0;) {
        struct rp_rule_match match;
        if (mine.ranges[i].popped || !rp_rule_match(RP_RULE_NVTX, mine.texts + mine.ranges[i].text, &match))
            continue;
        take_module(modules, &match, finding);
        if (finding->phase == RP_PHASE_UNKNOWN && match.phase_rule != NULL) {
            finding->phase = match.phase;
            finding->forward_in_backward = match.phase_rule->forward_in_backward;
        }
    }
}

/* ---------------------------------------------------------------- what NVTX calls */

static int NVTX_API range_push_a(const char *message)
{
    char text[STRING_BYTES];
    return push(NULL, text, copy_narrow(text, message));
}

static int NVTX_API range_push_w(const wchar_t *message)
{
    char text[STRING_BYTES];
    return push(NULL, text, copy_wide(text, message));
}

static int NVTX_API range_push_ex(const nvtxEventAttributes_t *attributes)
{
    char text[STRING_BYTES];
    return push(NULL, text, copy_message(text, attributes));
}

static int NVTX_API range_pop(void)
{
    return pop(NULL);
}

static int NVTX_API domain_range_push_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    char text[STRING_BYTES];
    if (domain != NULL && domain->ignored)
        return NVTX_NO_PUSH_POP_TRACKING;
    return push(domain, text, copy_message(text, attributes));
}

static int NVTX_API domain_range_pop(nvtxDomainHandle_t domain)
{
    if (domain != NULL && domain->ignored)
        return NVTX_NO_PUSH_POP_TRACKING;
    return pop(domain);
}

/* A domain beyond the last place is the default one. */
static nvtxDomainHandle_t make_domain(const char *name)
{
    unsigned index = atomic_fetch_add_explicit(&domain_count, 1, memory_order_relaxed);
    if (index >= DOMAINS)
        return NULL;
    domains[index].ignored = strcmp(name, "NCCL") == 0;
    return &domains[index];
}

static nvtxDomainHandle_t NVTX_API domain_create_a(const char *name)
{
    char text[STRING_BYTES];
    copy_narrow(text, name);
    return make_domain(text);
}

static nvtxDomainHandle_t NVTX_API domain_create_w(const wchar_t *name)
{
    char text[STRING_BYTES];
    copy_wide(text, name);
    return make_domain(text);
}

/* NULL, an empty text when it is used, where there is no more room. */
static nvtxStringHandle_t make_string(const char *text, size_t length)
{
    unsigned index = atomic_fetch_add_explicit(&string_count, 1, memory_order_relaxed);
    if (index >= STRINGS)
        return NULL;
    nvtxStringHandle_t string = malloc(sizeof(*string) + length + 1);
    if (string == NULL)
        return NULL;
    string->length = length;
    memcpy(string->text, text, length + 1);
    return strings[index] = string;
}

static nvtxStringHandle_t NVTX_API domain_register_string_a(nvtxDomainHandle_t domain, const char *string)
{
    char text[STRING_BYTES];
    (void)domain;
    return make_string(text, copy_narrow(text, string));
}

static nvtxStringHandle_t NVTX_API domain_register_string_w(nvtxDomainHandle_t domain, const wchar_t *string)
{
    char text[STRING_BYTES];
    (void)domain;
    return make_string(text, copy_wide(text, string));
}

/* ---------------------------------------------------------------- the injection */

/* X(module, id, function). A function that has not NVTX's type for that id does not compile. */
#define FUNCTIONS(X)                                          \
    X(CORE, RangePushA, range_push_a)                         \
    X(CORE, RangePushW, range_push_w)                         \
    X(CORE, RangePushEx, range_push_ex)                       \
    X(CORE, RangePop, range_pop)                              \
    X(CORE2, DomainRangePushEx, domain_range_push_ex)         \
    X(CORE2, DomainRangePop, domain_range_pop)                \
    X(CORE2, DomainCreateA, domain_create_a)                  \
    X(CORE2, DomainCreateW, domain_create_w)                  \
    X(CORE2, DomainRegisterStringA, domain_register_string_a) \
    X(CORE2, DomainRegisterStringW, domain_register_string_w)

static const struct {
    NvtxCallbackModule module;
    unsigned id;
    NvtxFunctionPointer function;
} functions[] = {
#define X(module, id, function)                                         \
    {NVTX_CB_MODULE_##module, NVTX_CBID_##module##_##id,                \
     (NvtxFunctionPointer) _Generic(&(function), nvtx##id##_impl_fntype \
                                    : (function))},
    FUNCTIONS(X)
#undef X
};

/* Called by each library that uses NVTX, once, at its first range. 0: it goes on without us. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    if (!atomic_load_explicit(&rp_site_on, memory_order_relaxed))
        return 0;
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    if (callbacks == NULL || callbacks->struct_size < sizeof(*callbacks))
        return 0;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        NvtxFunctionTable table = NULL;
        unsigned size = 0;
        if (callbacks->GetModuleFunctionTable(functions[i].module, &table, &size) == 0 || functions[i].id >= size)
            return 0;
        *table[functions[i].id] = functions[i].function;
    }
    return 1;
}
