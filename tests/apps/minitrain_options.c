/* The command line of minitrain: one table of options, from which parsing and --help are made. */
#include "minitrain_options.h"

#include "minitrain_host.h"
#include "minitrain_site.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { INT, RATE, FLAG, CHOICE, AT_RANK, TEXT };

struct row {
    const char *name;
    enum kind kind;
    int min; /* INT */
    size_t field;
    const char *values;  /* CHOICE: names of 0, 1, ..., separated by '|'; else what --help calls the value */
    const char *initial; /* as on the command line; NULL: 0, none or nobody */
    const char *help;
};

#define AT(field) offsetof(struct mt_options, field)

static const struct row rows[] = {
    {"ranks", INT, 1, AT(ranks), "N", "2", "processes to start"},
    {"stages", INT, 1, AT(stages), "S", "1",
     "pipeline stages, each of ranks / S replicas: rank = stage * replicas + replica"},
    {"copies", INT, 1, AT(copies), "C", "1",
     "copies of the model, each sharded over ranks / C: rank = copy * (ranks / C) + shard"},
    {"schedule", CHOICE, 0, AT(schedule), "1f1b|interleaved", "1f1b", "order of the microbatches in a pipeline"},
    {"chunks", INT, 1, AT(chunks), "V", NULL, "parts of the model on each stage (2 if interleaved, else 1)"},
    {"layers", INT, 1, AT(layers), "N", "4", "blocks of the model"},
    {"dim", INT, 1, AT(dim), "N", "64", "width: a block has N x N weights, the root 2 N x N"},
    {"tokens", INT, 1, AT(tokens), "N", "4", "tokens of a microbatch on one rank"},
    {"microbatches", INT, 1, AT(microbatches), "N", "2", "microbatches of a step"},
    {"steps", INT, 1, AT(steps), "N", "3", "steps"},
    {"seed", INT, 0, AT(seed), "N", "0", "seed of weights and batches"},
    {"lr", RATE, 0, AT(lr), "RATE", "0.125", "learning rate"},
    {"zero-lr-steps", INT, 0, AT(zero_lr_steps), "N", NULL, "learning rate 0 in the first N steps"},
    {"gather", CHOICE, 0, AT(gather), "in-place|persistent", "in-place",
     "gather from a copy-in inside the receive buffer, or from a persistent shard"},
    {"recompute", CHOICE, 0, AT(recompute), "none|fsdp2|fsdp1", "none",
     "recompute every block in backward; fsdp1: gathered for that once more"},
    {"shared-block", FLAG, 0, AT(shared_block), NULL, NULL, "run the last block twice"},
    {"eval-every", INT, 0, AT(eval_every), "N", NULL, "a pass without backward after every N-th step"},
    {"edit-weights", INT, 0, AT(edit_weights), "STEP", NULL, "change layers.0 inside STEP, after its first microbatch"},
    {"edit-rank", INT, -1, AT(edit_rank), "RANK", "-1", "the only rank that edits its shard (-1: all)"},
    {"skip-layer", INT, 0, AT(skip_layer), "STEP", NULL, "leave out the middle block (number layers / 2) in STEP"},
    {"log-every", INT, 0, AT(log_every), "N", NULL, "all-reduce the loss after every N-th step"},
    {"sendrecv", FLAG, 0, AT(sendrecv), NULL, NULL, "send an activation round the ranks, on the gathers' communicator"},
    {"collect", FLAG, 0, AT(collect), NULL, NULL,
     "send all activations to the first rank, on the gathers' communicator"},
    {"host-wait", FLAG, 0, AT(host_wait), NULL, NULL, "last rank waits on the host until rank 0 has issued a gather"},
    {"recv-first", FLAG, 0, AT(recv_first), NULL, NULL,
     "odd ranks post a receive before a gather, its peer sends after"},
    {"late-gathers", FLAG, 0, AT(late_gathers), NULL, NULL,
     "a gather begins only when all that was computed before its call has ended"},
    {"group", FLAG, 0, AT(group), NULL, NULL, "forward gathers two blocks in one NCCL group"},
    {"two-comms", FLAG, 0, AT(two_comms), NULL, NULL, "reduce-scatters on a communicator of their own"},
    {"nonblocking", FLAG, 0, AT(nonblocking), NULL, NULL, "nonblocking communicators"},
    {"threads", FLAG, 0, AT(threads), NULL, NULL, "backward runs on a second thread"},
    {"default-stream", FLAG, 0, AT(default_stream), NULL, NULL, "compute on the legacy default stream"},
    {"sites", CHOICE, 0, AT(sites), "off|nvtx|native|python", "nvtx",
     "what tells phase and module of the work: NVTX ranges, functions' names, Python frames"},
    {"python", TEXT, 0, AT(python), "FILE", NULL, "shared library of Python, for --sites python"},
    {"calls", TEXT, 0, AT(calls), "FILE", NULL,
     "write a line \"<module> <phase> <op>\" of each call of rank R to FILE.R"},
    {"kill", AT_RANK, 0, AT(kill), "RANK:STEP", NULL, "RANK kills itself at the start of STEP"},
    {"allocate", AT_RANK, 0, AT(allocate), "RANK:STEP", NULL,
     "RANK allocates at the start of STEP what was free after setup, less 4 MiB"},
    {"fork-every", INT, 0, AT(fork_every), "N", NULL, "fork a child after every N-th step, which ends by exit()"},
    {"lag", AT_RANK, 0, AT(lag), "RANK:US", NULL, "RANK sleeps so long before each microbatch"},
    {"timeout", INT, 1, AT(timeout), "S", "60", "a rank that ends no step for S seconds aborts, exit code 3"},
    {"realtime", FLAG, 0, AT(realtime), NULL, NULL, "a stand-in runtime takes the time that it models"},
    {"compute-us", INT, 0, AT(compute_us), "N", NULL,
     "a stand-in runtime models forward of a block as N us, backward as twice that"},
    {"times", FLAG, 0, AT(times), NULL, NULL, "print what the compute stream of rank 0 waited for in each step"},
    {"checksums", FLAG, 0, AT(checksums), NULL, NULL, "print a checksum of every delivered buffer"},
};

