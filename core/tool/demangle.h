/* Names of C++ functions as their source spells them. */
#ifndef RP_TOOL_DEMANGLE_H
#define RP_TOOL_DEMANGLE_H

#include <stddef.h>

/* What `name` stands for, or `name` itself if it is no mangled one; cut to `size` (terminated). Returns `text`. */
char *rp_demangle(const char *name, char *text, size_t size);

#endif
