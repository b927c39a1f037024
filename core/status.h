/*
 * The one result type. Functions that can fail return `enum rp_status`; whoever discovers an error logs it
 * once, with its cause; callers pass it on. Out-parameters come last, end in `_out`, and are written on success only.
 */
#ifndef RP_STATUS_H
#define RP_STATUS_H

/* X(enumerator, text) */
#define RP_STATUSES(X)                     \
    X(OK, "ok")                            \
    X(NO_MEMORY, "out of memory")          \
    X(IO, "input or output failed")        \
    X(CORRUPT, "corrupt data")             \
    X(TRUNCATED, "truncated data")         \
    X(VERSION, "unknown version")          \
    X(INVALID, "invalid argument")         \
    X(EXISTS, "already exists")            \
    X(NOT_FOUND, "not found")              \
    X(FULL, "full")                        \
    X(DEAD, "the event is dead")           \
    X(DIVERGED, "diverged from the order") \
    X(UNSUPPORTED, "not supported here")

enum rp_status {
#define X(name, text) RP_##name,
    RP_STATUSES(X)
#undef X
};

/* Lower-case text of a status; never NULL, static storage. */
const char *rp_status_text(enum rp_status status);

#endif
