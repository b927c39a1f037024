/* link: shim: site*.c */
/* NVTX ranges through NVIDIA's own NVTX, which is in its headers: this program injects the sites into itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include <nvtx3/nvToolsExt.h>

#include "shim/site.h"
#include "shim/site_sources.h"
#include "tests/unit/site_world.h"

extern int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

/* NVTX calls it at its first use when no injection library is named. */
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2;

static struct rp_site_tables tables;
static const struct rp_site_query query = {.tables = &tables};

static void says(const char *module, enum rp_phase phase)
{
    struct rp_site_finding finding = {0};
    uint64_t counted[RP_SEEN_MAX / 64] = {0};
    const struct rp_site_query collective = {.tables = &tables, .counted = counted};
    rp_site_from_nvtx(&collective, &finding);
    assert_string_equal(rp_module_name(tables.modules, finding.call.module), module);
    assert_int_equal(finding.call.phase, phase);
}

static void launches_are(const char *module, enum rp_phase phase)
{
    struct rp_site_finding finding = {0};
    rp_site_from_nvtx(&query, &finding);
    assert_string_equal(rp_module_name(tables.modules, finding.launches.module), module);
    assert_int_equal(finding.launches.phase, phase);
}

static const void *no_table(uint32_t id)
{
    (void)id;
    return NULL;
}

static void an_injection_that_cannot_work_is_refused(void **state)
{
    (void)state;
    assert_false(rp_site_on);
    assert_int_equal(InitializeInjectionNvtx2(no_table), 0); /* off: the table is not even asked for */
    atomic_store(&rp_site_on, true);                         /* as when the library is loaded */
    assert_int_equal(InitializeInjectionNvtx2(no_table), 0);
}

static void ranges_nest(void **state)
{
    (void)state;
    says("-", RP_PHASE_UNKNOWN);
    assert_int_equal(nvtxRangePushA("forward layers.0"), 0);
    says("layers.0", RP_PHASE_FORWARD);
    assert_int_equal(nvtxRangePushA("some kernel"), 1);
    says("layers.0", RP_PHASE_FORWARD);
    assert_int_equal(nvtxRangePushW(L"backward \u00fcber.\u4e2d.\U0001f600"), 2);
    says("\xc3\xbc"
         "ber.\xe4\xb8\xad.\xf0\x9f\x98\x80",
         RP_PHASE_BACKWARD);
    assert_int_equal(nvtxRangePop(), 2);
    says("layers.0", RP_PHASE_FORWARD);
    nvtxRangePop();
    assert_int_equal(nvtxRangePop(), 0);
    says("-", RP_PHASE_UNKNOWN);
}

static void module_and_phase_may_come_from_two_ranges(void **state)
{
    (void)state;
    nvtxRangePushA("forward layers.0");
    nvtxRangePushA("optimizer");
    says("layers.0", RP_PHASE_OPTIMIZER);
    nvtxRangePop();
    nvtxRangePop();
}

/* What gathers ahead names its gather alone. */
static void launches_belong_to_what_is_around_a_range_of_calls(void **state)
{
    (void)state;
    nvtxRangePushA("ahead of backward layers.1");
    launches_are("-", RP_PHASE_UNKNOWN);
    nvtxRangePop();
    nvtxRangePushA("recompute layers.3");
    launches_are("layers.3", RP_PHASE_RECOMPUTE);
    nvtxRangePushA("ahead of backward layers.2");
    says("layers.2", RP_PHASE_BACKWARD);
    launches_are("layers.3", RP_PHASE_RECOMPUTE);
    struct rp_site_events here = rp_site_here(NULL);
    assert_string_equal(rp_module_name(tables.modules, here.call.module), "layers.2");
    assert_string_equal(rp_module_name(tables.modules, here.launches.module), "layers.3");
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePushA("forward");
    nvtxRangePushA("ahead of backward layers.2");
    here = rp_site_here(NULL); /* what is around has no module */
    assert_string_equal(rp_module_name(tables.modules, here.launches.module), "layers.2");
    assert_int_equal(here.launches.phase, RP_PHASE_FORWARD);
    nvtxRangePop();
    nvtxRangePop();
}

