/*
 * Checks the path by which a python rule says its module; shim/site_python_path.c reads it. Values that a program has
 * stored are read and none of its code is run.
 *
 *   module := name { " | " name }                  the first name that there is
 *   name   := path                                 of a str
 *           | path " - " path                      of a str, without the second at its end, if it ends in it
 *           | path " // " path                     of a module: where the second is beneath the first, by `_modules`
 *   path   := local { part }                       a local variable of the frame, then
 *   part   := "." attribute                        from the object's own dictionary: no property, no class attribute
 *           | "[" number "]"                       of a tuple or list
 *           | "[" path "]"                         of a dictionary, by identity; of a tuple or list, by an int
 *           | "[" path "[*]]"                      of a dictionary of names: what those of all items of a tuple or list
 *                                                  have in common, each without what is behind its last dot
 *
 * Threads: pure.
 */
#ifndef RP_PATH_H
#define RP_PATH_H

#include <stdbool.h>

#define RP_PATH_NAME_BYTES 64 /* of a local or an attribute, with its end */
#define RP_PATH_NESTED 4      /* paths inside one another: a[b[c[d]]] */
#define RP_PATH_ALL_ITEMS "[*]"

/* True if `text` follows the grammar. */
bool rp_path_good(const char *text);

#endif
