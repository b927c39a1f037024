/*
 * What a search of a tree of modules has passed: the place of each module by its root and itself, so that a model of
 * tens of thousands of modules is searched once and not at each collective. Addresses are compared alone and hold
 * nothing alive: both may be others' by now, so that who asks checks the place.
 *
 * Bounded: PLACES of them; when they are full, all are forgotten.
 *
 * Threads: any, one at a time: inside rp_python_enter(), with the GIL.
 */
#include "shim/site_python.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_LOG2 16
#define PLACES (1u << PLACES_LOG2)
#define SLOTS (2 * PLACES) /* at most half full */
#define NAME_BYTES 256     /* of a place that is kept, with its end */

struct place {
    const void *root, *module; /* NULL: the slot is empty */
    char *name;
    unsigned search; /* that kept it last */
};

static struct place places[SLOTS];
static unsigned count;

static struct place *slot_of(const void *root, const void *module)
{
    uint64_t mixed = ((uintptr_t)root * 31 + (uintptr_t)module) * 0x9e3779b97f4a7c15u;
    for (size_t at = mixed >> (64 - PLACES_LOG2 - 1);; at = (at + 1) % SLOTS)
        if (places[at].module == NULL || (places[at].root == root && places[at].module == module))
            return &places[at];
}

static void forget_all(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        free(places[i].name);
    memset(places, 0, sizeof(places));
    count = 0;
}

const char *rp_python_known(const void *root, const void *module)
{
    return slot_of(root, module)->name;
}

bool rp_python_keep(const void *root, const void *module, const char *name, size_t length, unsigned search)
{
    struct place *place = slot_of(root, module);
    bool is_new = place->module == NULL;
    if (!is_new && place->search == search)
        return false;
    char *copy = length < NAME_BYTES ? strndup(name, length) : NULL;
    if (copy == NULL)
        return true;
    if (is_new && count == PLACES) {
        forget_all();
        place = slot_of(root, module);
    }
    count += is_new;
    free(place->name);
    *place = (struct place){.root = root, .module = module, .name = copy, .search = search};
    return true;
}
