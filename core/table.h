/*
 * Tables that grow by doubling.
 *
 * Threads: pure functions of their arguments.
 */
#ifndef RP_TABLE_H
#define RP_TABLE_H

#include <stddef.h>

/*
 * `table` has `count` of `*room` elements of `size` bytes. Returns it, or one that was moved, with room for one more;
 * NULL, and the table as it was, when memory is out.
 */
void *rp_table_grow(void *table, size_t count, size_t *room, size_t size);

#endif
