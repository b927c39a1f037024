/*
 * What a lane's last calls were, and what its gathers sent. learn.h has the job and the threads.
 *
 * The table, in memory that all ranks share:
 *
 *     first[rank]                where each rank's learning begins
 *     id                         128 bytes, what all need to join the child communicator; rank 0 writes it
 *     gap[place]                 ns of compute before a gather, 4 bytes each; rank 0 writes them
 *     entry[rank][place][3]      place = position modulo rp_learn_positions(); a rank writes its own row
 *
 * Memory orders. A rank publishes (release, agree.h) every position below p and only then writes the entry of p, and
 * publishes p + 1 or more behind that. So
 *   - who has read `published` above p (acquire) sees the entry of p, and the writer's `first`;
 *   - an entry is stored with release and loaded with acquire: who read the entry of a later position in the same
 *     place also sees that its writer had published up to that position. A reader therefore looks at the largest
 *     `published` after it has read: if that has not reached from + positions, nothing it read was overwritten.
 * Id and gaps are stored before the release of their proposal and loaded behind the acquire of it (agree.h), so
 * relaxed.
 */
#include "core/replay/learn.h"

#include <stdlib.h>
#include <string.h>

#include "core/steps/fresh.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define POSITIONS_MOST ((size_t)16384)
#define ENTRIES_MOST (((size_t)6 << 20) / sizeof(struct entry))
#define LINE 64u
#define ID_WORDS (sizeof(struct rp_replay_id) / sizeof(uint64_t)) /* whole lines */

struct entry {
    _Atomic uint64_t word[3]; /* the fingerprint, salted; where it was sent from */
};

struct seen {
    uint64_t signature, bytes, send;
    uint8_t kind;
    bool packable;
};

struct rp_learn {
    _Atomic uint64_t *firsts; /* NULL: no table */
    _Atomic uint64_t *id;     /* ID_WORDS */
    _Atomic uint32_t *gaps;
    struct entry *entries;
    uint32_t nranks, rank;
    size_t positions;
    uint64_t first, next; /* [first, next) was seen; equal: nothing yet */
    uint64_t due;         /* the content of every gather below is known; at `next`, or at a gather */
    struct rp_freshness *contents;
    uint64_t gathers, repeats;
    struct seen ring[]; /* by position modulo `positions` */
};

static size_t firsts_bytes(uint32_t nranks)
{
    return (nranks * sizeof(_Atomic uint64_t) + LINE - 1) / LINE * LINE;
}

static size_t gaps_bytes(size_t positions)
{
    return positions * sizeof(_Atomic uint32_t); /* whole lines */
}

size_t rp_learn_positions(uint32_t nranks)
{
    size_t positions = POSITIONS_MOST;

    if (nranks == 0 || nranks > RP_AGREE_RANKS)
        return 0;
    while (positions * nranks > ENTRIES_MOST)
        positions /= 2;
    return positions;
}

size_t rp_learn_bytes(uint32_t nranks)
{
    size_t positions = rp_learn_positions(nranks);
    if (positions == 0)
        return 0;
    return firsts_bytes(nranks) + sizeof(struct rp_replay_id) + gaps_bytes(positions) +
           nranks * positions * sizeof(struct entry);
}

enum rp_status rp_learn_create(void *table, uint32_t nranks, uint32_t rank, struct rp_learn **learn_out)
{
    size_t positions = rp_learn_positions(nranks);
    struct rp_learn *learn;

    if (positions == 0)
        return RP_UNSUPPORTED;
    if (rank >= nranks)
        return RP_INVALID;
    learn = calloc(1, sizeof(*learn) + positions * sizeof(learn->ring[0]));
    if (learn == NULL)
        return RP_NO_MEMORY;
    if (rp_freshness_create(positions, &learn->contents) != RP_OK) {
        free(learn);
        return RP_NO_MEMORY;
    }
    if (table != NULL) {
        learn->firsts = table;
        learn->id = (_Atomic uint64_t *)((char *)table + firsts_bytes(nranks));
        learn->gaps = (_Atomic uint32_t *)(learn->id + ID_WORDS);
        learn->entries = (struct entry *)((char *)learn->gaps + gaps_bytes(positions));
    }
    learn->nranks = nranks;
    learn->rank = rank;
    learn->positions = positions;
    *learn_out = learn;
    return RP_OK;
}

void rp_learn_destroy(struct rp_learn *learn)
{
    if (learn == NULL)
        return;
    rp_freshness_destroy(learn->contents);
    free(learn);
}

