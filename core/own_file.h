/*
 * A file that we keep open inside somebody else's process. Programs close descriptors that they did not open
 * (daemons close 3 to 1023) and then get the same number for a file of theirs; so before each write the descriptor
 * is checked to be still the file that was opened, and one that is not is neither written to nor closed.
 *
 * Threads: one at a time, or as the owner arranges.
 */
#ifndef RP_OWN_FILE_H
#define RP_OWN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/status.h"

struct rp_own_file {
    int descriptor; /* -1: none */
    dev_t device;
    ino_t inode;
    bool counts_links; /* its file system does, so 0 links mean that it was removed */
};

#define RP_OWN_FILE_NONE ((struct rp_own_file){.descriptor = -1})

/*
 * Opens for writing with `flags` (O_CREAT and so on) besides, mode 0666 less the umask, closed on exec. The number is
 * a high one where the limit allows, so that the program's own numbers do not shift. RP_EXISTS, RP_IO; errno says why.
 */
enum rp_status rp_own_file_open(const char *path, int flags, struct rp_own_file *file_out);

/* True if the descriptor still is what was opened. */
bool rp_own_file_valid(const struct rp_own_file *file);

/*
 * Writes all of it: one write(2) unless the kernel takes only a part. RP_IO; errno says why (EBADF: not ours any more,
 * ENOENT: removed, so nobody would find what is written).
 */
enum rp_status rp_own_file_write(const struct rp_own_file *file, const void *data, size_t bytes);

/* Closes it if it is still ours. */
void rp_own_file_close(struct rp_own_file *file);

#endif
