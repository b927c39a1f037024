/*
 * Reads the REPRISE_* variables. An empty value counts as unset. Nothing a user can put into the environment stops
 * the run: what cannot be read is named once and the default holds.
 *
 * Threads: called by the one that starts the library, and by the command line.
 */
#include "config/options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX "REPRISE_"
#define SHOWN_MAX 60 /* bytes of the user's text that a message repeats */

/* ---------------------------------------------------------------- one reader per type */

static const char *const mode_names[] = {
#define X(name, text) text,
    RP_MODES(X)
#undef X
};

/* Each returns false, and leaves its result alone, if `value` is malformed. */
static bool read_mode(const char *value, enum rp_mode *mode)
{
    for (size_t i = 0; i < sizeof(mode_names) / sizeof(mode_names[0]); i++) {
        if (strcasecmp(value, mode_names[i]) == 0) {
            *mode = (enum rp_mode)i;
            return true;
        }
    }
    return false;
}

enum rp_mode rp_options_mode(const char *value)
{
    enum rp_mode mode = RP_MODE_OFF;
    if (value != NULL)
        read_mode(value, &mode);
    return mode;
}

static bool read_path(const char *value, const char **path)
{
    if (strlen(value) >= PATH_MAX)
        return false;
    char *copy = strdup(value);
    if (copy == NULL)
        return false;
    *path = copy;
    return true;
}

static bool read_log_level(const char *name, size_t length, enum rp_log_level *level)
{
    for (int i = 0; i < RP_LOG_LEVEL_COUNT; i++) {
        const char *known = rp_log_level_name((enum rp_log_level)i);
        if (strlen(known) == length && strncasecmp(name, known, length) == 0) {
            *level = (enum rp_log_level)i;
            return true;
        }
    }
    return false;
}

/* LEVEL[:FILE] */
static bool read_log(const char *value, enum rp_log_level *level, const char **pattern)
{
    size_t length = strcspn(value, ":");
    enum rp_log_level read;
    if (!read_log_level(value, length, &read))
        return false;
    const char *file = NULL;
    if (value[length] == ':' && value[length + 1] != '\0' && !read_path(value + length + 1, &file))
        return false;
    *level = read;
    *pattern = file;
    return true;
}

/* How a row's field is filled from `value`, and what it is before. A path's default is text for people, not a value. */
#define READ_MODE(field) read_mode(value, &options->field)
#define READ_PATH(field) read_path(value, &options->field)
#define READ_LOG(field) read_log(value, &options->field##_level, &options->field##_pattern)
#define RESET_MODE(field, text) read_mode(text, &options->field)
#define RESET_PATH(field, text) (options->field = NULL)
#define RESET_LOG(field, text) read_log(text, &options->field##_level, &options->field##_pattern)

/* ---------------------------------------------------------------- the rows */

struct row {
    const char *name; /* without the prefix */
    const char *default_value;
    const char *values;
    const char *help;
    bool (*read)(const char *value, struct rp_options *options);
};

#define OPTION(name, field, type, default_value, values, help)                    \
    static bool read_field_##field(const char *value, struct rp_options *options) \
    {                                                                             \
        return READ_##type(field);                                                \
    }
#include "config/options.def"
#undef OPTION

static const struct row rows[] = {
#define OPTION(name, field, type, default_value, values, help) {#name, default_value, values, help, read_field_##field},
#include "config/options.def"
#undef OPTION
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static void set_defaults(struct rp_options *options)
{
#define OPTION(name, field, type, default_value, values, help) (void)RESET_##type(field, default_value);
#include "config/options.def"
#undef OPTION
}

/* ---------------------------------------------------------------- messages */

/* At most SHOWN_MAX bytes of `text`, unprintable ones as \xNN, "..." if cut. `shown` holds SHOWN_SIZE bytes. */
#define SHOWN_SIZE (4 * SHOWN_MAX + 4)
static const char *show(const char *text, size_t length, char *shown)
{
    char *out = shown;
    size_t kept = length < SHOWN_MAX ? length : SHOWN_MAX;
    for (size_t i = 0; i < kept; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte >= 0x20 && byte < 0x7f)
            *out++ = (char)byte;
        else
            out += sprintf(out, "\\x%02x", byte);
    }
    strcpy(out, kept < length ? "..." : "");
    return shown;
}

