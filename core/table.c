#include "core/table.h"

#include <stdint.h>
#include <stdlib.h>

#define FIRST_ROOM 64

void *rp_table_grow(void *table, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return table;
    size_t more = *room == 0 ? FIRST_ROOM : *room * 2;
    if (more > SIZE_MAX / size)
        return NULL;
    void *larger = realloc(table, more * size);
    if (larger != NULL)
        *room = more;
    return larger;
}
