/*
 * The demangler of the C++ run-time library, linked statically into the command alone: libreprise.so must bring no such
 * library into the programs that it is loaded into.
 */
#include "core/tool/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * The run-time library's own, declared in its <bits/...> for C++ alone: says the name in pieces and allocates nothing.
 * A name of some hundred bytes can stand for one that is longer than any memory, so it is left when there is enough.
 */
int __gcclibcxx_demangle_callback(const char *mangled, void (*say)(const char *, size_t, void *), void *context);

struct plain {
    char *text;
    size_t size, length;
    jmp_buf full;
};

static void append(const char *piece, size_t length, void *context)
{
    struct plain *plain = context;
    size_t room = plain->size - 1 - plain->length, taken = length < room ? length : room;
    memcpy(plain->text + plain->length, piece, taken);
    plain->length += taken;
    if (taken < length)
        longjmp(plain->full, 1);
}

/* `plain` is the caller's: what changes after setjmp() may not be this function's own. */
static bool demangle(const char *name, struct plain *plain)
{
    bool good = setjmp(plain->full) != 0 || __gcclibcxx_demangle_callback(name, append, plain) == 0;
    plain->text[plain->length] = '\0';
    return good;
}

char *rp_demangle(const char *name, char *text, size_t size)
{
    struct plain plain = {.text = text, .size = size};
    /* it takes types too: "i" would be "int" */
    if (strncmp(name, "_Z", 2) != 0 || !demangle(name, &plain))
        snprintf(text, size, "%s", name);
    return text;
}
