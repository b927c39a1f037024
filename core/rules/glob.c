/*
 * Matching with captures. Every wildcard takes as little as it can and is lengthened until the rest matches.
 *
 * Once a second wildcard has tried all that is behind it in vain, lengthening the first one cannot help: it only leaves
 * the second less to try. So each wildcard is gone through once. {phase} keeps that true: at one place at most one
 * phase's name stands, and no name of a phase is inside another's, so a match that begins later ends later.
 */
#include "core/rules/glob.h"

#include <string.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define PHASE "{phase}"

enum verdict { NO, NO_MATTER_WHAT, YES };

static enum verdict match(const char *pattern, const char *text, struct rp_captures *captures);

size_t rp_capture_name_length(const char *text)
{
    return strspn(text, NAME_CHARACTERS);
}

/* Behind the set that begins at `set`, or NULL if it has no end. */
static const char *behind_set(const char *set)
{
    set++;
    set += *set == '!' || *set == '^';
    set += *set == ']';
    set = strchr(set, ']');
    return set != NULL ? set + 1 : NULL;
}

static bool in_set(const char *set, unsigned char byte)
{
    const char *end = behind_set(set) - 1;
    bool found = false, other = set[1] == '!' || set[1] == '^';
    for (const char *at = set + (other ? 2 : 1); at < end; at++) {
        const char *last = at + 2 < end && at[1] == '-' ? at + 2 : at;
        found = found || (byte >= (unsigned char)*at && byte <= (unsigned char)*last);
        at = last;
    }
    return found != other;
}

/* Behind the wildcard or capture at `pattern`. */
static const char *behind_wildcard(const char *pattern)
{
    return *pattern == '*' ? pattern + 1 : strchr(pattern, '}') + 1;
}

static void keep(struct rp_captures *captures, const char *pattern, const char *text, size_t length)
{
    if (*pattern != '{' || captures->count == RP_CAPTURES)
        return;
    captures->items[captures->count++] = (struct rp_capture){
        .name = pattern + 1, .name_length = rp_capture_name_length(pattern + 1), .text = text, .length = length};
}

static enum verdict match_wildcard(const char *pattern, const char *text, struct rp_captures *captures)
{
    const char *rest = behind_wildcard(pattern);
    size_t most = strlen(text);
    for (size_t length = *pattern == '{'; length <= most; length++) {
        enum verdict verdict = match(rest, text + length, captures);
        if (verdict == NO)
            continue;
        if (verdict == YES)
            keep(captures, pattern, text, length);
        return verdict;
    }
    return NO_MATTER_WHAT;
}

static enum verdict match_phase(const char *pattern, const char *text, struct rp_captures *captures)
{
    for (int phase = RP_PHASE_UNKNOWN + 1; phase < RP_PHASE_COUNT; phase++) {
        const char *name = rp_phase_name((enum rp_phase)phase);
        size_t length = strlen(name);
        if (strncmp(text, name, length) != 0)
            continue;
        enum verdict verdict = match(pattern + strlen(PHASE), text + length, captures);
        if (verdict == YES)
            keep(captures, pattern, text, length);
        return verdict;
    }
    return NO;
}

/* Behind what stands for one byte at `pattern`, if `byte` is that; else NULL. */
static const char *match_byte(const char *pattern, char byte)
{
    if (byte == '\0')
        return NULL;
    if (*pattern == '[')
        return in_set(pattern, (unsigned char)byte) ? behind_set(pattern) : NULL;
    return *pattern == '?' || *pattern == byte ? pattern + 1 : NULL;
}

static enum verdict match(const char *pattern, const char *text, struct rp_captures *captures)
{
    for (; *pattern != '\0'; text++) {
        if (strncmp(pattern, PHASE, strlen(PHASE)) == 0)
            return match_phase(pattern, text, captures);
        if (*pattern == '*' || *pattern == '{')
            return match_wildcard(pattern, text, captures);
        pattern = match_byte(pattern, *text);
        if (pattern == NULL)
            return NO;
    }
    return *text == '\0' ? YES : NO;
}

bool rp_glob_match(const char *pattern, const char *text, struct rp_captures *captures_out)
{
    struct rp_captures captures = {0};
    if (match(pattern, text, &captures) != YES)
        return false;
    *captures_out = captures;
    return true;
}

/* The next capture at or behind `pattern`, or NULL. */
static const char *next_capture(const char *pattern)
{
    while (*pattern != '\0' && *pattern != '{')
        pattern = *pattern == '[' ? behind_set(pattern) : pattern + 1;
    return *pattern == '{' ? pattern : NULL;
}

bool rp_glob_has_capture(const char *pattern, const char *name, size_t length)
{
    for (pattern = next_capture(pattern); pattern != NULL; pattern = next_capture(pattern + 1)) {
        if (rp_capture_name_length(pattern + 1) == length && strncmp(pattern + 1, name, length) == 0)
            return true;
    }
    return false;
}

const struct rp_capture *rp_capture_find(const struct rp_captures *captures, const char *name, size_t length)
{
    for (size_t i = 0; i < captures->count; i++) {
        const struct rp_capture *capture = &captures->items[i];
        if (capture->name_length == length && memcmp(capture->name, name, length) == 0)
            return capture;
    }
    return NULL;
}

static const char *capture_fault(const char *pattern, unsigned *captures)
{
    size_t length = rp_capture_name_length(pattern + 1);
    if (strchr(pattern, '}') == NULL)
        return "a \"{\" without its \"}\"";
    if (length == 0 || pattern[1 + length] != '}')
        return "braces that hold no name of letters, digits and _";
    if (++*captures > RP_CAPTURES)
        return "more than 8 captures";
    return NULL;
}

static bool has_twins(const char *pattern)
{
    for (pattern = next_capture(pattern); pattern != NULL; pattern = next_capture(pattern + 1)) {
        const char *next = next_capture(pattern + 1);
        if (next != NULL && rp_glob_has_capture(next, pattern + 1, rp_capture_name_length(pattern + 1)))
            return true;
    }
    return false;
}

const char *rp_glob_fault(const char *pattern)
{
    unsigned captures = 0;
    const char *fault = NULL;
    for (const char *at = pattern; *at != '\0' && fault == NULL;) {
        const char *behind = *at == '[' ? behind_set(at) : at + 1;
        if (behind == NULL)
            return "a \"[\" without its \"]\"";
        if (*at == '{')
            fault = capture_fault(at, &captures);
        at = behind;
    }
    if (fault == NULL && has_twins(pattern))
        fault = "two captures of one name";
    return fault;
}
