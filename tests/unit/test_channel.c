/* The segment in /dev/shm: who meets in it, what is refused, what is given back. Ranks are processes here. */
/* link: shim: channel.c */
#include "shim/channel.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/replay/learn.h"

/* Of this run and this call: tests of other runs have other segments. */
static uint64_t fresh_key(void)
{
    static uint64_t calls;
    return (uint64_t)getpid() << 32 | ++calls;
}

static struct rp_channel *open_channel(uint64_t key, uint32_t seats)
{
    struct rp_channel *channel = NULL;
    enum rp_status status = rp_channel_open(key, seats, 5, &channel);
    if (status != RP_OK)
        print_error("%s\n", rp_channel_error());
    assert_int_equal(status, RP_OK);
    return channel;
}

/* The number of this process's descriptor of the one segment that is open here, its path in *path_out. */
static int segment_descriptor(char path_out[64])
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    int found = -1;
    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        char target[64] = "";
        if (readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1) > 0 &&
            strncmp(target, "/dev/shm/reprise-", 17) == 0) {
            assert_int_equal(found, -1);
            found = atoi(entry->d_name);
            memcpy(path_out, target, sizeof(target));
        }
    }
    closedir(directory);
    return found;
}

/* Where the segment of `key` and `seats` lies. */
static void segment_path(uint64_t key, uint32_t seats, char path_out[64])
{
    struct rp_channel *channel = open_channel(key, seats);
    assert_true(segment_descriptor(path_out) >= 0);
    rp_channel_unlink(channel);
    rp_channel_close(channel);
}

static long long memory_of(int descriptor)
{
    struct stat info;
    assert_int_equal(fstat(descriptor, &info), 0);
    return (long long)info.st_blocks * 512;
}

/* ---------------------------------------------------------------- processes */

#define RANKS 3u

struct meeting {
    pthread_barrier_t barrier;
    uint64_t key;
    uint64_t terms[RANKS];
    enum rp_status expected;
};

/* A child must not end as the test program does. */
#define REQUIRE(condition)                                                              \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "%d: %s (%s)\n", __LINE__, #condition, rp_channel_error()); \
            _exit(1);                                                                   \
        }                                                                               \
    } while (0)

