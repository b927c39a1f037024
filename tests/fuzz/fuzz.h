/*
 * What a fuzz target is: one function from bytes to nothing, which ends the process where something is wrong. libFuzzer
 * calls it with what it makes up, corpus.c with what is kept in corpus/<target>.
 *
 * Threads: one.
 */
#ifndef RP_FUZZ_H
#define RP_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The name of the target: that of its folder in corpus/. */
extern const char fuzz_target[];

/* By libFuzzer's interface (llvm.org/docs/LibFuzzer.html, of clang 6 and later). Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process, as a failure that libFuzzer sees, unless it holds. */
static inline void must(int holds)
{
    if (!holds)
        abort();
}

#endif
