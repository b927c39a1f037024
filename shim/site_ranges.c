/*
 * Open ranges and what the rules say of them.
 *
 * Each thread keeps the texts of the ranges that it has pushed: RANGES of them, the texts together in TEXT_BYTES. What
 * is beyond is counted and not kept, so that pops still pair. The ranges of all domains are on one stack; a pop takes
 * the innermost of its own domain. A push or pop allocates nothing and takes no lock.
 *
 * Started ranges may end in another thread and need not nest: STARTED of them are kept, in no thread's stack, under one
 * short lock, and are outside of whatever a thread has pushed. Those beyond are not kept.
 *
 * The rules are asked at the first collective under a range, and at its opening only where there are rules that begin
 * steps: a step begins when the range opens.
 *
 * Threads: any.
 */
#include "shim/site_ranges.h"

#include <string.h>

#include "shim/site_sources.h"

#define RANGES 32
#define TEXT_BYTES 4096
#define STARTED 32

/* What is known of an open range. */
struct known {
    bool asked;   /* `place` holds */
    bool stepped; /* its step was counted when it was opened */
    struct rp_site_place place;
};

struct range {
    const char *domain;
    uint16_t text; /* offset in texts; terminated */
    bool popped;   /* out of turn: a range inside it, of another domain, is open still */
    struct known known;
};

static _Thread_local struct {
    uint32_t depth;
    uint32_t beyond; /* open ranges that found no room; while there are some, no new one is kept */
    uint16_t used;   /* bytes of texts */
    struct range ranges[RANGES];
    char texts[TEXT_BYTES];
} mine;

struct started {
    uint64_t number; /* 0: the place is free */
    const char *domain;
    struct known known;
    char text[RP_RANGE_TEXT_BYTES];
};

static struct {
    pthread_mutex_t lock; /* over all but the count */
    struct started ranges[STARTED];
    uint64_t numbers;      /* given out so far */
    _Atomic unsigned open; /* relaxed: a thread that has not heard of a range yet is not in it */
} started = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---------------------------------------------------------------- asking */

/* True if a rule says that a step begins with this range, which is being opened. */
static bool begins_step(const char *domain, const char *text)
{
    struct rp_rule_match match;
    const struct rp_site_tables *tables = rp_site_tables();
    if (tables == NULL || !rp_rules_have_steps(tables->rules, RP_RULE_NVTX) ||
        !rp_rules_match(tables->rules, RP_RULE_NVTX, text, domain, &match) || match.step_rule == NULL)
        return false;
    rp_site_step();
    return true;
}

/* A range that was opened before the rules were there tells its step now. */
static void ask(const struct rp_site_query *query, struct known *known, const char *domain, const char *text)
{
    if (known->asked)
        return;
    known->place = rp_site_ask(query->tables, RP_RULE_NVTX, text, domain, true);
    known->asked = true;
    if (known->place.step && !known->stepped)
        rp_site_step();
    known->stepped = known->stepped || known->place.step;
}

/* ---------------------------------------------------------------- pushed ranges */

int rp_range_push(const char *domain, const char *text, size_t length)
{
    int level = (int)(mine.depth + mine.beyond);
    bool stepped = begins_step(domain, text);
    if (mine.beyond > 0 || mine.depth == RANGES || mine.used + length + 1 > TEXT_BYTES) {
        mine.beyond++;
        return level;
    }
    mine.ranges[mine.depth++] = (struct range){.domain = domain, .text = mine.used, .known.stepped = stepped};
    memcpy(mine.texts + mine.used, text, length + 1);
    mine.used = (uint16_t)(mine.used + length + 1);
    return level;
}

static void drop_popped(void)
{
    while (mine.depth > 0 && mine.ranges[mine.depth - 1].popped)
        mine.used = mine.ranges[--mine.depth].text;
}

int rp_range_pop(const char *domain)
{
    if (mine.beyond > 0) {
        mine.beyond--;
        return (int)(mine.depth + mine.beyond);
    }
    for (uint32_t i = mine.depth; i-- > 0;) {
        if (mine.ranges[i].popped || mine.ranges[i].domain != domain)
            continue;
        mine.ranges[i].popped = true;
        drop_popped();
        return (int)i;
    }
    return -1;
}

static void take_pushed(const struct rp_site_query *query, struct rp_site_finding *finding)
{
    for (uint32_t i = mine.depth; i-- > 0;) {
        struct range *range = &mine.ranges[i];
        if (range->popped)
            continue;
        ask(query, &range->known, range->domain, mine.texts + range->text);
        rp_site_take(query, finding, &range->known.place, range->known.place.module);
    }
}

/* ---------------------------------------------------------------- started ranges */

static struct started *find_started(uint64_t number)
{
    for (unsigned i = 0; i < STARTED; i++)
        if (started.ranges[i].number == number)
            return &started.ranges[i];
    return NULL;
}

uint64_t rp_range_start(const char *domain, const char *text, size_t length)
{
    bool stepped = begins_step(domain, text);
    pthread_mutex_lock(&started.lock);
    uint64_t number = ++started.numbers;
    struct started *range = find_started(0);
    if (range != NULL) {
        *range = (struct started){.number = number, .domain = domain, .known.stepped = stepped};
        memcpy(range->text, text, length + 1);
        atomic_fetch_add_explicit(&started.open, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&started.lock);
    return number;
}

void rp_range_end(uint64_t number)
{
    if (number == 0)
        return;
    pthread_mutex_lock(&started.lock);
    struct started *range = find_started(number);
    if (range != NULL) {
        range->number = 0;
        atomic_fetch_sub_explicit(&started.open, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&started.lock);
}

/* The range that was started last before number `before`; false if there is none. */
static bool copy_started(uint64_t before, struct started *range_out)
{
    const struct started *last = NULL;
    pthread_mutex_lock(&started.lock);
    for (unsigned i = 0; i < STARTED; i++) {
        const struct started *range = &started.ranges[i];
        if (range->number != 0 && range->number < before && (last == NULL || range->number > last->number))
            last = range;
    }
    if (last != NULL)
        *range_out = *last;
    pthread_mutex_unlock(&started.lock);
    return last != NULL;
}

static void keep_known(uint64_t number, const struct known *known)
{
    pthread_mutex_lock(&started.lock);
    struct started *range = find_started(number);
    if (range != NULL)
        range->known = *known;
    pthread_mutex_unlock(&started.lock);
}

static void take_started(const struct rp_site_query *query, struct rp_site_finding *finding)
{
    struct started range = {.number = UINT64_MAX};
    while (copy_started(range.number, &range)) {
        if (!range.known.asked) {
            ask(query, &range.known, range.domain, range.text);
            keep_known(range.number, &range.known);
        }
        rp_site_take(query, finding, &range.known.place, range.known.place.module);
    }
}

void rp_site_from_nvtx(const struct rp_site_query *query, struct rp_site_finding *finding)
{
    take_pushed(query, finding);
    if (atomic_load_explicit(&started.open, memory_order_relaxed) > 0)
        take_started(query, finding);
    rp_site_join(query, finding);
}

void rp_site_ranges_forked(void)
{
    if (pthread_mutex_trylock(&started.lock) == 0) {
        pthread_mutex_unlock(&started.lock);
        return;
    }
    pthread_mutex_init(&started.lock, NULL);
    memset(started.ranges, 0, sizeof(started.ranges));
    atomic_store_explicit(&started.open, 0, memory_order_relaxed);
}
