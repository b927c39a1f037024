/*
 * The real functions behind the hooks, typed by the vendor's own prototypes, one table for each library found.
 *
 * Normally a process has one CUDA runtime and one NCCL, and the table is one pointer away. A process can hold two
 * (a system NCCL and a framework's own; CUDA 12 and 13 side by side); then each call goes to the library that its
 * caller would have reached, found by the caller's address.
 *
 * Threads: any. No lock is held while the loader is asked: a constructor that runs under the loader's lock may call
 * a hook.
 */
#ifndef RP_REAL_H
#define RP_REAL_H

#include <stdatomic.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "shim/cuda_private.h"

/* ncclGroupStart() and ncclGroupEnd() have no prototype in nccl.h, which is written for C++. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* Not interposed, only called: X(name) */
#define RP_CUDART_CALLED(X) \
    X(cudaPeekAtLastError)  \
    X(cudaGetLastError)     \
    X(cudaGetDevice)
#define RP_NCCL_CALLED(X) \
    X(ncclCommCount)      \
    X(ncclCommUserRank)   \
    X(ncclCommCuDevice)

#define RP_FIELD_DROP(name, prototype)
#define RP_FIELD_KEEP(name, prototype) __typeof__(prototype) *name;
#define RP_SYMBOL(library, name, prototype, since) RP_FIELD_##library(name, prototype)

struct rp_cudart {
#define RP_FIELD_CUDART RP_FIELD_KEEP
#define RP_FIELD_NCCL RP_FIELD_DROP
#include "shim/symbols.def"
#undef RP_FIELD_CUDART
#undef RP_FIELD_NCCL
#define X(name) __typeof__(name) *name;
    RP_CUDART_CALLED(X)
#undef X
};

struct rp_nccl {
#define RP_FIELD_CUDART RP_FIELD_DROP
#define RP_FIELD_NCCL RP_FIELD_KEEP
#include "shim/symbols.def"
#undef RP_FIELD_CUDART
#undef RP_FIELD_NCCL
#define X(name) __typeof__(name) *name;
    RP_NCCL_CALLED(X)
#undef X
};

#undef RP_SYMBOL

/* The only table of its kind; NULL: none found yet, or several, and the caller decides. */
extern _Atomic(const struct rp_cudart *) rp_cudart_only;
extern _Atomic(const struct rp_nccl *) rp_nccl_only;

const struct rp_cudart *rp_cudart_find(void *caller);
const struct rp_nccl *rp_nccl_find(void *caller);

/*
 * The table for a call from `caller` (a return address). Never NULL: where no library is found its members are NULL,
 * and the hook returns what a missing function would.
 */
static inline const struct rp_cudart *rp_cudart(void *caller)
{
    /* pairs with the release in real.c: a table seen is whole */
    const struct rp_cudart *only = atomic_load_explicit(&rp_cudart_only, memory_order_acquire);
    return __builtin_expect(only != NULL, 1) ? only : rp_cudart_find(caller);
}

static inline const struct rp_nccl *rp_nccl(void *caller)
{
    const struct rp_nccl *only = atomic_load_explicit(&rp_nccl_only, memory_order_acquire);
    return __builtin_expect(only != NULL, 1) ? only : rp_nccl_find(caller);
}

/*
 * Looks whether libraries were loaded since the last look, and forgets `only` if a second of a kind appeared. From
 * hooks that a newly loaded library calls early and seldom (registration, allocation, communicator creation).
 */
void rp_real_refresh(void);

#endif
