/*
 * Checks the path by which a python rule says its module: README.md has the grammar, shim/site_python_path.c reads it.
 *
 * Threads: pure.
 */
#ifndef RP_PATH_H
#define RP_PATH_H

#include <stdbool.h>

#define RP_PATH_NAME_BYTES 64 /* of a local or an attribute, with its end */
#define RP_PATH_NESTED 4      /* paths inside one another: a[b[c[d]]] */
#define RP_PATH_ALL_ITEMS "[*]"
/* Of a local or an attribute; a digit not first. */
#define RP_PATH_NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* True if `text` follows the grammar. */
bool rp_path_good(const char *text);

#endif