static void pops_without_a_push_do_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_true(nvtxRangePop() < 0);
    assert_int_equal(nvtxRangePushA("forward a"), 0);
    says("a", RP_PHASE_FORWARD);
    nvtxRangePop();
}

static void ranges_beyond_the_last_place_pair(void **state)
{
    (void)state;
    nvtxRangePushA("forward outer");
    for (int i = 1; i <= 1000; i++)
        assert_int_equal(nvtxRangePushA(i < 100 ? "x" : "backward inner"), i);
    says("outer", RP_PHASE_FORWARD); /* the inner ones were not kept */
    for (int i = 1000; i >= 1; i--)
        assert_int_equal(nvtxRangePop(), i);
    says("outer", RP_PHASE_FORWARD);
    nvtxRangePop();
    says("-", RP_PHASE_UNKNOWN);
}

static void long_texts_are_cut(void **state)
{
    static char text[5000];
    static wchar_t wide[5000];
    (void)state;
    memset(text, 'm', sizeof(text) - 1);
    memcpy(text, "forward ", strlen("forward "));
    for (size_t i = 0; i < 4999; i++)
        wide[i] = i < 8 ? (wchar_t)text[i] : L'\u4e2d';
    for (int i = 0; i < 20; i++) {
        nvtxRangePushA(text);
        nvtxRangePushW(wide);
    }
    struct rp_site_finding finding = {0};
    rp_site_from_nvtx(&query, &finding);
    assert_int_equal(finding.call.phase, RP_PHASE_FORWARD);
    assert_in_range(strlen(rp_module_name(tables.modules, finding.call.module)), 900, 1100);
    for (int i = 0; i < 40; i++)
        nvtxRangePop();
    says("-", RP_PHASE_UNKNOWN);
}

static nvtxEventAttributes_t attributes(int type)
{
    return (nvtxEventAttributes_t){.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE, .messageType = type};
}

/* As a program without an NVTX tool may well do unnoticed. */
static void handles_that_are_none_of_ours_are_the_default(void **state)
{
    static char elsewhere[64];
    nvtxEventAttributes_t registered = attributes(NVTX_MESSAGE_TYPE_REGISTERED);
    (void)state;
    nvtxRangePushA("forward a");
    for (uintptr_t i = 1; i < 5; i++) {
        void *handle = i < 3 ? (void *)(0x1233 * i) : elsewhere + i;
        registered.message.registered = handle;
        nvtxRangePushEx(&registered);
        nvtxDomainRangePushEx(handle, &registered);
        says("a", RP_PHASE_FORWARD);
        nvtxDomainRangePop(handle);
        nvtxDomainRangePop(handle);
        nvtxDomainRangeEnd(handle, nvtxDomainRangeStartEx(handle, &registered));
    }
    registered.message.registered = (void *)((char *)nvtxDomainRegisterStringA(NULL, "backward b") + 1);
    nvtxRangePushEx(&registered);
    says("a", RP_PHASE_FORWARD);
    nvtxRangePop();
    nvtxRangePop();
}

static _Atomic bool forking;

static void *open_ranges(void *unused)
{
    while (atomic_load(&forking)) {
        nvtxDomainCreateA("a domain");
        nvtxRangeEnd(nvtxRangeStartA("x"));
    }
    return unused;
}

