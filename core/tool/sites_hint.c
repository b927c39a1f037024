/*
 * An example of an annotation rule, made from what a trace shows: a section that may be pasted into a file as it is,
 * and matches exactly the text that it was made from.
 */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "core/rules/rule.h"
#include "core/tool/demangle.h"
#include "core/tool/sites_view.h"
#include "core/tool/tool.h"
#include "core/trace/trace_format.h"

#define PATTERN_MAX 150 /* bytes of a pattern, since a line of a file has a bound; a longer one ends in "*" */
#define NAME_BYTES 60   /* bytes of a made-up name */

/* The keys of a pattern and of its condition, by enum rp_site_source, which has the numbers of enum rp_rule_source. */
static const struct {
    const char *pattern, *where;
} keys[RP_SITE_SOURCE_COUNT] = {
#define X(name, pattern, where) {pattern, where},
    RP_RULE_SOURCES(X)
#undef X
};

/* Of collectives before kernels, which are counted by launches. */
static bool is_better(const struct rp_trace_site *site, const struct rp_trace_site *best)
{
    if (best == NULL)
        return true;
    bool kernel = site->source == RP_SITE_KERNEL, best_kernel = best->source == RP_SITE_KERNEL;
    return kernel != best_kernel ? best_kernel : site->count > best->count;
}

/* Where a program or a thread begins: under everything, so that a rule for it tells nothing apart. "?": no name. */
static bool tells_nothing(const struct rp_trace_site *site)
{
    static const char *const texts[] = {
        "?",        "_start", "__libc_start_main", "__libc_start_call_main", "clone",   "__clone", "clone3",
        "__clone3", "main",   "Py_Main",           "start_thread",           "<module>"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(site->text, texts[i]) == 0)
            return true;
    }
    return false;
}

static const struct rp_trace_site *most_counted(const struct rp_trace *trace)
{
    const struct rp_trace_site *best = NULL;
    for (size_t i = 0; i < trace->site_count; i++) {
        const struct rp_trace_site *site = &trace->sites[i];
        if (rp_site_is_unmatched(site) && !tells_nothing(site) && is_better(site, best))
            best = site;
    }
    return best;
}

/*
 * `length` bytes of a text, one character, as a pattern that matches them: in [] what means something in a pattern or
 * in the file, and "?" for a byte that no terminal should see (length 0). Returns how many bytes that takes.
 */
static int put_pattern_character(FILE *out, const char *text, size_t length, bool at_edge)
{
    if (length == 0)
        return fprintf(out, "?");
    if (strchr("*?[{;", *text) != NULL || (at_edge && strchr(" \"", *text) != NULL))
        return fprintf(out, "[%c]", *text);
    return fprintf(out, "%.*s", (int)length, text);
}

/* A line "key = <before>text". */
static void put_pattern(FILE *out, const char *key, const char *before, const char *text)
{
    const char *first = text;
    int used = 0;
    fprintf(out, "%s = %s", key, before);
    while (*text != '\0' && used < PATTERN_MAX) {
        size_t length = rp_tool_printable(text), step = length > 0 ? length : 1;
        used += put_pattern_character(out, text, length, text == first || text[1] == '\0');
        text += step;
        if (used >= PATTERN_MAX && *text != '\0')
            fputc('*', out);
    }
    fputc('\n', out);
}

/* A name out of a text: no character that means something in a section's name or in quotes. Returns `name`. */
static char *make_name(const char *text, char name[NAME_BYTES])
{
    size_t length = 0;
    for (; text[length] != '\0' && length + 1 < NAME_BYTES; length++) {
        bool plain = (unsigned char)text[length] >= 0x20 && (unsigned char)text[length] < 0x7f;
        name[length] = plain && strchr("[]{}\";", text[length]) == NULL ? text[length] : '-';
    }
    name[length] = '\0';
    return name;
}

