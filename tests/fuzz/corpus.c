/*
 * Runs a target over every file of its corpus, without libFuzzer: one test for `make test`. A crash is a failure, and
 * so is a corpus that is not there.
 *
 * Threads: one.
 */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_BYTES (1u << 20) /* far above what libFuzzer is told to make */

static bool run_file(const char *path)
{
    static uint8_t bytes[INPUT_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    bool whole = !ferror(file) && size < sizeof(bytes);
    fclose(file);
    uint8_t *exact = malloc(size + 1); /* of its own size, so that the sanitizer sees its end */
    if (exact == NULL)
        return false;
    for (size_t i = 0; i < size; i++)
        exact[i] = bytes[i];
    fprintf(stderr, "# %s\n", path);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return whole;
}

/* How many files were run; -1: one could not be read. */
static int run_folder(const char *folder)
{
    char path[PATH_MAX + 300]; /* a name has at most 255 bytes */
    const struct dirent *entry;
    int count = 0;
    DIR *directory = opendir(folder);
    while (directory != NULL && count >= 0 && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        count = run_file(path) ? count + 1 : -1;
    }
    if (directory != NULL)
        closedir(directory);
    return count;
}

int main(void)
{
    char folder[PATH_MAX];
    rp_log_setup(RP_LOG_NONE, NULL);
    snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s", fuzz_target);
    printf("1..1\n");
    fflush(stdout);
    int count = run_folder(folder);
    printf("%s 1 - %s: %d inputs\n", count > 0 ? "ok" : "not ok", folder, count);
    return count > 0 ? 0 : 1;
}
