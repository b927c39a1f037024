/* Allocations by address, sorted: frameworks make few. What no memory can be had for here is not known. */
#include "shim/live.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uintptr_t begin, end;
};

static struct {
    _Atomic bool on; /* constant once a hook has been entered */
    pthread_mutex_t lock;
    struct range *ranges; /* by begin; none overlaps another */
    size_t count, capacity;
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

void rp_live_begin(void)
{
    atomic_store(&live.on, true);
}

/* Of the first that ends behind `address`. */
static size_t place_of(uintptr_t address)
{
    size_t low = 0, high = live.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (live.ranges[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Where an address is had twice, a free was missed. */
static void forget(uintptr_t begin, uintptr_t end)
{
    size_t first = place_of(begin), behind = first;
    while (behind < live.count && live.ranges[behind].begin < end)
        behind++;
    if (behind == first)
        return;
    memmove(&live.ranges[first], &live.ranges[behind], (live.count - behind) * sizeof *live.ranges);
    live.count -= behind - first;
}

static bool grow(void)
{
    size_t capacity = live.capacity > 0 ? live.capacity * 2 : 256;
    struct range *ranges = realloc(live.ranges, capacity * sizeof *ranges);
    if (ranges == NULL)
        return false;
    live.ranges = ranges;
    live.capacity = capacity;
    return true;
}

static void add(uintptr_t begin, uintptr_t end)
{
    forget(begin, end);
    if (live.count == live.capacity && !grow())
        return;
    size_t place = place_of(begin);
    memmove(&live.ranges[place + 1], &live.ranges[place], (live.count - place) * sizeof *live.ranges);
    live.ranges[place] = (struct range){begin, end};
    live.count++;
}

void rp_live_allocated(const void *memory, size_t bytes)
{
    if (!atomic_load_explicit(&live.on, memory_order_relaxed) || memory == NULL || bytes == 0)
        return;
    pthread_mutex_lock(&live.lock);
    add((uintptr_t)memory, (uintptr_t)memory + bytes);
    pthread_mutex_unlock(&live.lock);
}

void rp_live_freed(const void *memory)
{
    if (!atomic_load_explicit(&live.on, memory_order_relaxed) || memory == NULL)
        return;
    pthread_mutex_lock(&live.lock);
    forget((uintptr_t)memory, (uintptr_t)memory + 1);
    pthread_mutex_unlock(&live.lock);
}

static bool has(uintptr_t address, uint64_t bytes)
{
    size_t place = place_of(address);
    return place < live.count && live.ranges[place].begin <= address && bytes <= live.ranges[place].end - address;
}

bool rp_live_enter(const void *address, uint64_t bytes)
{
    pthread_mutex_lock(&live.lock);
    if (address != NULL && bytes > 0 && has((uintptr_t)address, bytes))
        return true;
    pthread_mutex_unlock(&live.lock);
    return false;
}

void rp_live_leave(void)
{
    pthread_mutex_unlock(&live.lock);
}

bool rp_live_has(const void *address, uint64_t bytes)
{
    bool there = rp_live_enter(address, bytes);
    if (there)
        rp_live_leave();
    return there;
}

/* Device memory of the parent is none here. */
void rp_live_forked(void)
{
    pthread_mutex_init(&live.lock, NULL);
    live.count = 0;
}
