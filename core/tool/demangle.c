/*
 * The demangler of the C++ run-time library, linked statically into the command alone: libreprise.so must bring no such
 * library into the programs that it is loaded into.
 */
#include "core/tool/demangle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The Itanium C++ ABI's, declared in <cxxabi.h>, which C cannot include. NULL: no mangled name. The caller frees it. */
char *__cxa_demangle(const char *mangled_name, char *output_buffer, size_t *length, int *status);

char *rp_demangle(const char *name, char *text, size_t size)
{
    int status = 0;
    /* it takes types too: "i" would be "int" */
    char *plain = strncmp(name, "_Z", 2) == 0 ? __cxa_demangle(name, NULL, NULL, &status) : NULL;
    snprintf(text, size, "%s", plain != NULL ? plain : name);
    free(plain);
    return text;
}