/* "ns::add<float>(float*)" is "add". */
static char *kernel_name(const char *mangled, char name[NAME_BYTES])
{
    char plain[RP_SITE_TEXT_MAX + 1];
    rp_demangle(mangled, plain, sizeof(plain));
    plain[strcspn(plain, "<(")] = '\0';
    const char *last = plain;
    for (const char *c = plain; *c != '\0'; c++) {
        if (*c == ' ' || *c == ':')
            last = c + 1;
    }
    return make_name(*last != '\0' ? last : "kernel", name);
}

static const char *guess_phase(const char *text)
{
    static const struct {
        const char *part, *phase;
    } guesses[] = {{"backward", "backward"},    {"bwd", "backward"},    {"recompute", "recompute"},
                   {"checkpoint", "recompute"}, {"optim", "optimizer"}, {"adam", "optimizer"}};
    for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++) {
        if (strcasestr(text, guesses[i].part) != NULL)
            return guesses[i].phase;
    }
    return "forward";
}

static void put_where(FILE *out, const struct rp_trace_site *site)
{
    bool is_file = site->source == RP_SITE_PYTHON || site->source == RP_SITE_NATIVE;
    const char *base = is_file ? strrchr(site->where, '/') : NULL; /* in whichever folder */
    if (keys[site->source].where[0] != '\0' && site->where[0] != '\0')
        put_pattern(out, keys[site->source].where, base != NULL ? "*" : "", base != NULL ? base : site->where);
}

static void put_section(FILE *out, const struct rp_trace_site *site)
{
    char section[NAME_BYTES], module[NAME_BYTES];
    make_name(site->text, section);
    if (site->source == RP_SITE_KERNEL)
        kernel_name(site->text, module);
    else
        make_name(site->text, module);
    fprintf(out, "[%s]\n", site->source == RP_SITE_KERNEL ? module : section);
    put_pattern(out, keys[site->source].pattern, "", site->text);
    put_where(out, site);
    fprintf(out, "module = \"%s\"\n", module);
    fprintf(out, "phase = %s\n", guess_phase(site->text));
}

/* Collectives were seen, and only under places that tell nothing. */
static bool collectives_are_nameless(const struct rp_trace *trace)
{
    size_t places = 0;
    for (size_t i = 0; i < trace->site_count; i++) {
        const struct rp_trace_site *site = &trace->sites[i];
        if (site->source == RP_SITE_KERNEL)
            continue;
        if (!rp_site_is_unmatched(site) || !tells_nothing(site))
            return false;
        places++;
    }
    return places > 0;
}

static void put_what_it_means(FILE *out, const struct rp_trace *trace, const struct rp_trace_site *site)
{
    fputs(
        "A rule gives module and phase to what its pattern matches (forward, backward, recompute, optimizer, other).\n",
        out);
    if (site->source != RP_SITE_KERNEL)
        fputs("Of the places around a collective the innermost that has one counts. Module and phase below are "
              "guesses.\n",
              out);
    else
        fprintf(out,
                "%s. A rule for a kernel gives its launches to an\n"
                "event of their own; without one they belong to that of the op before.\n",
                collectives_are_nameless(trace) ? "None can be written for collectives"
                                                : "Every place of collectives has one, but where everything begins");
}

void rp_sites_hint_print(FILE *out, const struct rp_trace *trace)
{
    const struct rp_trace_site *site = most_counted(trace);
    if (collectives_are_nameless(trace))
        fputs("\n"
              "No frame around a collective has a name: the native stack has those of exported functions alone. Link "
              "the\n"
              "program with -rdynamic, or put NVTX ranges around its parts.\n",
              out);
    if (site == NULL) {
        fputs("\nnothing lacks a rule but where everything begins\n", out);
        return;
    }
    fputc('\n', out);
    put_what_it_means(out, trace, site);
    fputs("For what was counted most and has none, as a section of a file that REPRISE_ANNOTATIONS names:\n\n", out);
    put_section(out, site);
}
