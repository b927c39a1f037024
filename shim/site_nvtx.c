/*
 * NVTX ranges, as an NVTX injection library: the NVTX code inside each library that uses it finds this file through
 * NVTX_INJECTION64_PATH, calls InitializeInjectionNvtx2() once, and from then on the functions put into its table.
 *
 * Here texts of every form become UTF-8 and domains their names; site_ranges.c keeps what is open. The domain "NCCL" is
 * left out: its ranges name NCCL's own functions, below our hooks.
 *
 * Threads: any.
 */
#include "shim/site_ranges.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include "shim/site_sources.h"

#define DOMAINS 64
#define DOMAIN_BYTES 128
#define STRINGS 4096 /* registered strings are copied and live as long as the process */
#define STRING_BYTES RP_RANGE_TEXT_BYTES

/*
 * The handles that we give out are our own: places in the tables below. A NULL domain is the default one, and so is
 * what is no handle of ours: a program that has lost its own runs well without us.
 */
struct nvtxDomainRegistration_st {
    bool ignored;
    char name[DOMAIN_BYTES]; /* constant once the domain is counted */
};

struct text {
    size_t length; /* below STRING_BYTES */
    char bytes[];
};

struct nvtxStringRegistration_st {
    _Atomic(struct text *) text; /* written once, released to the acquire of whoever has the handle; NULL: none */
};

static pthread_mutex_t domain_lock = PTHREAD_MUTEX_INITIALIZER; /* over the domains and their count */
static struct nvtxDomainRegistration_st domains[DOMAINS];
static unsigned domain_count;
static struct nvtxStringRegistration_st strings[STRINGS];
static _Atomic unsigned string_count;

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

/* Whether `handle` is one of the `count` places of `size` bytes that begin at `table`. */
static bool is_place(const void *handle, const void *table, size_t count, size_t size)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)table;
    return offset < count * size && offset % size == 0;
}

static size_t copy_registered(char *out, nvtxStringHandle_t string)
{
    const struct text *text = NULL;
    if (is_place(string, strings, STRINGS, sizeof(strings[0])))
        text = atomic_load_explicit(&string->text, memory_order_acquire);
    if (text == NULL)
        return copy_narrow(out, NULL);
    memcpy(out, text->bytes, text->length + 1);
    return text->length;
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

/* ---------------------------------------------------------------- what NVTX calls */

static const char default_domain[] = "";

static bool is_domain(nvtxDomainHandle_t domain)
{
    return is_place(domain, domains, DOMAINS, sizeof(domains[0]));
}

static const char *name_of(nvtxDomainHandle_t domain)
{
    return is_domain(domain) ? domain->name : default_domain;
}

static bool is_ignored(nvtxDomainHandle_t domain)
{
    return is_domain(domain) && domain->ignored;
}

static int NVTX_API range_push_a(const char *message)
{
    char text[STRING_BYTES];
    return rp_range_push(default_domain, text, copy_narrow(text, message));
}

static int NVTX_API range_push_w(const wchar_t *message)
{
    char text[STRING_BYTES];
    return rp_range_push(default_domain, text, copy_wide(text, message));
}

static int NVTX_API range_push_ex(const nvtxEventAttributes_t *attributes)
{
    char text[STRING_BYTES];
    return rp_range_push(default_domain, text, copy_message(text, attributes));
}

static int NVTX_API range_pop(void)
{
    return rp_range_pop(default_domain);
}

static nvtxRangeId_t NVTX_API range_start_a(const char *message)
{
    char text[STRING_BYTES];
    return rp_range_start(default_domain, text, copy_narrow(text, message));
}

static nvtxRangeId_t NVTX_API range_start_w(const wchar_t *message)
{
    char text[STRING_BYTES];
    return rp_range_start(default_domain, text, copy_wide(text, message));
}

static nvtxRangeId_t NVTX_API range_start_ex(const nvtxEventAttributes_t *attributes)
{
    char text[STRING_BYTES];
    return rp_range_start(default_domain, text, copy_message(text, attributes));
}

static void NVTX_API range_end(nvtxRangeId_t number)
{
    rp_range_end(number);
}

static int NVTX_API domain_range_push_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    char text[STRING_BYTES];
    if (is_ignored(domain))
        return NVTX_NO_PUSH_POP_TRACKING;
    return rp_range_push(name_of(domain), text, copy_message(text, attributes));
}

