#include "core/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOWEST_DESCRIPTOR 512 /* where ours are put; any limit of a job that trains is above it */

/* The same file under a high number, or as it is if the limit is lower. */
static int move_up(int descriptor)
{
    int high = fcntl(descriptor, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if (high < 0)
        return descriptor;
    close(descriptor);
    return high;
}

enum rp_status rp_own_file_open(const char *path, int flags, struct rp_own_file *file_out)
{
    int descriptor = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (descriptor < 0)
        return errno == EEXIST ? RP_EXISTS : RP_IO;
    descriptor = move_up(descriptor);
    struct stat info;
    if (fstat(descriptor, &info) != 0) {
        int cause = errno;
        close(descriptor);
        errno = cause;
        return RP_IO;
    }
    *file_out = (struct rp_own_file){descriptor, info.st_dev, info.st_ino, info.st_nlink > 0};
    return RP_OK;
}

/* What the descriptor is now goes to *info_out. */
static bool is_ours(const struct rp_own_file *file, struct stat *info_out)
{
    return file->descriptor >= 0 && fstat(file->descriptor, info_out) == 0 && info_out->st_dev == file->device &&
           info_out->st_ino == file->inode;
}

bool rp_own_file_valid(const struct rp_own_file *file)
{
    struct stat info;
    return is_ours(file, &info);
}

enum rp_status rp_own_file_write(const struct rp_own_file *file, const void *data, size_t bytes)
{
    struct stat info;
    bool ours = is_ours(file, &info);
    if (!ours || (file->counts_links && info.st_nlink == 0)) {
        errno = ours ? ENOENT : EBADF;
        return RP_IO;
    }
    const char *from = data;
    while (bytes > 0) {
        ssize_t written = write(file->descriptor, from, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return RP_IO;
        from += written;
        bytes -= (size_t)written;
    }
    return RP_OK;
}

void rp_own_file_close(struct rp_own_file *file)
{
    if (rp_own_file_valid(file))
        close(file->descriptor);
    file->descriptor = -1;
}
