/*
 * A gather of ours that replay issued ahead of the application's call, and the call that it was served to: what the
 * shim notes where it does so, what a ring carries and what a trace stores.
 */
#ifndef RP_ISSUE_H
#define RP_ISSUE_H

#include <stdint.h>

/* What a rank sends in it. X(enumerator, name). New ones at the end: the number is what a file holds. */
#define RP_ISSUE_SOURCES(X)                                     \
    X(UNKNOWN, "?")                                             \
    X(SNAPSHOT, "snapshot") /* a copy of what it sent before */ \
    X(LIVE, "live")         /* what the application's send buffer has */

enum rp_issue_source {
#define X(name, text) RP_ISSUE_##name,
    RP_ISSUE_SOURCES(X)
#undef X
        RP_ISSUE_SOURCE_COUNT
};

struct rp_issue {
    uint32_t comm;     /* number of the communicator whose gather it is */
    uint32_t source;   /* enum rp_issue_source */
    uint64_t number;   /* among those of its communicator, from 1, alike on all ranks */
    uint64_t behind;   /* position of the call behind which it was issued */
    uint64_t position; /* where its call is expected; later by what comes between that the plan does not have */
    uint64_t begin;    /* ticks: the host issues it, and goes on */
    uint64_t end;
    uint64_t bytes; /* of one rank's part */
};

struct rp_issue_use { /* the gather `number` was served to the call at `position` */
    uint32_t comm;
    uint32_t unused; /* 0 */
    uint64_t number;
    uint64_t position;
};

_Static_assert(sizeof(struct rp_issue) == 56 && sizeof(struct rp_issue_use) == 24, "no padding");

const char *rp_issue_source_name(enum rp_issue_source source);

#endif
