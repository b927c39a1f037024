/*
 * Before the search, matching heads are paired, and elements that match none of the other side are left out: they
 * can have no partner, and a renamed module in each of ten thousand cycles must not make the distance large.
 *
 * The search keeps, for each distance d and each diagonal k = x - y in {-d, -d+2, .., d}, how far left (x) a path with
 * d edits gets. Row d of that history is d + 1 numbers, kept to walk the path back:
 *
 *     row 0: k=0        row 1: k=-1, 1        row 2: k=-2, 0, 2        row d begins at d (d + 1) / 2
 */
#include "core/compare/align.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SHIFT_BUDGET (16u << 20) /* comparisons, besides one an element */
#define OUTSIDE (-1)             /* no path ends on this diagonal inside the rectangle */

/* ---------------------------------------------------------------- what matches */

static bool parts_match(uint64_t a, uint64_t b)
{
    return a == b || a == 0 || b == 0;
}

static uint64_t name_of(const struct rp_align_keys *keys, size_t i)
{
    return keys->names != NULL ? keys->names[i] : 0;
}

static bool matches(const struct rp_align_keys *left, size_t i, const struct rp_align_keys *right, size_t j)
{
    uint64_t a = name_of(left, i), b = name_of(right, j);
    return left->keys[i] == right->keys[j] && parts_match(a & RP_ALIGN_PART, b & RP_ALIGN_PART) &&
           parts_match(a & ~RP_ALIGN_PART, b & ~RP_ALIGN_PART);
}

/* ---------------------------------------------------------------- what both sides have */

/* A set of keys by open addressing, at most half full. */
struct key_set {
    uint64_t *slots;
    size_t mask;
    bool has_zero; /* zero marks a free slot */
};

static bool set_create(struct key_set *set, size_t count)
{
    size_t size = 16;
    while (size < 2 * count)
        size *= 2;
    *set = (struct key_set){.slots = calloc(size, sizeof(uint64_t)), .mask = size - 1};
    return set->slots != NULL;
}

