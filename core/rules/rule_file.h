/*
 * Reads annotation files (README.md) into a table of rules. What is malformed is complained of with its line and what
 * is expected; that rule is left out, and all others hold.
 *
 * Threads: none of its own.
 */
#ifndef RP_RULE_FILE_H
#define RP_RULE_FILE_H

#include "core/rules/rule.h"

#define RP_RULE_FILE_BYTES (1u << 20) /* of one file, at most */

/* One complaint: "FILE:LINE: what is wrong; expected what", or of a whole file "FILE: what is wrong". */
struct rp_rule_complaints {
    void (*say)(void *context, const char *text);
    void *context;
};

/* Rules of `length` bytes of `text`. `file`: its name, for people. RP_NO_MEMORY: some of them may have been added. */
enum rp_status rp_rules_read(struct rp_rules *rules, const char *file, bool shipped, const char *text, size_t length,
                             const struct rp_rule_complaints *complaints);

/* The same of a file of the user's. RP_IO: it cannot be read, and was complained of. */
enum rp_status rp_rules_read_file(struct rp_rules *rules, const char *path,
                                  const struct rp_rule_complaints *complaints);

/* The files of config/annotations, which are part of the library. */
struct rp_rules_text {
    const char *file, *text;
};
extern const struct rp_rules_text rp_rules_shipped[]; /* ends with NULLs */

/* All of them, in the order of their names. */
enum rp_status rp_rules_read_shipped(struct rp_rules *rules, const struct rp_rule_complaints *complaints);

#endif