static int open_ranges_in_a_child(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        nvtxDomainCreateA("a domain");
        nvtxRangeEnd(nvtxRangeStartA("x"));
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* No lock that another thread held at the fork is held in the child, also before anything is recorded. */
static void a_child_of_a_fork_opens_ranges(void **state)
{
    pthread_t threads[3];
    (void)state;
    rp_site_nvtx_announce();
    atomic_store(&forking, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_ranges, NULL), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(open_ranges_in_a_child(), 0);
    atomic_store(&forking, false);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void messages_come_in_every_form(void **state)
{
    nvtxEventAttributes_t plain = attributes(NVTX_MESSAGE_TYPE_ASCII);
    nvtxEventAttributes_t wide = attributes(NVTX_MESSAGE_TYPE_UNICODE);
    nvtxEventAttributes_t registered = attributes(NVTX_MESSAGE_TYPE_REGISTERED);
    nvtxEventAttributes_t none = attributes(NVTX_MESSAGE_UNKNOWN);
    char text[] = "forward registered";
    (void)state;
    plain.message.ascii = "forward plain";
    wide.message.unicode = L"forward wide";
    registered.message.registered = nvtxDomainRegisterStringA(NULL, text);
    memset(text, 'x', sizeof(text) - 1); /* NVTX keeps a copy */
    nvtxRangePushEx(&plain);
    says("plain", RP_PHASE_FORWARD);
    nvtxRangePushEx(&wide);
    says("wide", RP_PHASE_FORWARD);
    nvtxRangePushEx(&registered);
    says("registered", RP_PHASE_FORWARD);
    registered.message.registered = nvtxDomainRegisterStringW(NULL, L"forward both");
    nvtxRangePushEx(&registered);
    says("both", RP_PHASE_FORWARD);
    registered.message.registered = NULL;
    nvtxRangePushEx(&registered);
    nvtxRangePushEx(&none);
    nvtxRangePushEx(NULL);
    says("both", RP_PHASE_FORWARD);
    for (int i = 0; i < 7; i++)
        nvtxRangePop();
    says("-", RP_PHASE_UNKNOWN);
}

static void domains_pop_their_own(void **state)
{
    nvtxDomainHandle_t framework = nvtxDomainCreateA("framework"), other = nvtxDomainCreateW(L"other");
    nvtxEventAttributes_t event = attributes(NVTX_MESSAGE_TYPE_ASCII);
    (void)state;
    event.message.ascii = "forward a";
    nvtxDomainRangePushEx(framework, &event);
    event.message.ascii = "backward b";
    nvtxDomainRangePushEx(other, &event);
    says("b", RP_PHASE_BACKWARD);
    nvtxDomainRangePop(framework); /* out of turn */
    says("b", RP_PHASE_BACKWARD);
    assert_true(nvtxRangePop() < 0); /* nothing is open in the default domain */
    assert_true(nvtxDomainRangePop(framework) < 0);
    nvtxDomainRangePop(other);
    says("-", RP_PHASE_UNKNOWN);
    assert_int_equal(nvtxRangePushA("x"), 0); /* both places are free again */
    nvtxRangePop();
}

static void the_domain_of_nccl_is_left_out(void **state)
{
    nvtxDomainHandle_t nccl = nvtxDomainCreateA("NCCL");
    nvtxEventAttributes_t event = attributes(NVTX_MESSAGE_TYPE_ASCII);
    (void)state;
    event.message.ascii = "other ncclAllGather";
    nvtxRangePushA("forward a");
    nvtxDomainRangePushEx(nccl, &event);
    says("a", RP_PHASE_FORWARD);
    nvtxDomainRangePop(nccl);
    says("a", RP_PHASE_FORWARD);
    nvtxRangePop();
}

static void many_domains_and_strings_are_bounded(void **state)
{
    nvtxEventAttributes_t event = attributes(NVTX_MESSAGE_TYPE_REGISTERED);
    nvtxDomainHandle_t domain = NULL;
    (void)state;
    for (int i = 0; i < 1000; i++)
        domain = nvtxDomainCreateA("one more");
    for (int i = 0; i < 10000; i++)
        event.message.registered = nvtxDomainRegisterStringA(domain, "forward x");
    nvtxDomainRangePushEx(domain, &event);
    nvtxDomainRangePop(domain);
    says("-", RP_PHASE_UNKNOWN);
}

static void started_ranges_are_outside_of_pushed_ones(void **state)
{
    nvtxEventAttributes_t wide = attributes(NVTX_MESSAGE_TYPE_UNICODE);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("framework");
    (void)state;
    wide.message.unicode = L"forward wide";
    nvtxRangeId_t first = nvtxRangeStartA("backward first"), second = nvtxRangeStartW(L"forward second");
    assert_true(first != 0 && second != 0 && first != second);
    says("second", RP_PHASE_FORWARD); /* the last one that was started is the inner one */
    nvtxRangePushA("recompute pushed");
    says("pushed", RP_PHASE_RECOMPUTE);
    nvtxRangePop();
    nvtxRangeEnd(second);
    says("first", RP_PHASE_BACKWARD);
    second = nvtxRangeStartEx(&wide);
    says("wide", RP_PHASE_FORWARD);
    nvtxRangeEnd(first); /* they need not nest */
    says("wide", RP_PHASE_FORWARD);
    nvtxRangeEnd(second);
    first = nvtxDomainRangeStartEx(domain, &wide);
    says("wide", RP_PHASE_FORWARD);
    nvtxDomainRangeEnd(domain, first);
    nvtxRangeEnd(first);
    nvtxRangeEnd(0);
    says("-", RP_PHASE_UNKNOWN);
}

static void *ask_and_end(void *number)
{
    says("theirs", RP_PHASE_FORWARD);
    nvtxRangeEnd(*(nvtxRangeId_t *)number);
    return NULL;
}

static void started_ranges_are_those_of_all_threads(void **state)
{
    pthread_t thread;
    nvtxRangeId_t number = nvtxRangeStartA("forward theirs");
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ask_and_end, &number), 0);
    pthread_join(thread, NULL);
    says("-", RP_PHASE_UNKNOWN);
}

