/*
 * A temporary directory for a test, and beside it the log of the code under test, where another user may write too
 * (a sticky directory such as /tmp would not let it).
 */
#ifndef RP_SCRATCH_H
#define RP_SCRATCH_H

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"

struct scratch {
    char base[64];
    char path[96]; /* the directory */
    char log[96];  /* where log lines go */
};

static int scratch_remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static inline void scratch_make(struct scratch *scratch)
{
    snprintf(scratch->base, sizeof scratch->base, "/tmp/reprise-test-XXXXXX");
    if (mkdtemp(scratch->base) == NULL || chmod(scratch->base, 0755) != 0)
        abort();
    snprintf(scratch->path, sizeof scratch->path, "%s/d", scratch->base);
    snprintf(scratch->log, sizeof scratch->log, "%s/log", scratch->base);
    if (mkdir(scratch->path, 0755) != 0)
        abort();
    rp_log_setup(RP_LOG_DEBUG, scratch->log);
}

static inline void scratch_remove(struct scratch *scratch)
{
    rp_log_setup(RP_LOG_INFO, NULL);
    nftw(scratch->base, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* `name` inside the directory; the result lives until the fourth call after it. */
static inline const char *scratch_path(const struct scratch *scratch, const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", scratch->path, name);
    return path;
}

/* The whole file as a string (the caller frees it), "" if it cannot be read. */
static inline char *scratch_read(const char *path, size_t *size_out)
{
    FILE *file = fopen(path, "rb");
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room + 1);
    while (file != NULL && text != NULL) {
        size_t got = fread(text + size, 1, room - size, file);
        if (got == 0)
            break;
        size += got;
        if (size == room)
            text = realloc(text, (room *= 2) + 1);
    }
    if (file != NULL)
        fclose(file);
    if (text == NULL)
        abort();
    text[size] = '\0';
    if (size_out != NULL)
        *size_out = size;
    return text;
}

static inline void scratch_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

/* How many log lines so far hold `text`. */
static inline unsigned scratch_lines_with(const struct scratch *scratch, const char *text)
{
    char *log = scratch_read(scratch->log, NULL), *rest = log, *line;
    unsigned count = 0;
    while ((line = strsep(&rest, "\n")) != NULL)
        count += strstr(line, text) != NULL;
    free(log);
    return count;
}

#endif
