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

/* Each returns false, and leaves its result alone, if `value` is malformed. */

static bool read_name(const char *value, const char *const *names, size_t count, size_t *index)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(value, names[i]) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

#define COUNT(names) (sizeof(names) / sizeof((names)[0]))

#define X(name, text) text,
static const char *const mode_names[] = {RP_MODES(X)};
static const char *const fingerprint_names[] = {RP_FINGERPRINTINGS(X)};
static const char *const detail_names[] = {RP_DETAILS(X)};
static const char *const verify_names[] = {RP_VERIFIES(X)};
#undef X

/* read_TYPE(): the enumerator whose name `value` is. */
#define NAME_READER(type, names)                                     \
    static bool read_##type(const char *value, enum rp_##type *read) \
    {                                                                \
        size_t index;                                                \
        bool known = read_name(value, names, COUNT(names), &index);  \
        if (known)                                                   \
            *read = (enum rp_##type)index;                           \
        return known;                                                \
    }
NAME_READER(mode, mode_names)
NAME_READER(fingerprinting, fingerprint_names)
NAME_READER(detail, detail_names)
NAME_READER(verify, verify_names)
#undef NAME_READER

enum rp_mode rp_options_mode(const char *value)
{
    enum rp_mode mode = RP_MODE_OFF;
    if (value != NULL)
        read_mode(value, &mode);
    return mode;
}

bool rp_options_is_mode(const char *value)
{
    enum rp_mode mode;
    return value == NULL || value[0] == '\0' || read_mode(value, &mode);
}

const char *rp_options_mode_name(enum rp_mode mode)
{
    return mode_names[mode];
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

/* Each of a comma-separated list is a path. */
static bool read_files(const char *value, const char **files)
{
    for (const char *at = value;; at++) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= PATH_MAX)
            return false;
        at += length;
        if (*at == '\0')
            break;
    }
    char *copy = strdup(value);
    if (copy == NULL)
        return false;
    *files = copy;
    return true;
}

/* A number without sign or point at `*text`, which is moved behind it. */
static bool read_digits(const char **text, uint64_t *number)
{
    const char *digit = *text;
    uint64_t read = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (__builtin_mul_overflow(read, 10u, &read) || __builtin_add_overflow(read, (uint64_t)(*digit - '0'), &read))
            return false;
    }
    bool any = digit != *text;
    *text = digit;
    *number = read;
    return any;
}

/* auto (0), or bytes above 0; K, M, G are powers of 1024 */
static bool read_size(const char *value, uint64_t *bytes)
{
    static const char *const suffixes[] = {"", "K", "M", "G"};
    uint64_t read;
    size_t power;
    if (strcasecmp(value, "auto") == 0) {
        *bytes = 0;
        return true;
    }
    if (!read_digits(&value, &read) || !read_name(value, suffixes, COUNT(suffixes), &power))
        return false;
    if (read == 0 || read > UINT64_MAX >> (10 * power))
        return false;
    *bytes = read << (10 * power);
    return true;
}

/* What stands behind a decimal point, in units of which `unit` make one; digits below the unit do not count. */
static bool read_fraction(const char **text, uint64_t unit, uint64_t *part)
{
    const char *digit = *text;
    uint64_t read = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        unit /= 10;
        read += unit * (uint64_t)(*digit - '0');
    }
    bool any = digit != *text;
    *text = digit;
    *part = read;
    return any;
}

/* A decimal number and ms or s. Not by strtod(): its decimal point is the program's locale's. */
static bool read_duration(const char *value, uint64_t *ns)
{
    static const char *const units[] = {"ms", "s"};
    static const uint64_t unit_ns[] = {1000000u, 1000000000u};
    const char *unit_text = value + strspn(value, "0123456789.");
    uint64_t whole, part = 0;
    size_t unit;
    if (!read_name(unit_text, units, COUNT(units), &unit) || !read_digits(&value, &whole))
        return false;
    if (*value == '.') {
        value++;
        if (!read_fraction(&value, unit_ns[unit], &part))
            return false;
    }
    if (value != unit_text || whole > RP_DURATION_MOST_NS / unit_ns[unit])
        return false;
    uint64_t read = whole * unit_ns[unit] + part;
    if (read < RP_DURATION_LEAST_NS || read > RP_DURATION_MOST_NS)
        return false;
    *ns = read;
    return true;
}

static bool read_switch(const char *value, bool *on)
{
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return false;
    *on = value[0] == '1';
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
#define READ_FINGERPRINT(field) read_fingerprinting(value, &options->field)
#define READ_DETAIL(field) read_detail(value, &options->field)
#define READ_VERIFY(field) read_verify(value, &options->field)
#define READ_SIZE(field) read_size(value, &options->field)
#define READ_DURATION(field) read_duration(value, &options->field##_ns)
#define READ_SWITCH(field) read_switch(value, &options->field)
#define READ_PATH(field) read_path(value, &options->field)
#define READ_FILES(field) read_files(value, &options->field)
#define READ_LOG(field) read_log(value, &options->field##_level, &options->field##_pattern)
#define RESET_MODE(field, text) read_mode(text, &options->field)
#define RESET_FINGERPRINT(field, text) read_fingerprinting(text, &options->field)
#define RESET_DETAIL(field, text) read_detail(text, &options->field)
#define RESET_VERIFY(field, text) read_verify(text, &options->field)
#define RESET_SIZE(field, text) read_size(text, &options->field)
#define RESET_DURATION(field, text) read_duration(text, &options->field##_ns)
#define RESET_SWITCH(field, text) read_switch(text, &options->field)
#define RESET_PATH(field, text) (options->field = NULL)
#define RESET_FILES(field, text) (options->field = NULL)
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
#define ROW_COUNT COUNT(rows)

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
