#include "core/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

char *rp_tool_safe(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text != '\0' && used + 5 <= size; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f)
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", byte);
        else
            out[used++] = (char)byte;
    }
    out[used] = '\0';
    return out;
}
