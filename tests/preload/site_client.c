/*
 * A program that asks libsite_probe.so, preloaded, for its places: site_client ranges, site_client pops, or
 * site_client embed LIBPYTHON SCRIPT, which loads Python after it has asked once without.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

typedef const char *ask(void);
static ask *probe_here;

static void *symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);
    if (address == NULL) {
        fprintf(stderr, "no %s\n", name);
        exit(2);
    }
    return address;
}

static int ranges(void)
{
    puts(probe_here());
    nvtxRangePushA("forward layers.3");
    puts(probe_here());
    nvtxRangePushA("MFSDP layers.4 backward");
    puts(probe_here());
    nvtxRangePop();
    nvtxRangePop();
    puts(probe_here());
    return 0;
}

/* More ends than beginnings, of every kind. */
static int pops(void)
{
    puts(probe_here());
    nvtxDomainHandle_t domain = nvtxDomainCreateA("of its own");
    for (int i = 0; i < 1000; i++) {
        nvtxRangePop();
        nvtxDomainRangePop(domain);
        nvtxRangeEnd((nvtxRangeId_t)i);
        nvtxDomainRangeEnd(domain, UINT64_MAX - (nvtxRangeId_t)i);
    }
    puts(probe_here());
    nvtxRangePushA("forward layers.3");
    puts(probe_here());
    nvtxRangePop();
    nvtxRangePop();
    puts(probe_here());
    return 0;
}

static int embed(const char *file, const char *script)
{
    puts(probe_here());
    void *python = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (python == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    puts(probe_here()); /* found, and not initialized */
    fflush(stdout);
    ((void (*)(void))symbol(python, "Py_Initialize"))();
    int failed = ((int (*)(const char *))symbol(python, "PyRun_SimpleString"))(script);
    ((int (*)(void))symbol(python, "Py_FinalizeEx"))();
    puts(probe_here());
    return failed;
}

int main(int argc, char **argv)
{
    void *probe = symbol(RTLD_DEFAULT, "probe_here");
    memcpy(&probe_here, &probe, sizeof(probe));
    if (argc == 2 && strcmp(argv[1], "ranges") == 0)
        return ranges();
    if (argc == 2 && strcmp(argv[1], "pops") == 0)
        return pops();
    if (argc == 4 && strcmp(argv[1], "embed") == 0)
        return embed(argv[2], argv[3]);
    return 2;
}