static void in_child(void (*body)(void *), void *argument)
{
    pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (child == 0) {
        body(argument);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* What the shim does with it, from the announcement to the end. */
static void live(struct meeting *meeting, uint32_t rank)
{
    struct rp_channel *channel;
    REQUIRE(rp_channel_open(meeting->key, RANKS, meeting->terms[rank], &channel) == RP_OK);
    pthread_barrier_wait(&meeting->barrier); /* the real creation */
    rp_channel_unlink(channel);
    rp_channel_unlink(channel);
    struct rp_agree *agree = rp_channel_agree(channel);
    REQUIRE(rp_agree_complete(agree, RANKS, rank) == meeting->expected);
    if (meeting->expected == RP_OK) {
        uint64_t *table = rp_channel_table(channel);
        REQUIRE(table != NULL && rp_channel_table(channel) == table);
        table[rank] = rank + 1;
        pthread_barrier_wait(&meeting->barrier);
        for (uint32_t i = 0; i < RANKS; i++)
            REQUIRE(table[i] == i + 1);
        table[rp_learn_bytes(RANKS) / sizeof(*table) - 1] = 1;
        enum rp_verdict verdict = rp_agree_vote(agree, 0, 0, 9, RP_VERDICT_YES);
        for (; verdict == RP_VERDICT_OPEN; sched_yield())
            verdict = rp_agree_read(agree, 0, 0);
        REQUIRE(verdict == RP_VERDICT_YES);
    }
    rp_channel_close(channel);
}

static void meet(const uint64_t terms[RANKS], uint32_t come, enum rp_status expected)
{
    struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    pid_t children[RANKS];
    char path[64];
    assert_true(meeting != MAP_FAILED);
    *meeting = (struct meeting){.key = fresh_key(), .expected = expected};
    memcpy(meeting->terms, terms, sizeof(meeting->terms));
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    assert_int_equal(pthread_barrier_init(&meeting->barrier, &shared, come), 0);
    segment_path(meeting->key, RANKS, path); /* and this process has a token, which its children must not share */
    for (uint32_t rank = 0; rank < come; rank++) {
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            live(meeting, rank);
            _exit(0);
        }
    }
    for (uint32_t rank = 0; rank < come; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(access(path, F_OK), -1);
    munmap(meeting, sizeof(*meeting));
}

static void ranks_of_a_communicator_meet(void **state)
{
    (void)state;
    meet((const uint64_t[RANKS]){5, 5, 5}, RANKS, RP_OK);
}

static void a_rank_that_is_missing_or_unlike_is_seen_by_all(void **state)
{
    (void)state;
    meet((const uint64_t[RANKS]){5, 5, 5}, RANKS - 1, RP_NOT_FOUND);
    meet((const uint64_t[RANKS]){5, 6, 5}, RANKS, RP_VERSION);
}

static void two_ranks_in_one_process_are_seen(void **state)
{
    (void)state;
    uint64_t key = fresh_key();
    struct rp_channel *one = open_channel(key, 2), *two = open_channel(key, 2);
    assert_int_equal(rp_agree_complete(rp_channel_agree(one), 2, 0), RP_UNSUPPORTED);
    assert_int_equal(rp_agree_complete(rp_channel_agree(two), 2, 1), RP_UNSUPPORTED);
    rp_channel_unlink(one);
    rp_channel_close(one);
    rp_channel_close(two);
}

/* ---------------------------------------------------------------- the file */

static void the_file_is_this_users_alone_and_small(void **state)
{
    (void)state;
    struct rp_channel *channel = open_channel(fresh_key(), RP_AGREE_RANKS);
    char path[64];
    struct stat info;
    int descriptor = segment_descriptor(path);
    assert_int_equal(fstat(descriptor, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_true(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
    assert_true(memory_of(descriptor) <= 1 << 20);
    assert_true(memory_of(descriptor) >= (long long)rp_agree_bytes(RP_AGREE_RANKS));
    rp_channel_unlink(channel);
    assert_int_equal(access(path, F_OK), -1);
    rp_channel_close(channel);
    assert_int_equal(segment_descriptor(path), -1);
    rp_channel_close(NULL);
}

static void keys_and_seats_have_segments_of_their_own(void **state)
{
    (void)state;
    uint64_t key = fresh_key();
    char one[64], two[64], three[64];
    segment_path(key, 2, one);
    segment_path(key, 3, two);
    segment_path(fresh_key(), 2, three);
    assert_string_not_equal(one, two);
    assert_string_not_equal(one, three);
}

static void refused(uint64_t key, uint32_t seats, enum rp_status expected, const char *cause)
{
    struct rp_channel *channel = NULL;
    assert_int_equal(rp_channel_open(key, seats, 5, &channel), expected);
    assert_null(channel);
    if (strstr(rp_channel_error(), cause) == NULL)
        print_error("%s\n", rp_channel_error());
    assert_non_null(strstr(rp_channel_error(), cause));
}

static void more_ranks_than_seats_are_refused(void **state)
{
    (void)state;
    uint64_t key = fresh_key();
    struct rp_channel *channel = open_channel(key, 1);
    refused(key, 1, RP_FULL, "no seat left");
    rp_channel_unlink(channel);
    rp_channel_close(channel);
    refused(key, 0, RP_UNSUPPORTED, "ranks");
    refused(key, RP_AGREE_RANKS + 1, RP_UNSUPPORTED, "ranks");
}

static void what_others_put_there_is_refused_and_left_alone(void **state)
{
    (void)state;
    uint64_t key = fresh_key();
    char path[64], target[] = "/tmp/reprise-test-XXXXXX";
    struct stat info;
    segment_path(key, 2, path);

    int file = mkstemp(target);
    assert_true(file >= 0);
    assert_int_equal(symlink(target, path), 0);
    refused(key, 2, RP_IO, "cannot open");
    assert_int_equal(fstat(file, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(unlink(path) | unlink(target) | close(file), 0);

    file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(file, "theirs", 6), 6);
    refused(key, 2, RP_UNSUPPORTED, "6 bytes");
    assert_int_equal(ftruncate(file, 0) | fchmod(file, 0644), 0);
    refused(key, 2, RP_UNSUPPORTED, "not this user's alone");
    assert_int_equal(fstat(file, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(unlink(path) | close(file), 0); /* it is still there */
}

static void with_a_file_limit(void *argument)
{
    struct rp_channel *channel = NULL;
    uint64_t key = *(const uint64_t *)argument;
    char path[64];
    REQUIRE(rp_channel_open(key, 2, 5, &channel) == RP_OK);
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    REQUIRE(rp_channel_table(channel) == NULL && strstr(rp_channel_error(), "limit of file sizes") != NULL);
    rp_channel_unlink(channel);
    rp_channel_close(channel);
    REQUIRE(rp_channel_open(key, 2, 5, &channel) == RP_UNSUPPORTED);
    REQUIRE(strstr(rp_channel_error(), "limit of file sizes") != NULL);
    REQUIRE(segment_descriptor(path) == -1);
}

/* It would end the program by SIGXFSZ. */
static void a_limit_of_file_sizes_is_minded(void **state)
{
    (void)state;
    uint64_t key = fresh_key();
    char path[64];
    segment_path(key, 2, path);
    in_child(with_a_file_limit, &key);
    assert_int_equal(access(path, F_OK), -1); /* who could not open leaves no name behind */
}

static void as_a_forks_child(void *argument)
{
    struct rp_channel *channel = argument;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *place = (char *)((uintptr_t)rp_channel_agree(channel)->shared / page * page);
    char *own = mmap(place, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(own == place); /* nothing is mapped there */
    *own = 'a';
    REQUIRE(rp_channel_table(channel) == NULL);
    rp_channel_table_drop(channel);
    rp_channel_unlink(channel);
    rp_channel_close(channel);
    REQUIRE(*own == 'a');
}

static void the_child_of_a_fork_has_no_part_in_it(void **state)
{
    (void)state;
    struct rp_channel *channel = open_channel(fresh_key(), 2);
    char path[64];
    int descriptor = segment_descriptor(path);
    uint64_t *table = rp_channel_table(channel);
    assert_non_null(table);
    *table = 7;
    in_child(as_a_forks_child, channel);
    assert_int_equal(access(path, F_OK), 0);
    assert_true(memory_of(descriptor) >= (long long)rp_learn_bytes(2));
    assert_int_equal(*table, 7);
    rp_channel_unlink(channel);
    rp_channel_close(channel);
}

/* ---------------------------------------------------------------- the learning table */

static void the_tables_memory_goes_back_with_its_last_user(void **state)
{
    (void)state;
    uint64_t key = fresh_key();
    char path[64];
    struct rp_channel *one = open_channel(key, 2);
    int descriptor = segment_descriptor(path);
    struct rp_channel *two = open_channel(key, 2);
    long long bare = memory_of(descriptor), table_bytes = (long long)rp_learn_bytes(2);
    uint64_t *here = rp_channel_table(one), *there = rp_channel_table(two);
    assert_true(here != NULL && there != NULL && here != there);
    assert_true(memory_of(descriptor) >= bare + table_bytes);
    here[table_bytes / 8 - 1] = 3;
    assert_int_equal(there[table_bytes / 8 - 1], 3);
    rp_channel_table_drop(one);
    rp_channel_table_drop(one);
    assert_int_equal(there[table_bytes / 8 - 1], 3);
    rp_channel_close(two);
    assert_int_equal(memory_of(descriptor), bare);
    here = rp_channel_table(one);
    assert_non_null(here);
    assert_int_equal(here[table_bytes / 8 - 1], 0);
    rp_channel_unlink(one);
    rp_channel_close(one);
}

static void a_descriptor_that_the_program_took_is_left_alone(void **state)
{
    (void)state;
    struct rp_channel *channel = open_channel(fresh_key(), 2);
    char path[64];
    int descriptor = segment_descriptor(path), other = open("/dev/null", O_WRONLY);
    assert_int_equal(dup2(other, descriptor), descriptor);
    assert_null(rp_channel_table(channel));
    assert_non_null(strstr(rp_channel_error(), "closed the descriptor"));
    rp_channel_unlink(channel);
    rp_channel_close(channel);
    assert_int_equal(close(descriptor), 0); /* was still the program's */
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_communicator_meet),
        cmocka_unit_test(a_rank_that_is_missing_or_unlike_is_seen_by_all),
        cmocka_unit_test(two_ranks_in_one_process_are_seen),
        cmocka_unit_test(the_file_is_this_users_alone_and_small),
        cmocka_unit_test(keys_and_seats_have_segments_of_their_own),
        cmocka_unit_test(more_ranks_than_seats_are_refused),
        cmocka_unit_test(what_others_put_there_is_refused_and_left_alone),
        cmocka_unit_test(a_limit_of_file_sizes_is_minded),
        cmocka_unit_test(the_child_of_a_fork_has_no_part_in_it),
        cmocka_unit_test(the_tables_memory_goes_back_with_its_last_user),
        cmocka_unit_test(a_descriptor_that_the_program_took_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
