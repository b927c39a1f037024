/*
 * A library with the sites of libreprise.so and none of its hooks: a program asks for the event of a place by
 * calling probe_here() there, as a collective hook would.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/event.h"
#include "shim/annotations.h"
#include "shim/site.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *probe_here(void);
EXPORT const char *probe_last(void);
EXPORT const char *probe_in_new_thread(void);
EXPORT const char *probe_with_pending_exception(void);
EXPORT const char *probe_in_subinterpreter(void);
EXPORT void probe_at_exit(void);

static struct rp_modules *modules;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static _Thread_local char said[256];

/* With the rules of the file that PROBE_ANNOTATIONS names, over the shipped ones. */
static void start(void)
{
    struct rp_site_tables tables;
    if (rp_modules_create(&tables.modules) != RP_OK || rp_seen_create(&tables.seen) != RP_OK)
        return;
    modules = tables.modules;
    tables.rules = rp_annotations_load(getenv("PROBE_ANNOTATIONS"));
    if (tables.rules != NULL)
        rp_site_start(&tables);
}

/*
 * "phase module" of the caller's place, and where launches behind it belong elsewhere ", then phase module"; valid
 * until the thread's next call.
 */
const char *probe_here(void)
{
    pthread_once(&started, start);
    struct rp_site_events events = rp_site_here(__builtin_return_address(0));
    struct rp_event call = events.call, launches = events.launches;
    int length = snprintf(said, sizeof(said), "%s %s", rp_phase_name(call.phase), rp_module_name(modules, call.module));
    if (!rp_event_is_same(call, launches))
        snprintf(said + length, sizeof(said) - (size_t)length, ", then %s %s", rp_phase_name(launches.phase),
                 rp_module_name(modules, launches.module));
    return said;
}

/* What this thread was told last. */
const char *probe_last(void)
{
    return said;
}

static void *thread_main(void *result)
{
    strcpy(result, probe_here());
    return NULL;
}

/* From a thread that has never run Python, while this one waits for it. */
const char *probe_in_new_thread(void)
{
    pthread_t thread;
    char result[sizeof(said)] = "no thread";
    if (pthread_create(&thread, NULL, thread_main, result) == 0)
        pthread_join(thread, NULL);
    return strcpy(said, result);
}

static void *python_symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

#define PYTHON(result, name, ...) ((result(*)(__VA_ARGS__))python_symbol(name))

/* With the GIL held: asks while an exception is set, and leaves that to the caller. */
const char *probe_with_pending_exception(void)
{
    void **value_error = python_symbol("PyExc_ValueError");
    PYTHON(void, "PyErr_SetString", void *, const char *)(*value_error, "kept");
    return probe_here();
}

/* With the GIL held: asks while this thread is in another interpreter. */
const char *probe_in_subinterpreter(void)
{
    void *mine = PYTHON(void *, "PyThreadState_Get", void)();
    void *other = PYTHON(void *, "Py_NewInterpreter", void)();
    if (other == NULL)
        return "no interpreter";
    const char *result = probe_here();
    PYTHON(void, "Py_EndInterpreter", void *)(other);
    PYTHON(void *, "PyThreadState_Swap", void *)(mine);
    return result;
}

static void say_at_exit(void)
{
    const char *result = probe_here();
    char line[sizeof(said) + 16];
    int length = snprintf(line, sizeof(line), "after: %s\n", result);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(3);
}

/* Python calls it at the very end of its finalization. */
void probe_at_exit(void)
{
    PYTHON(int, "Py_AtExit", void (*)(void))(say_at_exit);
}
