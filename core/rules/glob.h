/*
 * Patterns of rules: a glob with captures.
 *
 *   *        any text, also none        ?   one byte        [a-z] [!a-z]   one byte (not) of a set; "]" may come first
 *   {name}   at least one byte, kept under that name; as few as the rest of the pattern allows
 *   {phase}  the name of a phase (event.h), and nothing else
 *
 * All else stands for itself; bytes are compared, no locale. The whole text must match. Takes at most as many steps as
 * pattern and text have bytes, multiplied.
 *
 * Threads: pure functions.
 */
#ifndef RP_GLOB_H
#define RP_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "core/event.h"

#define RP_CAPTURES 8 /* of one pattern */

struct rp_capture {
    const char *name; /* inside the pattern */
    size_t name_length;
    const char *text; /* inside the text that matched */
    size_t length;
};

struct rp_captures {
    size_t count;
    struct rp_capture items[RP_CAPTURES];
};

/* What is wrong with `pattern`, as text for people; NULL: nothing. */
const char *rp_glob_fault(const char *pattern);

/* For a pattern without a fault. False: `captures_out` is untouched. */
bool rp_glob_match(const char *pattern, const char *text, struct rp_captures *captures_out);

/* Whether a pattern without a fault has {name}; `length` bytes of `name`. */
bool rp_glob_has_capture(const char *pattern, const char *name, size_t length);

/* The capture of that name, or NULL. */
const struct rp_capture *rp_capture_find(const struct rp_captures *captures, const char *name, size_t length);

/* The bytes of a capture's name at `text`. */
size_t rp_capture_name_length(const char *text);

#endif
