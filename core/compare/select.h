/*
 * Order statistics in linear time.
 *
 * Threads: pure.
 */
#ifndef RP_SELECT_H
#define RP_SELECT_H

#include <stddef.h>

/* The value that stands at `at` < count if they are sorted. The values change places. */
double rp_select(double *values, size_t count, size_t at);

#endif
