#include "core/trace/run_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/log.h"

#define NAME_TRIES 100
#define SECONDS_PER_DAY 86400u

static enum rp_status join_path(char path[RP_RUN_PATH_MAX], const char *parent, const char *name)
{
    int length = snprintf(path, RP_RUN_PATH_MAX, "%s/%s", parent, name);
    return length < 0 || length >= RP_RUN_PATH_MAX ? RP_INVALID : RP_OK;
}

/* All ranks of a job fail alike, so it is a line of the job. */
static enum rp_status say_failure(const char *path, int cause)
{
    rp_log_job(RP_LOG_ERROR, "trace", "%s: cannot be made: %s; nothing is recorded", path, strerrordesc_np(cause));
    return RP_IO;
}

/* ---------------------------------------------------------------- the file `job` */

enum rp_status rp_run_directory_job(const char *directory, char key[RP_RUN_JOB_MAX])
{
    char path[RP_RUN_PATH_MAX];
    if (join_path(path, directory, "job") != RP_OK)
        return RP_NOT_FOUND;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return RP_NOT_FOUND;
    ssize_t length = read(descriptor, key, RP_RUN_JOB_MAX - 1);
    close(descriptor);
    if (length <= 0)
        return RP_NOT_FOUND;
    key[length] = '\0';
    key[strcspn(key, "\n")] = '\0';
    return RP_OK;
}

static bool same_job(const char *directory, const char *job_key)
{
    char key[RP_RUN_JOB_MAX];
    return rp_run_directory_job(directory, key) == RP_OK && strcmp(key, job_key) == 0;
}

/* errno says why. */
static enum rp_status write_job(const char *directory, const char *job_key)
{
    char path[RP_RUN_PATH_MAX], line[RP_RUN_JOB_MAX];
    int length = snprintf(line, sizeof line, "%s\n", job_key);
    errno = ENAMETOOLONG;
    if (join_path(path, directory, "job") != RP_OK || length < 0 || (size_t)length >= sizeof line)
        return RP_IO;
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return RP_IO;
    ssize_t written = write(descriptor, line, (size_t)length);
    int cause = written < 0 ? errno : ENOSPC;
    close(descriptor);
    errno = cause;
    return written == length ? RP_OK : RP_IO;
}

/* ---------------------------------------------------------------- making */

/* A directory beside `path` under a name that nobody else uses. errno says why not. */
static enum rp_status make_aside(const char *path, int32_t rank, char aside[RP_RUN_PATH_MAX])
{
    for (unsigned i = 0; i < NAME_TRIES; i++) {
        int length = snprintf(aside, RP_RUN_PATH_MAX, "%s.new-%d-%ld-%u", path, rank, (long)getpid(), i);
        if (length < 0 || length >= RP_RUN_PATH_MAX) {
            errno = ENAMETOOLONG;
            return RP_IO;
        }
        if (mkdir(aside, 0777) == 0)
            return RP_OK;
        if (errno != EEXIST)
            return RP_IO;
    }
    return RP_IO;
}

static void remove_aside(const char *aside)
{
    char job[RP_RUN_PATH_MAX];
    if (join_path(job, aside, "job") == RP_OK)
        unlink(job);
    rmdir(aside);
}

/* Renames unless `to` exists. RP_EXISTS; RP_IO: errno says why. */
static enum rp_status rename_new(const char *from, const char *to)
{
    struct stat info;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return RP_OK;
    /* A file system without that flag: rename() replaces an empty directory only, and never one with `job` in it. */
    if (errno == EINVAL || errno == ENOSYS)
        errno = lstat(to, &info) == 0 ? EEXIST : rename(from, to) == 0 ? 0 : errno;
    if (errno == 0)
        return RP_OK;
    return errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR ? RP_EXISTS : RP_IO;
}

/* RP_EXISTS: somebody else was first; not said. RP_IO: said. */
static enum rp_status make_directory(const char *path, int32_t rank, const char *job_key)
{
    char aside[RP_RUN_PATH_MAX];
    if (make_aside(path, rank, aside) != RP_OK)
        return say_failure(path, errno);
    enum rp_status status = write_job(aside, job_key);
    if (status == RP_OK)
        status = rename_new(aside, path);
    int cause = errno;
    if (status != RP_OK)
        remove_aside(aside);
    return status == RP_IO ? say_failure(path, cause) : status;
}