/* Levenshtein distance; only the first SHOWN_MAX bytes of `a` count. `b` is a name of ours: shorter than SHOWN_MAX. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b)
{
    unsigned row[SHOWN_MAX + 1];
    size_t b_length = strlen(b);
    if (a_length > SHOWN_MAX)
        a_length = SHOWN_MAX;
    for (unsigned j = 0; j <= b_length; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a_length; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b_length; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            unsigned insert = row[j - 1] + 1, remove = row[j] + 1;
            unsigned least = insert < remove ? insert : remove;
            row[j] = change < least ? change : least;
        }
    }
    return row[b_length];
}

static const char *nearest_name(const char *name, size_t length)
{
    size_t best = 0;
    unsigned best_distance = UINT_MAX;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        unsigned distance = edit_distance(name, length, rows[i].name);
        if (distance < best_distance) {
            best_distance = distance;
            best = i;
        }
    }
    return rows[best].name;
}

static void report_unknown(const char *name, size_t length)
{
    char shown[SHOWN_SIZE];
    rp_log_job(RP_LOG_WARN, "options", PREFIX "%s is unknown; did you mean " PREFIX "%s?", show(name, length, shown),
               nearest_name(name, length));
}

static void report_malformed(const struct row *row, const char *value)
{
    char shown[SHOWN_SIZE];
    rp_log_job(RP_LOG_WARN, "options", PREFIX "%s is \"%s\", expected: %s; using %s", row->name,
               show(value, strlen(value), shown), row->values, row->default_value);
}

/* ---------------------------------------------------------------- reading */

/* Value of a variable in the environment, the first as getenv takes it; NULL if unset or empty. */
static const char *find_value(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    for (; *environment != NULL; environment++) {
        const char *entry = *environment;
        if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0)
            continue;
        entry += strlen(PREFIX);
        if (strncmp(entry, name, length) == 0 && entry[length] == '=')
            return entry[length + 1] != '\0' ? entry + length + 1 : NULL;
    }
    return NULL;
}

static bool is_known(const char *name, size_t length)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
            return true;
    }
    return false;
}

static void check_names(char *const *environment)
{
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0)
            continue;
        const char *name = *environment + strlen(PREFIX);
        size_t length = strcspn(name, "=");
        bool has_value = name[length] == '=' && name[length + 1] != '\0';
        if (has_value && !is_known(name, length))
            report_unknown(name, length);
    }
}

void rp_options_read(char *const *environment, struct rp_options *options)
{
    set_defaults(options);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const char *value = find_value(environment, rows[i].name);
        if (value != NULL && !rows[i].read(value, options))
            report_malformed(&rows[i], value);
    }
    check_names(environment);
}

/* ---------------------------------------------------------------- printing */

static void print_text(FILE *out)
{
    size_t width = 0;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        size_t length = strlen(rows[i].name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        int indent = (int)(width + strlen(PREFIX));
        fprintf(out, "  " PREFIX "%-*s  %s\n", (int)width, rows[i].name, rows[i].help);
        fprintf(out, "  %*s  values: %s; default: %s\n", indent, "", rows[i].values, rows[i].default_value);
    }
}

static void print_markdown(FILE *out)
{
    fprintf(out, "| variable | values | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < ROW_COUNT; i++)
        fprintf(out, "| `" PREFIX "%s` | %s | `%s` | %s |\n", rows[i].name, rows[i].values, rows[i].default_value,
                rows[i].help);
}

void rp_options_print(FILE *out, bool markdown)
{
    if (markdown)
        print_markdown(out);
    else
        print_text(out);
}
