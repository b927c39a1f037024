/*
 * A trace file as a fuzzer has it in memory: where its records lie, and its hashes.
 *
 * The reader looks at nothing that a hash does not vouch for, so bytes that were merely changed would all end at the
 * first hash. Therefore every input is sealed before it is read: the hashes of the header and of each block are worked
 * out anew, and the blocks are numbered. What a seal leaves alone: magics, version, byte order, every length and every
 * byte of a payload. A file of the writer stays what it was.
 *
 * Threads: pure.
 */
#ifndef RP_FUZZ_TRACE_FILE_H
#define RP_FUZZ_TRACE_FILE_H

#include <stddef.h>

void fuzz_trace_seal(unsigned char *file, size_t size);

struct fuzz_record {
    size_t offset, bytes; /* of the record, with its head */
    size_t block;         /* offset of its block's head */
};

/* The records, up to the first that is malformed or the `room`th. Returns how many. */
size_t fuzz_trace_records(const unsigned char *file, size_t size, struct fuzz_record *records, size_t room);

#endif
