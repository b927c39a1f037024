#include "core/tool/sites_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/tool/demangle.h"
#include "core/tool/tool.h"
#include "core/trace/trace_format.h"

#define TEXT_SHOWN 200 /* bytes of a text in a table */
#define WHERE_SHOWN 48 /* the end of a path counts */
#define RULE_SHOWN 120
#define SAFE_MAX (4 * RP_SITE_TEXT_MAX + 5)

static const char *const source_names[] = {
#define X(name, text) text,
    RP_SITE_SOURCES(X)
#undef X
};

/* The tables in their order: what says most comes first. */
static const struct table {
    enum rp_site_source source;
    const char *title, *count, *where;
} tables[] = {
    {RP_SITE_PYTHON, "Python frames", "collectives", "file"},
    {RP_SITE_NVTX, "NVTX ranges", "collectives", "domain"},
    {RP_SITE_NATIVE, "native frames (a pattern matches the mangled name, which --csv prints)", "collectives",
     "library"},
    {RP_SITE_KERNEL, "kernels (a pattern matches the mangled name, which --csv prints)", "launches", ""},
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

bool rp_site_is_unmatched(const struct rp_trace_site *site)
{
    return site->module_rule[0] == '\0' && site->phase_rule[0] == '\0' && site->step_rule[0] == '\0';
}

/* ---------------------------------------------------------------- which, in which order */

static size_t table_of(const struct rp_trace_site *site)
{
    size_t table = 0;
    while (table + 1 < TABLES && tables[table].source != site->source)
        table++;
    return table;
}

static int compare_sites(const void *left, const void *right)
{
    const struct rp_trace_site *a = *(const struct rp_trace_site *const *)left;
    const struct rp_trace_site *b = *(const struct rp_trace_site *const *)right;
    if (a->source != b->source)
        return table_of(a) < table_of(b) ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* The caller frees the list. */
static enum rp_status choose(const struct rp_trace *trace, bool only_unmatched, const struct rp_trace_site ***list_out,
                             size_t *count_out)
{
    const struct rp_trace_site **list = calloc(trace->site_count + 1, sizeof(*list));
    size_t count = 0;
    if (list == NULL)
        return RP_NO_MEMORY;
    for (size_t i = 0; i < trace->site_count; i++) {
        if (!only_unmatched || rp_site_is_unmatched(&trace->sites[i]))
            list[count++] = &trace->sites[i];
    }
    qsort(list, count, sizeof(*list), compare_sites);
    *list_out = list;
    *count_out = count;
    return RP_OK;
}

static void count_text(const struct rp_trace_site *site, char text[24])
{
    snprintf(text, 24, "-");
    if (site->count > 0)
        snprintf(text, 24, "%" PRIu64, site->count);
}

/* ---------------------------------------------------------------- tables */

struct cells {
    char count[24], module_rule[RULE_SHOWN], phase_rule[RULE_SHOWN], step_rule[RULE_SHOWN], where[WHERE_SHOWN + 4],
        text[TEXT_SHOWN];
};

struct widths {
    int count, module_rule, phase_rule, where;
    int step_rule; /* 0: no such column, because no site of the table has one */
};

static void rule_cell(const char *rule, char cell[RULE_SHOWN])
{
    rp_tool_safe(rule[0] != '\0' ? rule : "-", cell, RULE_SHOWN);
}

static void where_cell(const char *where, char cell[WHERE_SHOWN + 4])
{
    char safe[SAFE_MAX];
    size_t length = strlen(rp_tool_safe(where, safe, sizeof(safe)));
    bool cut = length > WHERE_SHOWN;
    const char *shown = cut ? safe + length - WHERE_SHOWN : length > 0 ? safe : "-";
    snprintf(cell, WHERE_SHOWN + 4, "%s%.*s", cut ? "..." : "", WHERE_SHOWN, shown);
}

static struct cells cells_of(const struct rp_trace_site *site)
{
    static char plain[4 * RP_SITE_TEXT_MAX];
    struct cells cells = {.count = ""};
    count_text(site, cells.count);
    rule_cell(site->module_rule, cells.module_rule);
    rule_cell(site->phase_rule, cells.phase_rule);
    rule_cell(site->step_rule, cells.step_rule);
    where_cell(site->where, cells.where);
    rp_tool_safe(rp_demangle(site->text, plain, sizeof(plain)), cells.text, sizeof(cells.text));
    return cells;
}

static int wider(int width, const char *text)
{
    int length = (int)strlen(text);
    return length > width ? length : width;
}

static void widen(struct widths *widths, const struct cells *cells)
{
    widths->count = wider(widths->count, cells->count);
    widths->module_rule = wider(widths->module_rule, cells->module_rule);
    widths->phase_rule = wider(widths->phase_rule, cells->phase_rule);
    widths->where = wider(widths->where, cells->where);
}

/* Kernels are nowhere. */
static void print_cells(FILE *out, const struct table *table, const struct widths *widths, const struct cells *cells)
{
    fprintf(out, "%*s  %-*s  %-*s  ", widths->count, cells->count, widths->module_rule, cells->module_rule,
            widths->phase_rule, cells->phase_rule);
    if (widths->step_rule > 0)
        fprintf(out, "%-*s  ", widths->step_rule, cells->step_rule);
    if (table->where[0] != '\0')
        fprintf(out, "%-*s  ", widths->where, cells->where);
    fprintf(out, "%s\n", cells->text);
}

static struct cells head_of(const struct table *table)
{
    struct cells head = {.module_rule = "module by", .phase_rule = "phase by", .step_rule = "step by", .text = "text"};
    snprintf(head.count, sizeof(head.count), "%s", table->count);
    snprintf(head.where, sizeof(head.where), "%s", table->where);
    return head;
}

static void print_table(FILE *out, const struct table *table, const struct rp_trace_site *const *list, size_t count)
{
    struct cells head = head_of(table);
    struct widths widths = {0};
    widen(&widths, &head);
    for (size_t i = 0; i < count; i++) {
        struct cells cells = cells_of(list[i]);
        widen(&widths, &cells);
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i]->step_rule[0] != '\0')
            widths.step_rule = wider(wider(widths.step_rule, head.step_rule), cells_of(list[i]).step_rule);
    }
    fprintf(out, "\n%s\n", table->title);
    print_cells(out, table, &widths, &head);
    for (size_t i = 0; i < count; i++) {
        struct cells cells = cells_of(list[i]);
        print_cells(out, table, &widths, &cells);
    }
}

