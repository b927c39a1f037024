#include "core/tool/library.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/tool/tool.h"

#define LIBRARY "libreprise.so"

/* Directory of the running command. */
static enum rp_status own_directory(const char *command, char directory_out[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", directory_out, PATH_MAX - 1);
    if (length < 0) {
        rp_tool_error(command, "/proc/self/exe: %s; name the library with --lib", strerror(errno));
        return RP_IO;
    }
    directory_out[length] = '\0';
    *strrchr(directory_out, '/') = '\0';
    return RP_OK;
}

static bool is_there(const char *directory, const char *below, char path[PATH_MAX])
{
    char candidate[PATH_MAX + 32];
    snprintf(candidate, sizeof(candidate), "%s/%s" LIBRARY, directory, below);
    return realpath(candidate, path) != NULL && access(path, R_OK) == 0;
}

static enum rp_status find_own(const char *command, char path[PATH_MAX])
{
    char directory[PATH_MAX];
    enum rp_status status = own_directory(command, directory);
    if (status != RP_OK)
        return status;
    if (is_there(directory, "", path) || is_there(directory, "../lib/", path))
        return RP_OK;
    rp_tool_error(command, LIBRARY " is neither in %s nor in %s/../lib; name it with --lib", directory, directory);
    return RP_NOT_FOUND;
}

enum rp_status rp_library_find(const char *command, const char *chosen, char path_out[PATH_MAX])
{
    enum rp_status status = RP_OK;
    if (chosen == NULL) {
        status = find_own(command, path_out);
    } else if (realpath(chosen, path_out) == NULL || access(path_out, R_OK) != 0) {
        rp_tool_error(command, "%s: %s", chosen, strerror(errno));
        status = RP_NOT_FOUND;
    }
    if (status == RP_OK && strpbrk(path_out, " :") != NULL) {
        rp_tool_error(command, "%s: the loader cannot preload from a path with a space or a colon", path_out);
        status = RP_UNSUPPORTED;
    }
    return status;
}

char *rp_library_preload(const char *library, const char *before)
{
    char *value = NULL;
    int length = before == NULL || before[0] == '\0' ? asprintf(&value, "%s", library)
                                                     : asprintf(&value, "%s:%s", library, before);
    return length < 0 ? NULL : value;
}
