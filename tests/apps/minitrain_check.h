/* Checksums of what collectives delivered. */
#ifndef MINITRAIN_CHECK_H
#define MINITRAIN_CHECK_H

#include "minitrain.h"

/* Up to `capacity` deliveries a step. NULL where --checksums is off; the other functions then do nothing. */
struct mt_deliveries *mt_deliveries_open(const struct mt_trainer *t, size_t capacity);
void mt_deliveries_close(struct mt_deliveries *deliveries);
/* Puts a checksum of `bytes` at `from` on `stream`. The strings must stay. */
void mt_delivered(const struct mt_trainer *t, cudaStream_t stream, const struct mt_pass *pass, enum mt_phase phase,
                  const char *op, const char *module, const void *from, size_t bytes);
/* Waits for the device and turns the step's checksums into lines. */
void mt_deliveries_collect(const struct mt_trainer *t);
/* Prints all lines, rank by rank. */
void mt_deliveries_print(const struct mt_trainer *t);

/* A checksum of the weights of all ranks, the same however many they and their stages are; valid on rank 0. */
uint64_t mt_weights_checksum(const struct mt_trainer *t);

#endif