static void started_ranges_are_bounded(void **state)
{
    nvtxRangeId_t numbers[100];
    (void)state;
    numbers[0] = nvtxRangeStartA("forward kept");
    for (int i = 1; i < 100; i++)
        numbers[i] = nvtxRangeStartA("other");
    says("kept", RP_PHASE_OTHER);
    for (int i = 0; i < 100; i++)
        nvtxRangeEnd(numbers[i]);
    says("-", RP_PHASE_UNKNOWN);
    numbers[0] = nvtxRangeStartA("forward again");
    says("again", RP_PHASE_FORWARD);
    nvtxRangeEnd(numbers[0]);
}

static void a_domain_is_asked_for_by_name(void **state)
{
    nvtxEventAttributes_t event = attributes(NVTX_MESSAGE_TYPE_ASCII);
    nvtxDomainHandle_t framework = nvtxDomainCreateA("framework"), other = nvtxDomainCreateW(L"other");
    (void)state;
    assert_ptr_equal(nvtxDomainCreateW(L"framework"), framework); /* one for a name */
    event.message.ascii = "unit 7: all";
    nvtxDomainRangePushEx(other, &event);
    nvtxRangePushA("unit 7: all");
    says("-", RP_PHASE_UNKNOWN);
    nvtxDomainRangePushEx(framework, &event);
    says("all of 7", RP_PHASE_OTHER);
    nvtxDomainRangePop(framework);
    nvtxRangePop();
    nvtxDomainRangePop(other);
}

static void nested_modules_are_joined(void **state)
{
    (void)state;
    nvtxRangeId_t outermost = nvtxRangeStartA("in model");
    nvtxRangePushA("in layers");
    nvtxRangePushA("forward plain"); /* not nested: alone, and in nobody's name */
    says("plain", RP_PHASE_FORWARD);
    nvtxRangePushA("in 3");
    says("model.layers.3", RP_PHASE_FORWARD);
    nvtxRangePushA("in 3"); /* a module is not inside itself */
    says("model.layers.3", RP_PHASE_FORWARD);
    nvtxRangePushA("in root");
    says("model.layers.3", RP_PHASE_FORWARD); /* an empty name adds nothing */
    for (int i = 0; i < 5; i++)
        nvtxRangePop();
    says("model", RP_PHASE_UNKNOWN);
    nvtxRangeEnd(outermost);
}

static void a_step_begins_with_its_range(void **state)
{
    uint64_t before = rp_site_steps();
    (void)state;
    nvtxRangePushA("step 1");
    assert_int_equal(rp_site_steps(), before + 1);
    says("-", RP_PHASE_UNKNOWN);
    says("-", RP_PHASE_UNKNOWN);
    nvtxRangePop();
    assert_int_equal(rp_site_steps(), before + 1);
    nvtxRangePushA("step 2"); /* also where nothing is in it */
    nvtxRangePop();
    nvtxRangeEnd(nvtxRangeStartA("step 3"));
    assert_int_equal(rp_site_steps(), before + 3);
    nvtxRangePushA("no step 4");
    nvtxRangePop();
    assert_int_equal(rp_site_steps(), before + 3);
}

