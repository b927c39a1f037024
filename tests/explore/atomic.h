/* In the place of core/agree/agree_atomic.h: the explorer's. Its guard is that one's, which is so left out. */
#ifndef RP_AGREE_ATOMIC_H
#define RP_AGREE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

/* replayed.c */
uint64_t rp_shared_load(const _Atomic uint64_t *word);
void rp_shared_store(_Atomic uint64_t *word, uint64_t value);
uint64_t rp_shared_add(_Atomic uint64_t *word, uint64_t value);
bool rp_shared_swap(_Atomic uint64_t *word, uint64_t *seen, uint64_t next);

#endif