/* Contents from before stay known: what repeats one of them does repeat. */
void rp_learn_restart(struct rp_learn *learn)
{
    learn->first = learn->next = learn->due = 0;
    learn->gathers = learn->repeats = 0;
}

/* ---------------------------------------------------------------- own ops */

static struct seen *seen_at(const struct rp_learn *learn, uint64_t position)
{
    return (struct seen *)&learn->ring[position & (learn->positions - 1)];
}

static bool was_fresh(struct rp_learn *learn, const struct seen *seen, const uint64_t value[2])
{
    struct rp_op op = {.kind = seen->kind, .dtype = RP_DTYPE_UINT8, .count = seen->bytes};
    return rp_freshness_see(learn->contents, &op, value);
}

/* To the next gather: what is between has no content. */
static void move_due(struct rp_learn *learn)
{
    for (; learn->due < learn->next; learn->due++) {
        const struct seen *seen = seen_at(learn, learn->due);
        if (seen->kind == RP_OP_ALL_GATHER)
            return;
        was_fresh(learn, seen, NULL);
    }
}

static void begin_at(struct rp_learn *learn, uint64_t position)
{
    rp_learn_restart(learn);
    learn->first = learn->next = learn->due = position;
    /* Pairs with rp_learn_range() and rp_learn_read(): before anything behind it is published. */
    if (learn->firsts != NULL)
        atomic_store_explicit(&learn->firsts[learn->rank], position, memory_order_release);
}

void rp_learn_see(struct rp_learn *learn, const struct rp_op *op, uint64_t send)
{
    bool none = learn->first == learn->next;
    bool overrun = learn->next - learn->due == learn->positions; /* a gather whose fingerprint never came */

    if (none || overrun || op->position != learn->next)
        begin_at(learn, op->position);
    *seen_at(learn, learn->next) =
        (struct seen){.signature = rp_op_signature(op),
                      .bytes = rp_op_bytes(op),
                      .send = send,
                      .kind = op->kind,
                      .packable = rp_learned_packable((enum rp_op_kind)op->kind, (enum rp_dtype)op->dtype)};
    learn->next++;
    move_due(learn);
}

bool rp_learn_due(const struct rp_learn *learn, uint64_t *position_out)
{
    if (learn->due == learn->next)
        return false;
    *position_out = learn->due;
    return true;
}

void rp_learn_repeats(const struct rp_learn *learn, uint64_t *gathers_out, uint64_t *repeats_out)
{
    *gathers_out = learn->gathers;
    *repeats_out = learn->repeats;
}

/* ---------------------------------------------------------------- the table */

static struct entry *entry_at(const struct rp_learn *learn, uint32_t rank, uint64_t position)
{
    return &learn->entries[rank * learn->positions + (position & (learn->positions - 1))];
}

/* Salted: equal shards of two ranks must not look like equal changes of them. */
static void write_entry(const struct rp_learn *learn, uint64_t position, const uint64_t value[2], uint64_t send)
{
    struct entry *entry = entry_at(learn, learn->rank, position);
    XXH128_hash_t salted = XXH3_128bits_withSeed(value, 2 * sizeof(*value), learn->rank);

    /* Pair with add_entries(). */
    atomic_store_explicit(&entry->word[0], salted.low64, memory_order_release);
    atomic_store_explicit(&entry->word[1], salted.high64, memory_order_release);
    atomic_store_explicit(&entry->word[2], send, memory_order_release);
}

