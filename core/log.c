/*
 * The one writer of log lines.
 *
 * A line is made on the stack and written by one write(2) with no lock held. The lock guards opening the file and
 * the held lines only. Signals that a write can raise (a pipe without a reader, a file at its limit, a terminal that
 * stops background writers) are kept from the application's handlers; a full pipe is waited for only shortly.
 *
 * Threads: any, also in hooks.
 */
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/own_file.h"

#define LINE_MAX_BYTES 1000
#define LINES_PER_SECOND 32u
#define HELD_LINES 16
#define HELD_BYTES 400
#define WRITABLE_WAIT_MS 100

enum target { TO_STDERR, TO_FILE_UNOPENED, TO_FILE };

struct held_line {
    enum rp_log_level level;
    char text[HELD_BYTES]; /* "object: text" */
};

static _Atomic int level_now = RP_LOG_INFO;
static _Atomic int rank_now = -1;
static _Atomic int target_now = TO_STDERR;
static struct rp_own_file file_now = {.descriptor = -1}; /* constant while target_now is TO_FILE */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static char pattern_now[PATH_MAX];
static bool holding = true;
static struct held_line held[HELD_LINES];
static unsigned held_count, held_lost;

/* Lines of the present second in the low half, the second in the high half. */
static _Atomic uint64_t window;
static _Atomic unsigned dropped;

const char *rp_log_level_name(enum rp_log_level level)
{
    static const char *const names[] = {
#define X(name, text) text,
        RP_LOG_LEVELS(X)
#undef X
    };
    return (unsigned)level < RP_LOG_LEVEL_COUNT ? names[level] : "?";
}

/* ---------------------------------------------------------------- writing */

/* The signals that writing a line can raise. */
static void write_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
    sigaddset(set, SIGXFSZ);
    sigaddset(set, SIGTTOU);
}

