/*
 * Memory that the application has from cudaMalloc now: what may be read there later, for a gather ahead that sends from
 * the application's own buffer. Others' memory (pools, mapped ranges, another runtime's) is not known, so never read
 * later. Memory that a framework's allocator hands on to somebody else is still there: what is in it then is for the
 * verdict to see.
 *
 * Threads: any.
 */
#ifndef RP_LIVE_H
#define RP_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From here on it is kept account of; before the application's first call, else never. */
void rp_live_begin(void);

/* Behind the call that allocated; before the one that frees (NULL, or not from cudaMalloc: nothing). */
void rp_live_allocated(const void *memory, size_t bytes);
void rp_live_freed(const void *memory);

/* All of it is in one allocation. */
bool rp_live_has(const void *address, uint64_t bytes);

/* The same; and true: none is freed until rp_live_leave(). For work to be enqueued: a free waits for the device. */
bool rp_live_enter(const void *address, uint64_t bytes);
void rp_live_leave(void);

void rp_live_forked(void);

#endif
