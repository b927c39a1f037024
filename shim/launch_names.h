/*
 * Names of kernels: from what a launch names (a host stub, or a handle that the runtime gave for it) to the mangled
 * name of the device function, as the program's own registration calls say.
 *
 * Names are copied: the library that registered them may be unloaded. Threads: any; a short lock inside.
 */
#ifndef RP_LAUNCH_NAMES_H
#define RP_LAUNCH_NAMES_H

#include <stdint.h>

/* `stub` will be launched under this name. Lost without a word when memory is out. */
void rp_launch_name_add(const void *stub, const char *name);

/* `kernel` is another name for `stub`. */
void rp_launch_name_alias(const void *kernel, const void *stub);

/* The name, valid for the process's life, or NULL. */
const char *rp_launch_name(uint64_t function);

/* In the child of a fork. If another thread of the parent was inside, the names are forgotten. */
void rp_launch_names_forked(void);

#endif
