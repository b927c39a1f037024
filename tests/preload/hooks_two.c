/*
 * Two CUDA runtimes and two NCCLs in one process, each with a plugin loaded privately: every call must reach the
 * library that the plugin is linked with, also after plugins were unloaded and others came to their place.
 * hooks_two PLUGIN1 PLUGIN2; prints what goes wrong.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/preload/hooks_plugin.h"

#define PAGE 4096u
#define ROUNDS 20

struct plugin {
    void *handle;
    __typeof__(plugin_cuda) *cuda, *nccl, *group_start, *group_end;
    __typeof__(plugin_vendor) *vendor;
};

static atomic_bool failed;

static void find(struct plugin *plugin, const char *name, void *function_out)
{
    void *address = dlsym(plugin->handle, name);
    if (address == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    memcpy(function_out, &address, sizeof address);
}

static struct plugin load(const char *file)
{
    struct plugin plugin = {.handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)};
    if (plugin.handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    find(&plugin, "plugin_cuda", &plugin.cuda);
    find(&plugin, "plugin_nccl", &plugin.nccl);
    find(&plugin, "plugin_group_start", &plugin.group_start);
    find(&plugin, "plugin_group_end", &plugin.group_end);
    find(&plugin, "plugin_vendor", &plugin.vendor);
    return plugin;
}

static void check(const struct plugin *plugin, int mark, const char *when)
{
    int cuda = plugin->cuda(), nccl = plugin->nccl();
    if (cuda == mark && nccl == mark)
        return;
    printf("%s: plugin %d reaches CUDA %d and NCCL %d\n", when, mark, cuda, nccl);
    failed = true;
}

static void *end_group(void *argument)
{
    const struct plugin *plugin = argument;
    if (plugin->group_end() == 0) {
        printf("groups: a thread ends that of another\n");
        failed = true;
    }
    return NULL;
}

/* A group is its thread's own, as in NCCL: use_often() has several threads in groups of one library at once. */
static void check_group(struct plugin *plugin)
{
    pthread_t thread;
    int started = plugin->group_start();
    pthread_create(&thread, NULL, end_group, plugin);
    pthread_join(thread, NULL);
    int ended = plugin->group_end();
    if (started == 0 && ended == 0)
        return;
    printf("groups: start answers %d, end %d\n", started, ended);
    failed = true;
}

/* Unloads the plugin, and takes the place of what it was linked with if that went too: it will come back elsewhere. */
static void unload(struct plugin *plugin)
{
    uintptr_t page = (uintptr_t)plugin->vendor() / PAGE * PAGE;
    dlclose(plugin->handle);
    (void)mmap((void *)page, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

static void *use_often(void *argument)
{
    struct plugin *plugins = argument;
    for (int i = 0; i < 200; i++)
        check(&plugins[i % 2], i % 2 + 1, "threads");
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct plugin plugins[2];
    pthread_t threads[4];
    plugins[0] = load(argv[1]);
    check(&plugins[0], 1, "alone");
    unload(&plugins[0]);
    plugins[0] = load(argv[1]);
    check(&plugins[0], 1, "loaded again");
    plugins[1] = load(argv[2]);
    check(&plugins[1], 2, "beside");
    check(&plugins[0], 1, "beside");
    for (int i = 0; i < ROUNDS; i++) {
        unload(&plugins[i % 2]);
        unload(&plugins[1 - i % 2]);
        for (int k = 0; k < 2; k++)
            plugins[k] = load(argv[1 + k]);
        check(&plugins[0], 1, "reloaded");
        check(&plugins[1], 2, "reloaded");
    }
    for (int k = 0; k < 2; k++)
        check_group(&plugins[k]);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, use_often, plugins);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return failed;
}
