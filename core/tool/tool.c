#include "core/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rp_tool_error(const char *command, const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "reprise %s: ", command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

int rp_tool_failed(const char *command, enum rp_status status)
{
    rp_tool_error(command, "%s", rp_status_text(status));
    return RP_EXIT_ERROR;
}

void rp_tool_parse(const struct argp *argp, const char *command, unsigned flags, int argc, char **argv, void *input)
{
    char name[64];
    snprintf(name, sizeof(name), "reprise %s", command);
    argv[0] = name;
    argp_err_exit_status = RP_EXIT_ERROR;
    if (argp_parse(argp, argc, argv, flags, NULL, input) != 0)
        exit(RP_EXIT_ERROR);
    argv[0] = NULL;
}

int32_t rp_tool_number(struct argp_state *state, const char *option, const char *text, int32_t least)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < least || number > INT32_MAX)
        argp_error(state, "%s wants a number from %" PRId32 ", not '%s'", option, least, text);
    return (int32_t)number;
}

error_t rp_tool_take_path(int key, char *argument, struct argp_state *state, const char *what, const char **path)
{
    switch (key) {
    case ARGP_KEY_ARG:
        if (*path != NULL)
            argp_error(state, "takes one %s", what);
        *path = argument;
        return 0;
    case ARGP_KEY_END:
        if (*path == NULL)
            argp_error(state, "no %s given", what);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void rp_tool_append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

const struct rp_trace *rp_tool_find_rank(const char *command, const char *path, const struct rp_trace_run *run,
                                         int32_t rank)
{
    for (size_t i = 0; i < run->count; i++) {
        if (rank == RP_RANK_FIRST || run->ranks[i]->identity.rank == rank)
            return run->ranks[i];
    }
    for (size_t i = 0; i < run->unread_count; i++) {
        if (run->unread[i].rank == rank) {
            rp_tool_error(command, "%s: the trace of rank %" PRId32 " cannot be read", path, rank);
            return NULL;
        }
    }
    rp_tool_error(command, "%s: has no rank %" PRId32, path, rank);
    return NULL;
}

/* Control characters, also those of C1 and those that turn the direction of writing round. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0x200e || code == 0x200f;
}

size_t rp_tool_printable(const char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: less would be a longer way to say it */
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80)
        return !is_control(first);
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t code = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    bool exists = first >= 0xc0 && code >= least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return exists && !is_control(code) ? length : 0;
}

char *rp_tool_safe(const char *text, char *out, size_t size)
{
    size_t used = 0;
    while (*text != '\0' && used + 5 <= size) {
        size_t length = rp_tool_printable(text);
        if (length == 0) {
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", (unsigned char)*text++);
            continue;
        }
        memcpy(out + used, text, length);
        used += length;
        text += length;
    }
    out[used] = '\0';
    return out;
}

void rp_tool_csv_text(FILE *out, const char *text)
{
    char safe[4 * RP_MODULE_NAME_MAX + 5]; /* also a CSV is looked at in a terminal */
    rp_tool_safe(text, safe, sizeof(safe));
    if (strpbrk(safe, ",\"") == NULL) {
        fputs(safe, out);
        return;
    }
    fputc('"', out);
    for (const char *c = safe; *c != '\0'; c++) {
        if (*c == '"')
            fputc('"', out);
        fputc(*c, out);
    }
    fputc('"', out);
}
