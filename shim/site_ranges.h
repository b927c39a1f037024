/*
 * The open NVTX ranges: pushed ones, of the thread that pushed them, and started ones, of the whole process. Private to
 * shim/site*.c.
 */
#ifndef RP_SITE_RANGES_H
#define RP_SITE_RANGES_H

#include <stddef.h>
#include <stdint.h>

#define RP_RANGE_TEXT_BYTES 1024 /* of a text, with its end; longer ones are cut */

/* `domain`: its name, "" for the default one; ranges of one domain have the same pointer, which stays valid. */

/* Both return the level of the range, counting from 0, as NVTX wants it; pop: -1 without a push. */
int rp_range_push(const char *domain, const char *text, size_t length);
int rp_range_pop(const char *domain);

/* Returns the number by which the range is ended, never 0. An end of what is not open does nothing. */
uint64_t rp_range_start(const char *domain, const char *text, size_t length);
void rp_range_end(uint64_t number);

/*
 * Both in the child of a fork, which may come before there is anything to record: ranges are kept from the library's
 * loading on. If another thread of the parent was inside, the started ranges are forgotten.
 */
void rp_site_ranges_forked(void);
void rp_site_domains_forked(void);

#endif