void rp_learn_fingerprint(struct rp_learn *learn, struct rp_agree *agree, uint64_t position, const uint64_t value[2])
{
    if (learn->due == learn->next || position != learn->due)
        return;
    if (learn->entries != NULL) {
        rp_agree_set_published(agree, position); /* before the entry: whoever reads it knows how far we are */
        write_entry(learn, position, value, seen_at(learn, position)->send);
    }
    learn->gathers++;
    if (!was_fresh(learn, seen_at(learn, position), value))
        learn->repeats++;
    learn->due++;
    move_due(learn);
    if (learn->entries != NULL)
        rp_agree_set_published(agree, learn->due);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The first position that the table holds of every rank, as far as is known now. */
static uint64_t table_begins(const struct rp_learn *learn, const struct rp_agree *agree)
{
    uint64_t largest = rp_agree_largest_published(agree);
    uint64_t begin = largest >= learn->positions ? largest - learn->positions + 1 : 0;

    for (uint32_t rank = 0; rank < learn->nranks; rank++) /* pairs with begin_at() */
        begin = later(begin, atomic_load_explicit(&learn->firsts[rank], memory_order_acquire));
    return begin;
}

void rp_learn_range(const struct rp_learn *learn, const struct rp_agree *agree, uint64_t *from_out, uint64_t *to_out)
{
    uint64_t to = learn->entries == NULL ? 0 : rp_agree_least_published(agree); /* before `first` of any rank */
    uint64_t from = learn->next > learn->positions ? later(learn->first, learn->next - learn->positions) : learn->first;

    if (learn->entries != NULL)
        from = later(from, table_begins(learn, agree));
    to = to < learn->next ? to : learn->next;
    *from_out = from;
    *to_out = later(from, to);
}

/* The content is the sum over all ranks, modulo 2^64 a word. */
static void add_entries(const struct rp_learn *learn, uint64_t position, struct rp_learned *item)
{
    bool all = true;

    for (uint32_t rank = 0; rank < learn->nranks; rank++) { /* pairs with write_entry() */
        struct entry *entry = entry_at(learn, rank, position);
        item->content[0] += atomic_load_explicit(&entry->word[0], memory_order_acquire);
        item->content[1] += atomic_load_explicit(&entry->word[1], memory_order_acquire);
        uint64_t send = atomic_load_explicit(&entry->word[2], memory_order_acquire);
        item->send = XXH3_64bits_withSeed(&send, sizeof(send), item->send);
        all = all && send != 0;
    }
    item->send = all ? item->send | 1 : 0;
}

enum rp_status rp_learn_read(const struct rp_learn *learn, const struct rp_agree *agree, uint64_t from, uint64_t to,
                             struct rp_learned *items_out)
{
    uint64_t begin, end;

    rp_learn_range(learn, agree, &begin, &end);
    if (from < begin || to > end || from > to)
        return RP_NOT_FOUND;
    for (uint64_t position = from; position < to; position++) {
        const struct seen *seen = seen_at(learn, position);
        struct rp_learned *item = &items_out[position - from];
        *item = (struct rp_learned){
            .signature = seen->signature, .bytes = seen->bytes, .kind = seen->kind, .packable = seen->packable};
        if (seen->kind == RP_OP_ALL_GATHER)
            add_entries(learn, position, item);
    }
    return from < to && from < table_begins(learn, agree) ? RP_NOT_FOUND : RP_OK;
}

void rp_learn_put(struct rp_learn *learn, uint64_t position, const uint64_t value[2])
{
    if (learn->entries != NULL)
        write_entry(learn, position, value, 0);
}

void rp_learn_sum(const struct rp_learn *learn, uint64_t position, uint64_t content_out[2])
{
    struct rp_learned item = {0};

    if (learn->entries != NULL)
        add_entries(learn, position, &item);
    memcpy(content_out, item.content, sizeof(item.content));
}

/* ---------------------------------------------------------------- times */

void rp_learn_set_id(struct rp_learn *learn, const struct rp_replay_id *id)
{
    uint64_t words[ID_WORDS];

    memcpy(words, id, sizeof(words));
    for (size_t i = 0; i < ID_WORDS && learn->id != NULL; i++) /* relaxed: the proposal orders it */
        atomic_store_explicit(&learn->id[i], words[i], memory_order_relaxed);
}

void rp_learn_id(const struct rp_learn *learn, struct rp_replay_id *id_out)
{
    uint64_t words[ID_WORDS] = {0};

    for (size_t i = 0; i < ID_WORDS && learn->id != NULL; i++)
        words[i] = atomic_load_explicit(&learn->id[i], memory_order_relaxed);
    memcpy(id_out, words, sizeof(words));
}

void rp_learn_set_gaps(struct rp_learn *learn, uint64_t from, uint64_t to, const uint64_t *gap_ns)
{
    for (uint64_t position = from; position < to && learn->gaps != NULL; position++) {
        uint64_t ns = gap_ns[position - from];
        /* relaxed: the proposal orders it, and pairs with rp_learn_gaps() */
        atomic_store_explicit(&learn->gaps[position & (learn->positions - 1)],
                              (uint32_t)(ns < UINT32_MAX ? ns : UINT32_MAX), memory_order_relaxed);
    }
}

void rp_learn_gaps(const struct rp_learn *learn, uint64_t from, uint64_t to, uint64_t *gap_ns_out)
{
    for (uint64_t position = from; position < to; position++)
        gap_ns_out[position - from] =
            learn->gaps == NULL
                ? 0
                : atomic_load_explicit(&learn->gaps[position & (learn->positions - 1)], memory_order_relaxed);
}