/* Writes with those signals blocked, and takes away the one that this write raised. */
static void write_quietly(int descriptor, const char *line, size_t length)
{
    sigset_t quiet, before, pending;
    struct pollfd writable = {.fd = descriptor, .events = POLLOUT};
    write_signals(&quiet);
    if (pthread_sigmask(SIG_BLOCK, &quiet, &before) != 0)
        return;
    sigpending(&pending);
    if (poll(&writable, 1, WRITABLE_WAIT_MS) > 0 && write(descriptor, line, length) < 0) {
        int raised = errno == EPIPE ? SIGPIPE : errno == EFBIG ? SIGXFSZ : 0;
        if (raised != 0 && !sigismember(&pending, raised)) {
            struct timespec now = {0, 0};
            sigset_t one;
            sigemptyset(&one);
            sigaddset(&one, raised);
            sigtimedwait(&one, NULL, &now);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* "[rank 3] " or "". */
static const char *rank_text(char text[32])
{
    int rank = atomic_load_explicit(&rank_now, memory_order_relaxed);
    text[0] = '\0';
    if (rank >= 0)
        snprintf(text, 32, "[rank %d] ", rank);
    return text;
}

/* One line stays one line, whatever is quoted in it. */
static void make_one_line(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
}

static void print_to(int descriptor, enum rp_log_level level, const char *text, unsigned lines_dropped)
{
    char line[LINE_MAX_BYTES + 100], rank[32], note[64] = "";
    if (lines_dropped > 0)
        snprintf(note, sizeof note, " (%u lines before this one were dropped)", lines_dropped);
    int length =
        snprintf(line, sizeof line, "reprise: %s%s %s%s", rank_text(rank), rp_log_level_name(level), text, note);
    if (length < 0)
        return;
    if ((size_t)length > sizeof line - 2)
        length = (int)sizeof line - 2;
    make_one_line(line);
    line[length] = '\n';
    write_quietly(descriptor, line, (size_t)length + 1);
}

/* ---------------------------------------------------------------- the file */

/* The pattern with %h, %p and %% replaced; any other % is kept. False if it is too long. */
static bool expand_pattern(const char *pattern, char *path, size_t size)
{
    size_t used = 0;
    for (const char *at = pattern; *at != '\0'; at++) {
        char piece[HOST_NAME_MAX + 1] = {*at, '\0'};
        if (at[0] == '%' && at[1] == 'h' && gethostname(piece, sizeof piece) == 0)
            at++;
        else if (at[0] == '%' && at[1] == 'p' && snprintf(piece, sizeof piece, "%ld", (long)getpid()) > 0)
            at++;
        else if (at[0] == '%' && at[1] == '%')
            at++;
        size_t length = strnlen(piece, sizeof piece - 1);
        if (used + length >= size)
            return false;
        memcpy(path + used, piece, length);
        used += length;
    }
    path[used] = '\0';
    return true;
}

/* Opens the file at the first line that is due. */
static void open_file(void)
{
    char path[PATH_MAX], text[LINE_MAX_BYTES];
    pthread_mutex_lock(&lock);
    bool failed = false;
    if (atomic_load_explicit(&target_now, memory_order_relaxed) == TO_FILE_UNOPENED) {
        errno = ENAMETOOLONG;
        failed = !expand_pattern(pattern_now, path, sizeof path) ||
                 rp_own_file_open(path, O_CREAT | O_APPEND, &file_now) != RP_OK;
        if (failed)
            snprintf(text, sizeof text, "log: %.600s cannot be opened: %s; lines go to standard error", pattern_now,
                     strerrordesc_np(errno));
        /* pairs with the acquire in descriptor_now() */
        atomic_store_explicit(&target_now, failed ? TO_STDERR : TO_FILE, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    if (failed)
        print_to(STDERR_FILENO, RP_LOG_WARN, text, 0);
}

static int descriptor_now(void)
{
    if (atomic_load_explicit(&target_now, memory_order_acquire) == TO_FILE_UNOPENED)
        open_file();
    /* pairs with the release in open_file() */
    if (atomic_load_explicit(&target_now, memory_order_acquire) != TO_FILE)
        return STDERR_FILENO;
    return rp_own_file_valid(&file_now) ? file_now.descriptor : STDERR_FILENO;
}

void rp_log_setup(enum rp_log_level level, const char *pattern)
{
    pthread_mutex_lock(&lock);
    if (atomic_load_explicit(&target_now, memory_order_relaxed) == TO_FILE)
        rp_own_file_close(&file_now);
    snprintf(pattern_now, sizeof pattern_now, "%s", pattern == NULL ? "" : pattern);
    atomic_store_explicit(&target_now, pattern_now[0] == '\0' ? TO_STDERR : TO_FILE_UNOPENED, memory_order_release);
    atomic_store_explicit(&level_now, level, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- lines */

/*
 * What a line leaves as it was. While it is made and written the thread cannot be cancelled: the calls under it are
 * cancellation points, which the application's own call may not be, and the lock may be held.
 */
struct caller {
    int error;
    int cancel_state;
};

static struct caller caller_keep(void)
{
    struct caller caller = {.error = errno};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &caller.cancel_state);
    return caller;
}

static void caller_restore(struct caller caller)
{
    pthread_setcancelstate(caller.cancel_state, &(int){0});
    errno = caller.error;
}

bool rp_log_enabled(enum rp_log_level level)
{
    return level != RP_LOG_NONE && (int)level <= atomic_load_explicit(&level_now, memory_order_relaxed);
}

/* Takes one of this second's lines; if there is none, counts the line as dropped. */
static bool take_line(unsigned *dropped_out)
{
    uint64_t second = rp_monotonic_ns() / 1000000000u + 1;
    uint64_t seen = atomic_load_explicit(&window, memory_order_relaxed);
    uint64_t next;
    do {
        next = seen >> 32 == second ? seen + 1 : second << 32 | 1;
        if ((uint32_t)next > LINES_PER_SECOND) {
            atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&window, &seen, next, memory_order_relaxed, memory_order_relaxed));
    *dropped_out = atomic_exchange_explicit(&dropped, 0, memory_order_relaxed);
    return true;
}

static void print_limited(enum rp_log_level level, const char *text)
{
    unsigned lines_dropped;
    if (take_line(&lines_dropped))
        print_to(descriptor_now(), level, text, lines_dropped);
}

/* "object: text", cut with "..." */
static void format_text(char *text, size_t size, const char *object, const char *format, va_list arguments)
{
    int head = snprintf(text, size, "%s: ", object);
    if (head < 0 || (size_t)head >= size)
        return;
    int body = vsnprintf(text + head, size - (size_t)head, format, arguments);
    if (body >= 0 && (size_t)body >= size - (size_t)head)
        memcpy(text + size - 4, "...", 4);
}

void rp_log(enum rp_log_level level, const char *object, const char *format, ...)
{
    if (!rp_log_enabled(level))
        return;
    struct caller caller = caller_keep();
    char text[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    format_text(text, sizeof text, object, format, arguments);
    va_end(arguments);
    print_limited(level, text);
    caller_restore(caller);
}

/* ---------------------------------------------------------------- lines of the job */

/* Holds the line back; false if the rank is known already. */
static bool hold_line(enum rp_log_level level, const char *text)
{
    pthread_mutex_lock(&lock);
    bool held_back = holding;
    if (holding && held_count < HELD_LINES) {
        struct held_line *line = &held[held_count++];
        size_t length = strnlen(text, HELD_BYTES - 1);
        line->level = level;
        memcpy(line->text, text, length);
        line->text[length] = '\0';
    } else if (holding) {
        held_lost++;
    }
    pthread_mutex_unlock(&lock);
    return held_back;
}

/* True if it is this process's to print now. */
static bool speaks(enum rp_log_level level, const char *text)
{
    return !hold_line(level, text) && atomic_load_explicit(&rank_now, memory_order_relaxed) == 0 &&
           rp_log_enabled(level);
}

/* `last`: past the limit. */
static void job_line(enum rp_log_level level, bool last, const char *object, const char *format, va_list arguments)
{
    if (level == RP_LOG_NONE)
        return;
    struct caller caller = caller_keep();
    char text[LINE_MAX_BYTES];
    format_text(text, sizeof text, object, format, arguments);
    if (speaks(level, text)) {
        if (last)
            print_to(descriptor_now(), level, text, atomic_exchange_explicit(&dropped, 0, memory_order_relaxed));
        else
            print_limited(level, text);
    }
    caller_restore(caller);
}

void rp_log_job(enum rp_log_level level, const char *object, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    job_line(level, false, object, format, arguments);
    va_end(arguments);
}

void rp_log_end(enum rp_log_level level, const char *object, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    job_line(level, true, object, format, arguments);
    va_end(arguments);
}

void rp_log_set_rank(int rank)
{
    struct caller caller = caller_keep();
    pthread_mutex_lock(&lock);
    bool first = holding;
    if (first) {
        holding = false;
        atomic_store_explicit(&rank_now, rank, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    /* Nobody else touches the held lines once `holding` is false. They are as many as were let in: no rate limit. */
    for (unsigned i = 0; first && rank == 0 && i < held_count; i++)
        if (rp_log_enabled(held[i].level))
            print_to(descriptor_now(), held[i].level, held[i].text, i + 1 == held_count ? held_lost : 0);
    caller_restore(caller);
}

void rp_log_forked(void)
{
    pthread_mutex_init(&lock, NULL);
    if (atomic_load_explicit(&target_now, memory_order_relaxed) == TO_FILE) {
        rp_own_file_close(&file_now);
        atomic_store_explicit(&target_now, TO_FILE_UNOPENED, memory_order_relaxed);
    }
    atomic_store_explicit(&rank_now, -1, memory_order_relaxed);
    atomic_store_explicit(&dropped, 0, memory_order_relaxed);
    holding = true;
    held_count = 0;
    held_lost = 0;
}
