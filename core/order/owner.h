/*
 * Owners: what events of an order hang on without holding it (a communicator, a slot, a buffer). Who makes a thing
 * makes an owner for it, and kills the owner when the thing goes; whoever kept the owner's id can ask whether it lives.
 * An id is a place and a generation, so a place used again does not bring old ids back to life.
 *
 * Threads: one at a time; the caller serialises.
 */
#ifndef RP_OWNER_H
#define RP_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

struct rp_owner {
    uint32_t place; /* 0: nobody */
    uint32_t generation;
};

/* Owned by nobody: never dies. */
#define RP_OWNER_NOBODY ((struct rp_owner){0, 0})

struct rp_owners;

/* An empty register. The caller owns it. RP_NO_MEMORY. */
enum rp_status rp_owners_create(struct rp_owners **owners_out);
void rp_owners_destroy(struct rp_owners *owners);

/* A new owner, alive. RP_NO_MEMORY; RP_FULL when no id is left. */
enum rp_status rp_owner_make(struct rp_owners *owners, struct rp_owner *owner_out);

/* What hangs on it is dead from now on. RP_DEAD: it was already. RP_INVALID: nobody, or never made. */
enum rp_status rp_owner_kill(struct rp_owners *owners, struct rp_owner owner);

/* False for one that was killed or never made. */
bool rp_owner_alive(const struct rp_owners *owners, struct rp_owner owner);

#endif