/* What was open before the library started: its step is told by the first collective. */
static void a_step_that_was_open_is_told_once(void **state)
{
    uint64_t before = rp_site_steps();
    (void)state;
    assert_int_equal(nvtxRangePushA("step 0"), 0);
    assert_int_equal(rp_site_steps(), before); /* no rules so far */
    rp_site_start(&tables);
    says("-", RP_PHASE_UNKNOWN);
    assert_int_equal(rp_site_steps(), before + 1);
    says("-", RP_PHASE_UNKNOWN);
    assert_int_equal(rp_site_steps(), before + 1);
    nvtxRangePop();
}

static void what_was_seen_is_counted(void **state)
{
    (void)state;
    nvtxRangePushA("forward seen");
    nvtxRangePushA("of no rule");
    says("seen", RP_PHASE_FORWARD);
    nvtxRangePushA("nothing under it");
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePushA("forward seen");
    says("seen", RP_PHASE_FORWARD); /* under both, and once under that name */
    nvtxRangePop();
    nvtxRangePop();
    assert_int_equal(site_world_collectives(&tables, "forward seen"), 2);
    assert_int_equal(site_world_collectives(&tables, "of no rule"), 1);
    assert_int_equal(site_world_collectives(&tables, "nothing under it"), -1);
}

static void *other_thread(void *unused)
{
    says("-", RP_PHASE_UNKNOWN);
    nvtxRangePushA("backward theirs"); /* and the thread ends with it open */
    says("theirs", RP_PHASE_BACKWARD);
    return unused;
}

static void threads_have_their_own(void **state)
{
    pthread_t thread;
    (void)state;
    nvtxRangePushA("forward mine");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    says("mine", RP_PHASE_FORWARD);
    nvtxRangePop();
}

static int start(void **state)
{
    (void)state;
    unsetenv("NVTX_INJECTION64_PATH");
    tables = site_world_tables("[ahead]\n"
                               "nvtx = ahead of {phase} {module}\n"
                               "launches = no\n"
                               "[domain]\n"
                               "nvtx = unit {n}: {what}\n"
                               "domain = frame*\n"
                               "module = \"{what} of {n}\"\n"
                               "phase = other\n"
                               "[nested]\n"
                               "nvtx = in {module}\n"
                               "nested = yes\n"
                               "[nested root]\n"
                               "nvtx = in root\n"
                               "module = \"\"\n"
                               "nested = yes\n"
                               "[step]\n"
                               "nvtx = step *\n"
                               "step = yes\n");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_injection_that_cannot_work_is_refused),
        cmocka_unit_test(a_step_that_was_open_is_told_once),
        cmocka_unit_test(ranges_nest),
        cmocka_unit_test(module_and_phase_may_come_from_two_ranges),
        cmocka_unit_test(launches_belong_to_what_is_around_a_range_of_calls),
        cmocka_unit_test(pops_without_a_push_do_nothing),
        cmocka_unit_test(ranges_beyond_the_last_place_pair),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(handles_that_are_none_of_ours_are_the_default),
        cmocka_unit_test(messages_come_in_every_form),
        cmocka_unit_test(domains_pop_their_own),
        cmocka_unit_test(the_domain_of_nccl_is_left_out),
        cmocka_unit_test(started_ranges_are_outside_of_pushed_ones),
        cmocka_unit_test(started_ranges_are_those_of_all_threads),
        cmocka_unit_test(started_ranges_are_bounded),
        cmocka_unit_test(a_domain_is_asked_for_by_name),
        cmocka_unit_test(nested_modules_are_joined),
        cmocka_unit_test(a_step_begins_with_its_range),
        cmocka_unit_test(what_was_seen_is_counted),
        cmocka_unit_test(threads_have_their_own),
        cmocka_unit_test(many_domains_and_strings_are_bounded), /* no more room after it */
        cmocka_unit_test(a_child_of_a_fork_opens_ranges),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
