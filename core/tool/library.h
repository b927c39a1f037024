/* Where libreprise.so is: beside the command (build tree) or in ../lib/ (installed). */
#ifndef RP_TOOL_LIBRARY_H
#define RP_TOOL_LIBRARY_H

#include <limits.h>

#include "core/status.h"

/*
 * Absolute path of the library to load: `chosen`, or if that is NULL the one that belongs to the running command.
 * Errors are printed as errors of `command`, with the places where it was looked for. RP_NOT_FOUND, RP_IO;
 * RP_UNSUPPORTED: the path has a character that separates entries of LD_PRELOAD.
 */
enum rp_status rp_library_find(const char *command, const char *chosen, char path_out[PATH_MAX]);

/* The value of LD_PRELOAD with `library` first. The caller frees it; NULL: no memory. */
char *rp_library_preload(const char *library, const char *before);

#endif
