/* link: shim: site*.c */
/* What the native stack says: a library beside this program exports a name of PyTorch's autograd engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/site.h"
#include "shim/site_sources.h"
#include "tests/unit/site_world.h"

typedef void engine_run(void (*run)(void));

static struct rp_site_tables tables;
static void *engine_library;
static engine_run *in_backward;
static enum rp_phase said;

/* As a collective hook asks: its caller is where the application begins. */
__attribute__((noinline)) static void collective(void)
{
    struct rp_site_finding finding = {0};
    struct rp_site_query query = {.tables = &tables, .caller = __builtin_return_address(0)};
    rp_site_from_native(&query, &finding);
    assert_string_equal(rp_module_name(tables.modules, finding.call.module), "by offset");
    said = finding.call.phase;
}

__attribute__((noinline)) static void hook(void)
{
    collective();
    __asm__ volatile(""); /* a frame of its own */
}

static void load_engine(void)
{
    char self[PATH_MAX], file[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(file, sizeof(file), "%s/libsite_engine.so", dirname(self));
    engine_library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(engine_library);
    void *address = dlsym(engine_library, "_ZN5torch8autograd6Engine4testEv");
    assert_non_null(address);
    memcpy(&in_backward, &address, sizeof(address));
}

static int start(void **state)
{
    (void)state;
    tables = site_world_tables("[step]\n"
                               "native = _ZN5torch8autograd6Engine4test*\n"
                               "library = */libsite_engine.so\n"
                               "step = yes\n"
                               "[not here]\n"
                               "native = _ZN5torch8autograd6Engine4test*\n"
                               "library = */libother.so\n"
                               "phase = other\n"
                               "[without a symbol]\n"
                               "native = test_site_native+0x*\n"
                               "library = */test_site_native\n"
                               "module = \"by offset\"\n");
    rp_site_start(&tables);
    load_engine();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    site_world_free(&tables);
    return dlclose(engine_library);
}

static void inside_the_engine_is_backward(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        hook();
        assert_int_equal(said, RP_PHASE_UNKNOWN);
        in_backward(hook);
        assert_int_equal(said, RP_PHASE_BACKWARD);
    }
}

static void *caller_of_engine;

__attribute__((noinline)) static void from_above_the_engine(void)
{
    struct rp_site_finding finding = {0};
    struct rp_site_query query = {.tables = &tables, .caller = caller_of_engine};
    rp_site_from_native(&query, &finding);
    said = finding.call.phase;
}

__attribute__((noinline)) static void call_engine(void)
{
    caller_of_engine = __builtin_return_address(0);
    in_backward(from_above_the_engine);
    __asm__ volatile("");
}

/* Frames inside the caller are those of the library and its hook: their names say nothing of the application. */
static void frames_inside_the_caller_do_not_count(void **state)
{
    (void)state;
    call_engine();
    assert_int_equal(said, RP_PHASE_UNKNOWN);
    in_backward(call_engine);
    assert_int_equal(said, RP_PHASE_BACKWARD);
}

static void *thread_main(void *unused)
{
    in_backward(hook);
    return unused;
}

static void a_thread_of_the_engine_is_backward(void **state)
{
    pthread_t thread;
    (void)state;
    said = RP_PHASE_UNKNOWN;
    assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(said, RP_PHASE_BACKWARD);
}

__attribute__((noinline)) static int descend(int levels)
{
    if (levels == 0)
        hook();
    int below = levels > 0 ? descend(levels - 1) : 0;
    __asm__ volatile("" : "+r"(below)); /* one frame a level */
    return below + 1;
}

static void descend_near(void)
{
    descend(50);
}

static void descend_far(void)
{
    descend(5000);
}

static void the_innermost_frames_are_seen(void **state)
{
    (void)state;
    in_backward(descend_near);
    assert_int_equal(said, RP_PHASE_BACKWARD);
    in_backward(descend_far);
    assert_int_equal(said, RP_PHASE_UNKNOWN);
}

/* An address that had a name may have none, or another, after its library was unmapped. */
static void what_was_unmapped_is_forgotten(void **state)
{
    struct rp_site_place place;
    const char stale = 0;
    (void)state;
    in_backward(hook);
    assert_true(rp_site_cache_add(&rp_site_addresses, &stale, &(struct rp_site_place){0}));
    hook();
    assert_true(rp_site_cache_find(&rp_site_addresses, &stale, &place));
    assert_int_equal(dlclose(engine_library), 0);
    load_engine();
    hook();
    assert_false(rp_site_cache_find(&rp_site_addresses, &stale, &place));
    in_backward(hook);
    assert_int_equal(said, RP_PHASE_BACKWARD);
}

__attribute__((noinline)) static void two_collectives(void)
{
    rp_site_here(__builtin_return_address(0));
    rp_site_here(__builtin_return_address(0));
    __asm__ volatile("");
}

/* A step begins at the first collective under the frame, where the one before was not. */
static void a_step_begins_where_its_frame_is_entered(void **state)
{
    uint64_t before = rp_site_steps();
    (void)state;
    two_collectives();
    assert_int_equal(rp_site_steps(), before);
    in_backward(two_collectives);
    assert_int_equal(rp_site_steps(), before + 1);
    in_backward(two_collectives); /* nothing between: the same one */
    assert_int_equal(rp_site_steps(), before + 1);
    two_collectives();
    in_backward(two_collectives);
    assert_int_equal(rp_site_steps(), before + 2);
    assert_true(site_world_collectives(&tables, "_ZN5torch8autograd6Engine4testEv") >= 6);
    for (uint32_t i = 0; i < rp_seen_total(tables.seen); i++) /* what has no name is in no list */
        assert_null(strstr(rp_seen_site(tables.seen, i).text, "+0x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inside_the_engine_is_backward),
        cmocka_unit_test(frames_inside_the_caller_do_not_count),
        cmocka_unit_test(a_thread_of_the_engine_is_backward),
        cmocka_unit_test(the_innermost_frames_are_seen),
        cmocka_unit_test(what_was_unmapped_is_forgotten),
        cmocka_unit_test(a_step_begins_where_its_frame_is_entered),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