#define ROWS (sizeof rows / sizeof rows[0])

static void help_row(const struct row *row)
{
    printf("  --%s%s%s\n        %s", row->name, row->values ? " " : "", row->values ? row->values : "", row->help);
    if (row->initial)
        printf(" (default %s)", row->initial);
    putchar('\n');
}

static void help(void)
{
    puts("Usage: minitrain [--ranks N] [OPTION]...\n"
         "A small sharded trainer on CUDA and NCCL. It starts its ranks itself, or is one rank where a launcher has\n"
         "set RANK, WORLD_SIZE, LOCAL_RANK and MINITRAIN_ID_FILE (a path that does not exist yet).\n");
    for (size_t i = 0; i < ROWS; i++)
        help_row(&rows[i]);
    exit(0);
}

__attribute__((format(printf, 1, 2), noreturn)) static void refuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("minitrain: error: ", stderr);
    vfprintf(stderr, format, list);
    fputs("; see --help\n", stderr);
    va_end(list);
    exit(MT_EXIT_USAGE);
}

static int read_int(const struct row *row, const char *text, char end, const char **rest_out)
{
    char *rest;
    errno = 0;
    long value = strtol(text, &rest, 10);
    if (rest == text || *rest != end || errno || value < row->min || value > INT_MAX)
        refuse("--%s %s: '%s' is no whole number of at least %d", row->name, row->values, text, row->min);
    if (rest_out)
        *rest_out = rest + 1;
    return (int)value;
}

static double read_rate(const struct row *row, const char *text)
{
    char *rest;
    double value = strtod(text, &rest);
    if (rest == text || *rest || !(value >= 0) || value > 1)
        refuse("--%s: '%s' is no number from 0 to 1", row->name, text);
    return value;
}