static int NVTX_API domain_range_pop(nvtxDomainHandle_t domain)
{
    return is_ignored(domain) ? NVTX_NO_PUSH_POP_TRACKING : rp_range_pop(name_of(domain));
}

static nvtxRangeId_t NVTX_API domain_range_start_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    char text[STRING_BYTES];
    if (is_ignored(domain))
        return 0;
    return rp_range_start(name_of(domain), text, copy_message(text, attributes));
}

static void NVTX_API domain_range_end(nvtxDomainHandle_t domain, nvtxRangeId_t number)
{
    (void)domain; /* numbers are those of all domains */
    rp_range_end(number);
}

/* One domain for a name, however often it is made. The default one where there is no more room. */
static nvtxDomainHandle_t make_domain(const char *name)
{
    nvtxDomainHandle_t domain = NULL;
    pthread_mutex_lock(&domain_lock);
    for (unsigned i = 0; i < domain_count && domain == NULL; i++)
        if (strncmp(domains[i].name, name, DOMAIN_BYTES - 1) == 0)
            domain = &domains[i];
    if (domain == NULL && domain_count < DOMAINS) {
        domain = &domains[domain_count];
        domain->ignored = strcmp(name, "NCCL") == 0;
        memccpy(domain->name, name, '\0', DOMAIN_BYTES - 1);
        domain_count++;
    }
    pthread_mutex_unlock(&domain_lock);
    return domain;
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

void rp_site_domains_forked(void)
{
    pthread_mutex_init(&domain_lock, NULL); /* who held it was adding the domain behind the last that counts */
}

/* NULL, an empty text when it is used, where there is no more room. */
static nvtxStringHandle_t make_string(const char *bytes, size_t length)
{
    struct text *text = malloc(sizeof(*text) + length + 1);
    unsigned index = text != NULL ? atomic_fetch_add_explicit(&string_count, 1, memory_order_relaxed) : STRINGS;
    if (index >= STRINGS) {
        if (text != NULL) /* the count must not come round */
            atomic_store_explicit(&string_count, STRINGS, memory_order_relaxed);
        free(text);
        return NULL;
    }
    text->length = length;
    memcpy(text->bytes, bytes, length + 1);
    atomic_store_explicit(&strings[index].text, text, memory_order_release);
    return &strings[index];
}

static nvtxStringHandle_t NVTX_API domain_register_string_a(nvtxDomainHandle_t domain, const char *string)
{
    char text[STRING_BYTES];
    (void)domain;
    size_t length = copy_narrow(text, string);
    return make_string(text, length);
}

static nvtxStringHandle_t NVTX_API domain_register_string_w(nvtxDomainHandle_t domain, const wchar_t *string)
{
    char text[STRING_BYTES];
    (void)domain;
    size_t length = copy_wide(text, string);
    return make_string(text, length);
}

/* ---------------------------------------------------------------- the injection */

/* X(module, id, function). A function that has not NVTX's type for that id does not compile. */
#define FUNCTIONS(X)                                          \
    X(CORE, RangePushA, range_push_a)                         \
    X(CORE, RangePushW, range_push_w)                         \
    X(CORE, RangePushEx, range_push_ex)                       \
    X(CORE, RangePop, range_pop)                              \
    X(CORE, RangeStartA, range_start_a)                       \
    X(CORE, RangeStartW, range_start_w)                       \
    X(CORE, RangeStartEx, range_start_ex)                     \
    X(CORE, RangeEnd, range_end)                              \
    X(CORE2, DomainRangePushEx, domain_range_push_ex)         \
    X(CORE2, DomainRangePop, domain_range_pop)                \
    X(CORE2, DomainRangeStartEx, domain_range_start_ex)       \
    X(CORE2, DomainRangeEnd, domain_range_end)                \
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