enum rp_status rp_run_directory_claim(const char *path, int32_t rank, const char *job_key)
{
    struct stat info;
    enum rp_status status = lstat(path, &info) == 0 ? RP_EXISTS : make_directory(path, rank, job_key);
    if (status != RP_EXISTS || same_job(path, job_key))
        return status == RP_EXISTS ? RP_OK : status;
    rp_log_job(RP_LOG_ERROR, "trace", "%s: exists and is not of this run; nothing is recorded, it is left as it is",
               path);
    return RP_EXISTS;
}

/*
 * The first process of this host that asks for that directory: it has an abstract socket of that name, which lives as
 * long as the process does. True also where nobody can have one.
 */
static bool first_on_host(const char *directory)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    uint64_t hash = XXH3_64bits(directory, strlen(directory));
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "reprise-failed-%016" PRIx64, hash);
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return true;
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length;
    if (bind(descriptor, (struct sockaddr *)&name, bytes) == 0)
        return true;
    bool first = errno != EADDRINUSE;
    close(descriptor);
    return first;
}

bool rp_run_directory_mark(const char *directory, int32_t rank, const char *cause)
{
    char path[RP_RUN_PATH_MAX], text[100];
    snprintf(text, sizeof text, "rank %" PRId32 ": %s", rank, cause);
    if (join_path(path, directory, "failed") == RP_OK) {
        if (symlink(text, path) == 0)
            return true;
        if (errno == EEXIST)
            return false;
    }
    return first_on_host(directory);
}

enum rp_status rp_run_directory_failure(const char *directory, char *text, size_t size)
{
    char path[RP_RUN_PATH_MAX];
    if (join_path(path, directory, "failed") != RP_OK)
        return RP_NOT_FOUND;
    ssize_t length = readlink(path, text, size - 1);
    if (length < 0)
        return RP_NOT_FOUND;
    text[length] = '\0';
    return RP_OK;
}

/* ---------------------------------------------------------------- finding, naming */

enum rp_status rp_run_directory_find(const char *parent, const char *job_key, char path_out[RP_RUN_PATH_MAX])
{
    static const char prefix[] = "reprise-";
    DIR *directory = opendir(parent);
    if (directory == NULL)
        return RP_NOT_FOUND;
    const struct dirent *entry;
    enum rp_status status = RP_NOT_FOUND;
    while (status != RP_OK && (entry = readdir(directory)) != NULL) {
        char path[RP_RUN_PATH_MAX];
        /* one that is still being made has a dot in its name */
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0 || strchr(entry->d_name, '.') != NULL)
            continue;
        if (join_path(path, parent, entry->d_name) == RP_OK && same_job(path, job_key)) {
            memcpy(path_out, path, sizeof path);
            status = RP_OK;
        }
    }
    closedir(directory);
    return status;
}

static bool is_leap(unsigned year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/*
 * "20260314-092653" in universal time. Worked out here because the C library's functions look at TZ, and the
 * environment belongs to the application's threads.
 */
static void print_time(uint64_t wall_ns, char *text, size_t size)
{
    static const unsigned char lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    uint64_t seconds = wall_ns / 1000000000u;
    unsigned days = (unsigned)(seconds / SECONDS_PER_DAY), of_day = (unsigned)(seconds % SECONDS_PER_DAY);
    unsigned year = 1970, month = 0;
    for (; days >= 365u + is_leap(year); year++)
        days -= 365u + is_leap(year);
    for (; days >= lengths[month] + (unsigned)(month == 1 && is_leap(year)); month++)
        days -= lengths[month] + (unsigned)(month == 1 && is_leap(year));
    snprintf(text, size, "%04u%02u%02u-%02u%02u%02u", year, month + 1, days + 1, of_day / 3600, of_day / 60 % 60,
             of_day % 60);
}

enum rp_status rp_run_directory_name(const char *parent, uint64_t wall_ns, pid_t pid, int32_t rank,
                                     char path_out[RP_RUN_PATH_MAX])
{
    char time[48], suffix[32] = "", name[160];
    print_time(wall_ns, time, sizeof time);
    if (rank > 0)
        snprintf(suffix, sizeof suffix, "-rank%d", rank);
    snprintf(name, sizeof name, "reprise-%s-%ld%s", time, (long)pid, suffix);
    return join_path(path_out, parent, name);
}