static size_t set_slot(const struct key_set *set, uint64_t key)
{
    size_t slot = (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & set->mask;
    while (set->slots[slot] != 0 && set->slots[slot] != key)
        slot = (slot + 1) & set->mask;
    return slot;
}

static void set_add(struct key_set *set, uint64_t key)
{
    if (key == 0)
        set->has_zero = true;
    else
        set->slots[set_slot(set, key)] = key;
}

static bool set_has(const struct key_set *set, uint64_t key)
{
    return key == 0 ? set->has_zero : set->slots[set_slot(set, key)] == key;
}

static bool is_name_known(uint64_t name)
{
    return (name & RP_ALIGN_PART) != 0 && (name & ~RP_ALIGN_PART) != 0;
}

/* A number for a key with a name; 0 for the name stands for all that are not wholly known. */
static uint64_t named_key(uint64_t key, uint64_t name)
{
    return key ^ (name + 1) * 0x9e3779b97f4a7c15u;
}

/* Adds the element as it is looked for: by its key alone, and by its name if that is known. */
static void set_add_element(struct key_set *set, const struct rp_align_keys *keys, size_t i)
{
    uint64_t name = name_of(keys, i);
    set_add(set, keys->keys[i]);
    set_add(set, named_key(keys->keys[i], is_name_known(name) ? name : 0));
}

/* False only if the element matches none of the set. */
static bool set_may_match(const struct key_set *set, const struct rp_align_keys *keys, size_t i)
{
    uint64_t key = keys->keys[i], name = name_of(keys, i);
    if (!is_name_known(name))
        return set_has(set, key);
    return set_has(set, named_key(key, name)) || set_has(set, named_key(key, 0));
}

/* A sequence without what has no partner: place[i] is where its element i is in `of`. */
struct reduced {
    struct rp_align_keys of;
    uint32_t *place;
    size_t count;
};

/* The elements of `of` from `from` on that may match one of `other` from `from` on. The caller frees out->place. */
static enum rp_status reduce(struct rp_align_keys of, struct rp_align_keys other, size_t from, struct reduced *out)
{
    struct key_set set;
    if (!set_create(&set, 2 * (other.count - from)))
        return RP_NO_MEMORY;
    for (size_t i = from; i < other.count; i++)
        set_add_element(&set, &other, i);
    struct reduced made = {.of = of, .place = malloc((of.count - from + 1) * sizeof(*made.place))};
    if (made.place == NULL) {
        free(set.slots);
        return RP_NO_MEMORY;
    }
    for (size_t i = from; i < of.count; i++) {
        if (set_may_match(&set, &of, i))
            made.place[made.count++] = (uint32_t)i;
    }
    free(set.slots);
    *out = made;
    return RP_OK;
}

/* ---------------------------------------------------------------- the search */

struct search {
    const struct reduced *left, *right;
    int32_t x0, y0;   /* where this window begins */
    int32_t n, m;     /* how much is left of each side from there */
    int window;       /* the largest distance */
    int32_t *history; /* window + 1 rows */
    uint32_t *match;
};

struct reach { /* the end of a path: distance, diagonal, and x relative to the window's beginning */
    int d, k;
    int32_t x;
};

static int32_t *history_row(const struct search *search, int d)
{
    return search->history + (size_t)d * ((size_t)d + 1) / 2;
}

static int32_t history_at(const struct search *search, int d, int k)
{
    return k < -d || k > d ? OUTSIDE : history_row(search, d)[(k + d) / 2];
}

/* Where the last edit of the path to row d > 0, diagonal k leads; OUTSIDE if there is none. It came from the
 * diagonal above by an insertion (*insert_out), else from the one below by a drop. Ties go to the drop. */
static int32_t last_edit(const struct search *search, int d, int k, bool *insert_out)
{
    int32_t drop = history_at(search, d - 1, k - 1), insert = history_at(search, d - 1, k + 1);
    if (drop == search->n)
        drop = OUTSIDE;
    if (insert - k > search->m)
        insert = OUTSIDE;
    *insert_out = insert > drop;
    return *insert_out ? insert : drop == OUTSIDE ? OUTSIDE : drop + 1;
}

/* Follows matching elements from (x, x - k). */
static int32_t snake(const struct search *search, int32_t x, int k)
{
    const uint32_t *left = search->left->place + search->x0, *right = search->right->place + search->y0;
    while (x < search->n && x - k < search->m && matches(&search->left->of, left[x], &search->right->of, right[x - k]))
        x++;
    return x;
}

/* One row. True if the path reached both ends. `best` is the furthest end of a path so far. */
static bool search_row(const struct search *search, int d, struct reach *best)
{
    int32_t *row = history_row(search, d);
    for (int k = -d; k <= d; k += 2) {
        bool insert;
        int32_t x = d == 0 ? 0 : last_edit(search, d, k, &insert);
        if (x != OUTSIDE)
            x = snake(search, x, k);
        row[(k + d) / 2] = x;
        if (x == OUTSIDE)
            continue;
        if (best->d < 0 || 2 * x - k > 2 * best->x - best->k)
            *best = (struct reach){.d = d, .k = k, .x = x};
        if (x == search->n && x - k == search->m)
            return true;
    }
    return false;
}

/* Pairs what the path to `end` runs through. */
static void walk_back(const struct search *search, struct reach end)
{
    int32_t x = end.x;
    int k = end.k;
    for (int d = end.d; d >= 0; d--) {
        bool insert = false;
        int32_t begin = d == 0 ? 0 : last_edit(search, d, k, &insert);
        for (; x > begin; x--) {
            uint32_t i = (uint32_t)(search->x0 + x - 1), j = (uint32_t)(search->y0 + x - 1 - k);
            search->match[search->left->place[i]] = search->right->place[j];
        }
        if (d > 0) {
            x = insert ? begin : begin - 1;
            k += insert ? 1 : -1;
        }
    }
}

static enum rp_status search_windows(struct search *search)
{
    search->n = (int32_t)search->left->count;
    search->m = (int32_t)search->right->count;
    size_t longest = search->left->count + search->right->count;
    search->window = longest < RP_ALIGN_WINDOW ? (int)longest : RP_ALIGN_WINDOW;
    size_t rows = (size_t)search->window + 1;
    search->history = malloc(rows * (rows + 1) / 2 * sizeof(*search->history));
    if (search->history == NULL)
        return RP_NO_MEMORY;
    while (search->n > 0 && search->m > 0) {
        struct reach best = {.d = -1};
        for (int d = 0; d <= search->window; d++) {
            if (search_row(search, d, &best))
                break;
        }
        walk_back(search, best);
        search->x0 += best.x;
        search->n -= best.x;
        search->y0 += best.x - best.k;
        search->m -= best.x - best.k;
    }
    free(search->history);
    return RP_OK;
}

/* ---------------------------------------------------------------- changed, not moved */

/*
 * Among equal elements a changed one looks like one that came in there and one that went away later, with all between
 * shifted by one. Where elements came in (right alone) at one place and others went away (left alone) later, the
 * elements between are moved back, if they match those that they then stand against:
 *
 *     left   s s s s .       left   s s s s
 *     right  s X s s s  ->   right  s X s s
 */
struct gap { /* elements of the right side alone: `count` of them, before left element `at` */
    size_t at, count;
};

struct shifts {
    struct rp_align_keys left, right;
    uint32_t *match;
    struct gap *pending; /* right gaps without a left one, so far */
    size_t pending_count;
    size_t budget; /* comparisons that may still be made */
};

/* Moves the pairs of left [at, end) to the elements `by` further on, if those match. */
static bool shift(struct shifts *shifts, size_t at, size_t end, size_t by)
{
    for (size_t i = end; i-- > at;) {
        if (shifts->budget == 0)
            return false;
        shifts->budget--;
        if (shifts->match[i] != RP_ALIGN_NONE && !matches(&shifts->left, i + by, &shifts->right, shifts->match[i]))
            return false;
    }
    memmove(shifts->match + at + by, shifts->match + at, (end - at) * sizeof(*shifts->match));
    for (size_t i = at; i < at + by; i++)
        shifts->match[i] = RP_ALIGN_NONE;
    return true;
}

/* `count` left elements from `at` on are alone: uses them up for the pending gaps, the nearest first. */
static void close_pending(struct shifts *shifts, size_t at, size_t count)
{
    while (shifts->pending_count > 0) {
        struct gap gap = shifts->pending[shifts->pending_count - 1];
        if (gap.count > count || !shift(shifts, gap.at, at, gap.count)) {
            shifts->pending_count = 0;
            return;
        }
        shifts->pending_count--;
        at += gap.count;
        count -= gap.count;
    }
}

/* Walks over all gaps: left [i, i_end), right [j, j_end). */
static void shift_changed(struct shifts *shifts)
{
    size_t i = 0, j = 0;
    while (i <= shifts->left.count) {
        size_t i_end = i;
        while (i_end < shifts->left.count && shifts->match[i_end] == RP_ALIGN_NONE)
            i_end++;
        size_t j_end = i_end < shifts->left.count ? shifts->match[i_end] : shifts->right.count;
        size_t gone = i_end - i, come = j_end - j;
        if (gone > come)
            close_pending(shifts, i + come, gone - come);
        else if (come > gone)
            shifts->pending[shifts->pending_count++] = (struct gap){.at = i_end, .count = come - gone};
        i = i_end + 1;
        j = j_end + 1;
    }
}

static void invert(const uint32_t *match, size_t count, uint32_t *inverse, size_t inverse_count)
{
    for (size_t j = 0; j < inverse_count; j++)
        inverse[j] = RP_ALIGN_NONE;
    for (size_t i = 0; i < count; i++) {
        if (match[i] != RP_ALIGN_NONE)
            inverse[match[i]] = (uint32_t)i;
    }
}

/* Both ways round: elements that came in before others went away, and the other way. */
static enum rp_status shift_both(struct rp_align_keys left, struct rp_align_keys right, uint32_t *match)
{
    size_t longer = left.count > right.count ? left.count : right.count;
    uint32_t *inverse = malloc((right.count + 1) * sizeof(*inverse));
    struct gap *pending = malloc((longer + 1) * sizeof(*pending));
    enum rp_status status = inverse == NULL || pending == NULL ? RP_NO_MEMORY : RP_OK;
    if (status == RP_OK) {
        shift_changed(&(struct shifts){left, right, match, pending, 0, SHIFT_BUDGET + longer});
        invert(match, left.count, inverse, right.count);
        shift_changed(&(struct shifts){right, left, inverse, pending, 0, SHIFT_BUDGET + longer});
        invert(inverse, right.count, match, left.count);
    }
    free(pending);
    free(inverse);
    return status;
}

/* ---------------------------------------------------------------- the whole */

size_t rp_align_head(struct rp_align_keys left, struct rp_align_keys right)
{
    size_t head = 0, shorter = left.count < right.count ? left.count : right.count;
    while (head < shorter && matches(&left, head, &right, head))
        head++;
    return head;
}

enum rp_status rp_align(struct rp_align_keys left, struct rp_align_keys right, uint32_t *match)
{
    size_t head = rp_align_head(left, right);
    for (size_t i = 0; i < left.count; i++)
        match[i] = i < head ? (uint32_t)i : RP_ALIGN_NONE;
    if (head == left.count || head == right.count)
        return RP_OK;

    struct reduced reduced_left = {0}, reduced_right = {0};
    enum rp_status status = reduce(left, right, head, &reduced_left);
    if (status == RP_OK)
        status = reduce(right, left, head, &reduced_right);
    if (status == RP_OK)
        status = search_windows(&(struct search){.left = &reduced_left, .right = &reduced_right, .match = match});
    free(reduced_right.place);
    free(reduced_left.place);
    if (status == RP_OK)
        status = shift_both(left, right, match);
    return status;
}