enum rp_status rp_sites_view_print(FILE *out, const struct rp_trace *trace, bool only_unmatched)
{
    const struct rp_trace_site **list;
    size_t count;
    enum rp_status status = choose(trace, only_unmatched, &list, &count);
    if (status != RP_OK)
        return status;
    for (size_t from = 0, to = 0; from < count; from = to) {
        while (to < count && list[to]->source == list[from]->source)
            to++;
        print_table(out, &tables[table_of(list[from])], list + from, to - from);
    }
    free(list);
    return RP_OK;
}

/* ---------------------------------------------------------------- CSV */

static void csv_row(FILE *out, const struct rp_trace *trace, const struct rp_trace_site *site)
{
    static char plain[4 * RP_SITE_TEXT_MAX];
    fprintf(out, "%" PRId32 ",%s,", trace->identity.rank, source_names[site->source]);
    if (site->count > 0)
        fprintf(out, "%" PRIu64, site->count);
    const char *const texts[] = {site->text,       rp_demangle(site->text, plain, sizeof(plain)),
                                 site->where,      site->module_rule,
                                 site->phase_rule, site->step_rule};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        fputc(',', out);
        rp_tool_csv_text(out, texts[i]);
    }
    fputc('\n', out);
}

enum rp_status rp_sites_view_csv(FILE *out, const struct rp_trace *trace, bool only_unmatched)
{
    const struct rp_trace_site **list;
    size_t count;
    enum rp_status status = choose(trace, only_unmatched, &list, &count);
    if (status != RP_OK)
        return status;
    fputs("rank,source,count,text,demangled,where,module_rule,phase_rule,step_rule\n", out);
    for (size_t i = 0; i < count; i++)
        csv_row(out, trace, list[i]);
    free(list);
    return RP_OK;
}