static int read_choice(const struct row *row, const char *text)
{
    size_t length = strlen(text);
    const char *name = row->values;
    for (int i = 0; name; i++) {
        const char *bar = strchr(name, '|');
        size_t size = bar ? (size_t)(bar - name) : strlen(name);
        if (size == length && strncmp(name, text, size) == 0)
            return i;
        name = bar ? bar + 1 : NULL;
    }
    refuse("--%s: '%s' is none of %s", row->name, text, row->values);
}

static void read_value(const struct row *row, const char *text, struct mt_options *options)
{
    void *field = (char *)options + row->field;
    switch (row->kind) {
    case INT:
        *(int *)field = read_int(row, text, '\0', NULL);
        break;
    case RATE:
        *(double *)field = read_rate(row, text);
        break;
    case FLAG:
        *(bool *)field = true;
        break;
    case CHOICE:
        *(int *)field = read_choice(row, text);
        break;
    case AT_RANK: {
        struct mt_at_rank *at = field;
        at->rank = read_int(row, text, ':', &text);
        at->value = read_int(row, text, '\0', NULL);
        break;
    }
    case TEXT:
        *(const char **)field = text;
        break;
    }
}

static const struct row *find(const char *name, size_t length)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

static void set_initial(struct mt_options *options)
{
    *options = (struct mt_options){.kill = {.rank = -1}, .lag = {.rank = -1}, .allocate = {.rank = -1}};
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].initial)
            read_value(&rows[i], rows[i].initial, options);
}

void mt_options_read(int argc, char **argv, struct mt_options *options_out)
{
    set_initial(options_out);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            help();
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        const char *value = strchr(name, '=');
        const struct row *row = find(name, value ? (size_t)(value - name) : strlen(name));
        if (!row)
            refuse("unknown option '%s'", argv[i]);
        if (row->kind == FLAG && value)
            refuse("--%s takes no value", row->name);
        if (row->kind != FLAG && !value && !argv[i + 1])
            refuse("--%s needs %s", row->name, row->values);
        if (row->kind != FLAG)
            value = value ? value + 1 : argv[++i];
        read_value(row, value, options_out);
    }
    if (options_out->chunks == 0)
        options_out->chunks = options_out->schedule == MT_SCHEDULE_INTERLEAVED ? 2 : 1;
}

static void check_interleaved(const struct mt_options *o)
{
    if (o->stages == 1)
        refuse("--schedule interleaved: needs at least two --stages");
    if (o->chunks == 1)
        refuse("--schedule interleaved: needs at least two --chunks");
    if (o->microbatches % o->stages != 0)
        refuse("--schedule interleaved: %d microbatches are not a multiple of %d stages", o->microbatches, o->stages);
}

static void check_sites(const struct mt_options *o)
{
    if (o->sites == MT_SITES_PYTHON && !o->python)
        refuse("--sites python: needs --python");
    if (o->sites == MT_SITES_NATIVE && !mt_names_are_enough(o->layers, o->stages * o->chunks))
        refuse("--sites native: no functions are named after so many layers or chunks");
}

void mt_options_check(const struct mt_options *o, int ranks)
{
    check_sites(o);
    if (ranks % o->stages != 0)
        refuse("--stages %d: %d ranks are not a multiple of it", o->stages, ranks);
    if (o->schedule == MT_SCHEDULE_INTERLEAVED)
        check_interleaved(o);
    else if (o->chunks > 1)
        refuse("--chunks %d: only with --schedule interleaved", o->chunks);
    if (o->layers % (o->stages * o->chunks) != 0)
        refuse("--layers %d: not a multiple of %d stages x %d chunks", o->layers, o->stages, o->chunks);
    if (ranks % o->copies != 0)
        refuse("--copies %d: %d ranks are not a multiple of it", o->copies, ranks);
    if (o->copies > 1 && (o->stages > 1 || o->recv_first))
        refuse("--copies: not with --stages or --recv-first");
    if (o->stages > 1 && o->recv_first)
        refuse("--recv-first: not with --stages, whose ranks send and receive already");
    if (o->stages > 1 && o->edit_rank >= ranks / o->stages)
        refuse("--edit-rank %d: layers.0 is on ranks 0 to %d", o->edit_rank, ranks / o->stages - 1);
}
