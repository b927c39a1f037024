/*
 * The register of owners. A place's generation is odd while its owner lives and even while it is free; it only
 * grows, and a place whose generation is used up is not given out again.
 */
#include "core/order/owner.h"

#include <stdlib.h>

#define FIRST_CAPACITY 16u
#define LAST_GENERATION (UINT32_MAX - 1) /* even */

struct place {
    uint32_t generation;
    uint32_t next_free; /* valid while free; 0: the last */
};

struct rp_owners {
    struct place *places; /* place 0 is nobody's */
    uint32_t count, capacity;
    uint32_t first_free; /* 0: none */
};

enum rp_status rp_owners_create(struct rp_owners **owners_out)
{
    struct rp_owners *owners = calloc(1, sizeof(*owners));
    if (owners == NULL)
        return RP_NO_MEMORY;
    owners->count = 1;
    *owners_out = owners;
    return RP_OK;
}

void rp_owners_destroy(struct rp_owners *owners)
{
    if (owners == NULL)
        return;
    free(owners->places);
    free(owners);
}

static enum rp_status grow(struct rp_owners *owners)
{
    uint32_t capacity = owners->capacity == 0 ? FIRST_CAPACITY : 2 * owners->capacity;
    if (capacity < owners->capacity)
        return RP_FULL;
    struct place *places = realloc(owners->places, capacity * sizeof(*places));
    if (places == NULL)
        return RP_NO_MEMORY;
    owners->places = places;
    owners->capacity = capacity;
    return RP_OK;
}

enum rp_status rp_owner_make(struct rp_owners *owners, struct rp_owner *owner_out)
{
    uint32_t place = owners->first_free;

    if (place != 0) {
        owners->first_free = owners->places[place].next_free;
    } else {
        enum rp_status status = owners->count < owners->capacity ? RP_OK : grow(owners);
        if (status != RP_OK)
            return status;
        place = owners->count++;
        owners->places[place] = (struct place){0};
    }
    *owner_out = (struct rp_owner){.place = place, .generation = ++owners->places[place].generation};
    return RP_OK;
}

/* The id was given out, now or before. */
static bool was_made(const struct rp_owners *owners, struct rp_owner owner)
{
    return owner.place != 0 && owner.place < owners->count && owner.generation % 2 == 1 &&
           owner.generation <= owners->places[owner.place].generation;
}

enum rp_status rp_owner_kill(struct rp_owners *owners, struct rp_owner owner)
{
    if (!was_made(owners, owner))
        return RP_INVALID;
    if (!rp_owner_alive(owners, owner))
        return RP_DEAD;
    struct place *place = &owners->places[owner.place];
    place->generation++;
    if (place->generation < LAST_GENERATION) {
        place->next_free = owners->first_free;
        owners->first_free = owner.place;
    }
    return RP_OK;
}

bool rp_owner_alive(const struct rp_owners *owners, struct rp_owner owner)
{
    if (owner.place == 0)
        return owner.generation == 0;
    return was_made(owners, owner) && owners->places[owner.place].generation == owner.generation;
}
