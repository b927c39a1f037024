/*
 * Writes the trace of a run that never was: `mktrace DIR [name=number]...`. Several ranks train a model of equal
 * layers (gather in forward and backward, reduce-scatter in backward), with a gradient norm on a second
 * communicator, a message to the next rank and an allocation in each step. Times, addresses and contents are made
 * up but always the same.
 *
 *   ranks=2 steps=6 layers=3   the size of it
 *   at=3 only=-1               the step from which a change below holds, and its one rank (-1: all)
 *   skip, resize, retype, rename, bytes, launches = number of the layer that is changed so (-1: none)
 *   move, reduction, slow = likewise: the layer's gather in forward comes behind that of the next one, its reduction is
 *                              another one, its calls begin 3 ms before the next one and not 1 ms
 *   jitter=0                   so many us at most that each call begins later, by chance
 *   seed=0                     contents are others
 *   recompute=0                1: backward gathers each layer twice, at first as recompute
 *   prefetch=0                 1: backward gathers a layer ahead, in the hook of the one that comes before it: to that
 *                              one the launches behind the gather belong
 *   again=-1                   the layer that, with prefetch, computes its forward again there: more launches
 *   odd=0                      1: every op of the layers has another size, so that nothing repeats
 *   microbatches=1             passes of a step with the same weights
 *   replay=-1                  the step from which the run is replayed (-1: never): gathers have no fingerprints, the
 *                              first one of a layer is kept and the others come from memory
 *   miss, withdraw = number of the layer of which these are repaired, or withdrawn instead (-1: none), from `at` on
 *   ahead=-1                   the layer whose gathers, from `at` on, are all served from what was gathered ahead
 *   unused=-1                  the layer whose gathers are gathered ahead, from `at` on, for nothing
 *   live=0                     1: what is gathered ahead is from a live buffer
 *   names=1                    0: what comes from memory has no names
 *   forks=0                    how often the process forked
 *   fingerprints=1 finish=1    whether ops have fingerprints, and whether the file is completed
 *   sampled=0                  1: those of gathers are of samples
 *   lost=0                     launches lost
 *   early=0                    launches before the first op
 *   allocations=0              of another thread, before those
 *   adam=0                     launches behind each step's norm that belong to layers.0 optimizer
 *   single=0                   1: each launch by itself too, and the early ones
 *   sites=0                    1: what was seen at collectives, and kernels
 *   receive=0                  1: what the rank before sends is received
 *   norm=0                     bits of what is changed of the all-reduce of rank `only` from `at` on: 1 its bytes,
 *                              2 its reduction, 4 its type and size, 8 it is a broadcast
 *   end=-1                     the step before which rank `only` ends, its file not completed (-1: none)
 *   late=0                     ticks of 1 us that rank `only` is later than the others
 *   alone=0                    1: rank `only` is of another run
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/trace/trace.h"
#include "tests/unit/trace_file.h"

/* X(name, default) */
#define SETTINGS(X)    \
    X(ranks, 2)        \
    X(steps, 6)        \
    X(layers, 3)       \
    X(at, 3)           \
    X(only, -1)        \
    X(skip, -1)        \
    X(resize, -1)      \
    X(retype, -1)      \
    X(rename, -1)      \
    X(bytes, -1)       \
    X(launches, -1)    \
    X(move, -1)        \
    X(reduction, -1)   \
    X(slow, -1)        \
    X(jitter, 0)       \
    X(seed, 0)         \
    X(recompute, 0)    \
    X(prefetch, 0)     \
    X(again, -1)       \
    X(odd, 0)          \
    X(microbatches, 1) \
    X(replay, -1)      \
    X(miss, -1)        \
    X(withdraw, -1)    \
    X(ahead, -1)       \
    X(unused, -1)      \
    X(live, 0)         \
    X(names, 1)        \
    X(forks, 0)        \
    X(fingerprints, 1) \
    X(sampled, 0)      \
    X(finish, 1)       \
    X(lost, 0)         \
    X(early, 0)        \
    X(allocations, 0)  \
    X(adam, 0)         \
    X(single, 0)       \
    X(sites, 0)        \
    X(receive, 0)      \
    X(norm, 0)         \
    X(end, -1)         \
    X(late, 0)         \
    X(alone, 0)

static struct {
#define X(name, value) int name;
    SETTINGS(X)
#undef X
} set = {
#define X(name, value) .name = value,
    SETTINGS(X)
#undef X
};

enum { WORLD, NORM, NORM_MODULE = 1, LAYER_MODULE = 2 };

struct maker {
    struct rp_trace_writer *writer;
    int rank;
    int step, microbatch;
    int place; /* the layer to which the launches behind the next op belong, or -1: the op's */
    uint64_t now;
    uint64_t position[2];
    uint64_t issues; /* gathers ahead so far */
};

static void must(enum rp_status status, const char *what)
{
    if (status == RP_OK)
        return;
    fprintf(stderr, "mktrace: %s: %s\n", what, rp_status_text(status));
    exit(1);
}

static uint64_t hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t words[3] = {a, b, c};
    return XXH3_64bits(words, sizeof(words));
}

/* True if the change of that layer holds here. */
static bool is_changed(const struct maker *maker, int changed_layer, int layer)
{
    return changed_layer >= 0 && layer == changed_layer && maker->step >= set.at &&
           (set.only < 0 || set.only == maker->rank);
}

static struct rp_op make_op(struct maker *maker, enum rp_op_kind kind, uint64_t count, uint32_t module,
                            enum rp_phase phase)
{
    maker->now += 1000;
    if (set.jitter > 0)
        maker->now += hash(maker->now, (uint64_t)set.jitter, (uint64_t)maker->rank) % (uint64_t)set.jitter;
    return (struct rp_op){.kind = (uint8_t)kind,
                          .dtype = RP_DTYPE_BFLOAT16,
                          .redop = RP_REDOP_NONE,
                          .phase = (uint8_t)phase,
                          .root = -1,
                          .comm = RP_NO_COMM,
                          .position = RP_NO_POSITION,
                          .begin = maker->now,
                          .end = maker->now + 400,
                          .count = count,
                          .stream = 0x5500,
                          .module = module};
}

#define GEMM "_Z4gemmPKfS0_Pfi"
#define ADAM "_ZN4apex4adamIfEEvPT_f"

static void put_singles(struct maker *maker, uint64_t begin, uint64_t count, const char *kernel, struct rp_event event)
{
    for (uint64_t i = 0; i < count && set.single; i++) {
        const struct rp_trace_launch launch = {.event = event,
                                               .ticks = maker->now + 10 * (i + 1),
                                               .kernel = XXH64(kernel, strlen(kernel), 0),
                                               .stream = 0x5500,
                                               .grid = {1 + (uint32_t)i, 2, 1},
                                               .block = {128, 1, 1},
                                               .shared_bytes = 48};
        must(rp_trace_put_launch(maker->writer, begin, &launch), "launch");
    }
}

static void put_allocations(struct maker *maker)
{
    for (int i = 0; i < set.allocations; i++) {
        struct rp_op allocation = make_op(maker, RP_OP_MALLOC, 4096, RP_MODULE_UNKNOWN, RP_PHASE_UNKNOWN);
        allocation.dtype = RP_DTYPE_UINT8;
        must(rp_trace_put_op(maker->writer, 1, &allocation), "op");
    }
}

static void put_early(struct maker *maker)
{
    struct rp_trace_part part = {.first = maker->now + 10};
    if (set.early > 0)
        must(rp_trace_put_part(maker->writer, 0, 0, (uint64_t)set.early, 1, 0, &part), "part");
    put_singles(maker, 0, (uint64_t)set.early, GEMM, part.event);
    maker->now += set.allocations > 0 ? 10 * ((uint64_t)set.early + 1) : 0;
}

/* Behind the norm, whose own launches are two. */
static void put_adam(struct maker *maker, uint64_t begin)
{
    struct rp_trace_part part = {.event = {LAYER_MODULE, RP_PHASE_OPTIMIZER}, .first = maker->now + 30};
    if (set.adam > 0)
        must(rp_trace_put_part(maker->writer, 0, begin, 2 + (uint64_t)set.adam, 1, 2, &part), "part");
    put_singles(maker, begin, (uint64_t)set.adam, ADAM, part.event);
}

static struct rp_event put_launches(const struct maker *maker, const struct rp_op *op, uint64_t launches,
                                    uint64_t digest)
{
    if (maker->place < 0) {
        must(rp_trace_put_launches(maker->writer, 0, op->begin, launches, digest), "launches");
        return (struct rp_event){op->module, (enum rp_phase)op->phase};
    }
    struct rp_trace_part part = {.event = {LAYER_MODULE + (uint32_t)maker->place, (enum rp_phase)op->phase},
                                 .first = maker->now + 10};
    must(rp_trace_put_part(maker->writer, 0, op->begin, launches, digest, 0, &part), "part");
    return part.event;
}

static void put(struct maker *maker, const struct rp_op *op, uint64_t launches, uint64_t content)
{
    struct rp_op written = *op;
    if (!set.names && op->flags & RP_OP_HIT) {
        written.module = RP_MODULE_UNKNOWN;
        written.phase = RP_PHASE_UNKNOWN;
    }
    must(rp_trace_put_op(maker->writer, 0, &written), "op");
    put_singles(maker, op->begin, launches, GEMM,
                put_launches(maker, &written, launches, hash(launches, op->kind, op->phase)));
    if (op->flags & RP_OP_SAMPLED)
        content = hash(content, 1, 0);
    uint64_t fingerprint[2] = {content, ~content};
    if (op->flags & RP_OP_FINGERPRINTED)
        must(rp_trace_put_fingerprint(maker->writer, op->comm, op->position, fingerprint), "fingerprint");
}

static bool is_replayed(const struct maker *maker)
{
    return set.replay >= 0 && maker->step >= set.replay;
}

/* What replay notes of a gather of a layer. */
static uint16_t replay_flags(const struct maker *maker, int layer, enum rp_phase phase)
{
    if (is_changed(maker, set.ahead, layer))
        return RP_OP_VOTED | RP_OP_HIT | RP_OP_AHEAD;
    if (maker->microbatch == 0 && phase == RP_PHASE_FORWARD)
        return RP_OP_STORED;
    if (is_changed(maker, set.withdraw, layer))
        return RP_OP_VOTED | RP_OP_WITHDRAWN;
    return is_changed(maker, set.miss, layer) ? RP_OP_VOTED | RP_OP_STORED : RP_OP_VOTED | RP_OP_HIT;
}

/* Its gather, issued ahead behind the call before the last one. */
static void put_issue(struct maker *maker, const struct rp_op *op)
{
    const struct rp_issue issue = {.comm = op->comm,
                                   .source = set.live ? RP_ISSUE_LIVE : RP_ISSUE_SNAPSHOT,
                                   .number = ++maker->issues,
                                   .behind = op->position > 2 ? op->position - 2 : 0,
                                   .position = op->position,
                                   .begin = op->begin - 1500,
                                   .end = op->begin - 1480,
                                   .bytes = rp_op_bytes(op)};
    const struct rp_issue_use use = {.comm = op->comm, .number = issue.number, .position = op->position};
    must(rp_trace_put_issue(maker->writer, &issue), "issue");
    if (op->flags & RP_OP_AHEAD)
        must(rp_trace_put_issue_use(maker->writer, &use), "use");
}

/* A collective of a layer; `content` tells what its bytes hang on. */
static void put_layer(struct maker *maker, enum rp_op_kind kind, int layer, enum rp_phase phase, uint64_t content)
{
    if (is_changed(maker, set.skip, layer))
        return;
    uint32_t module =
        LAYER_MODULE + (uint32_t)layer + (is_changed(maker, set.rename, layer) ? (uint32_t)set.layers : 0);
    struct rp_op op = make_op(maker, kind, 1 << 20, module, phase);
    op.comm = WORLD;
    op.position = maker->position[WORLD]++;
    op.flags = RP_OP_IN_PLACE;
    if (kind == RP_OP_ALL_GATHER && is_replayed(maker))
        op.flags |= replay_flags(maker, layer, phase);
    else if (set.fingerprints)
        op.flags |= kind == RP_OP_ALL_GATHER && set.sampled ? RP_OP_FINGERPRINTED | RP_OP_SAMPLED : RP_OP_FINGERPRINTED;
    bool is_unused = kind == RP_OP_ALL_GATHER && is_changed(maker, set.unused, layer);
    if (kind == RP_OP_REDUCE_SCATTER) {
        op.redop = RP_REDOP_AVG;
        op.dtype = RP_DTYPE_FLOAT32;
    }
    if (set.odd)
        op.count += op.position;
    if (is_changed(maker, set.resize, layer))
        op.count *= 2;
    if (is_changed(maker, set.retype, layer))
        op.dtype = RP_DTYPE_FLOAT16;
    if (is_changed(maker, set.reduction, layer) && kind == RP_OP_REDUCE_SCATTER)
        op.redop = RP_REDOP_SUM;
    if (is_changed(maker, set.bytes, layer))
        content = ~content;
    if (op.flags & RP_OP_AHEAD || is_unused)
        put_issue(maker, &op);
    uint64_t again = maker->place >= 0 && is_changed(maker, set.again, maker->place) ? 7 : 0;
    put(maker, &op, again + (is_changed(maker, set.launches, layer) ? 8 : 7), content);
    if (is_changed(maker, set.slow, layer))
        maker->now += 2000;
}

static void put_forward(struct maker *maker, int layer)
{
    uint64_t content = hash((uint64_t)maker->step, (uint64_t)layer, (uint64_t)maker->rank + 100 * (uint64_t)set.seed);
    put_layer(maker, RP_OP_ALL_GATHER, layer, RP_PHASE_FORWARD, content);
}

static bool is_norm_changed(const struct maker *maker, int bit)
{
    return (set.norm & bit) != 0 && maker->step >= set.at && set.only == maker->rank;
}

static void change_norm(const struct maker *maker, struct rp_op *norm)
{
    if (is_norm_changed(maker, 2))
        norm->redop = RP_REDOP_MAX;
    if (is_norm_changed(maker, 4))
        norm->dtype = RP_DTYPE_FLOAT64;
    if (!is_norm_changed(maker, 8))
        return;
    norm->kind = RP_OP_BROADCAST;
    norm->redop = RP_REDOP_NONE;
    norm->root = 0;
}

static void put_beside(struct maker *maker)
{
    struct rp_op allocation = make_op(maker, RP_OP_MALLOC, 4096, RP_MODULE_UNKNOWN, RP_PHASE_UNKNOWN);
    allocation.dtype = RP_DTYPE_UINT8;
    put(maker, &allocation, 0, 0);
    struct rp_op send = make_op(maker, RP_OP_SEND, 512, RP_MODULE_UNKNOWN, RP_PHASE_OTHER);
    send.comm = WORLD;
    send.root = (maker->rank + 1) % set.ranks;
    put(maker, &send, 0, 0);
    if (set.receive) {
        struct rp_op receive = make_op(maker, RP_OP_RECV, 512, RP_MODULE_UNKNOWN, RP_PHASE_OTHER);
        receive.comm = WORLD;
        receive.root = (maker->rank + set.ranks - 1) % set.ranks;
        put(maker, &receive, 0, 0);
    }
    struct rp_op norm = make_op(maker, RP_OP_ALL_REDUCE, 1, NORM_MODULE, RP_PHASE_OPTIMIZER);
    norm.dtype = RP_DTYPE_FLOAT32;
    norm.redop = RP_REDOP_SUM;
    norm.comm = NORM;
    norm.position = maker->position[NORM]++;
    norm.flags = set.fingerprints ? RP_OP_FINGERPRINTED : 0;
    change_norm(maker, &norm);
    put(maker, &norm, 2, hash((uint64_t)maker->step, 77, is_norm_changed(maker, 1)));
    put_adam(maker, norm.begin);
}

/* The hook of a layer that gathers the next one of backward too. */
static void put_ahead(struct maker *maker, int layer, uint64_t weights)
{
    maker->place = layer;
    put_layer(maker, RP_OP_ALL_GATHER, layer - 1, RP_PHASE_BACKWARD, weights);
    maker->place = -1;
}

/* Weights are new in every step, and the same in all its passes. */
static void put_pass(struct maker *maker)
{
    uint64_t generation = (uint64_t)maker->step, rank = (uint64_t)maker->rank + 100 * (uint64_t)set.seed;
    uint64_t batch = generation + 1000 * (uint64_t)maker->microbatch;
    for (int layer = 0; layer < set.layers; layer++) {
        bool moves = is_changed(maker, set.move, layer) && layer + 1 < set.layers;
        put_forward(maker, moves ? layer + 1 : layer);
        if (moves)
            put_forward(maker, layer++);
    }
    for (int layer = set.layers - 1; layer >= 0; layer--) {
        uint64_t weights = hash(generation, (uint64_t)layer, rank);
        if (set.recompute)
            put_layer(maker, RP_OP_ALL_GATHER, layer, RP_PHASE_RECOMPUTE, weights);
        if (!set.prefetch || layer == set.layers - 1)
            put_layer(maker, RP_OP_ALL_GATHER, layer, RP_PHASE_BACKWARD, weights);
        if (set.prefetch && layer > 0)
            put_ahead(maker, layer, hash(generation, (uint64_t)layer - 1, rank));
        put_layer(maker, RP_OP_REDUCE_SCATTER, layer, RP_PHASE_BACKWARD, hash(batch, 100 + (uint64_t)layer, rank));
    }
}

static void put_state(struct maker *maker, enum rp_trace_state state, uint32_t comm, const char *text)
{
    must(rp_trace_put_state(maker->writer, state, comm, maker->now, text), "state");
}

static void put_step(struct maker *maker)
{
    char armed[64];
    snprintf(armed, sizeof(armed), "armed: from position %" PRIu64, maker->position[WORLD]);
    if (maker->step == set.replay)
        put_state(maker, RP_STATE_REPLAY_ARMED, WORLD, armed);
    for (maker->microbatch = 0; maker->microbatch < set.microbatches; maker->microbatch++)
        put_pass(maker);
    put_beside(maker);
    must(rp_trace_flush(maker->writer), "flush");
}

/* In another order than that of time: the file holds them as they came in. */
static void put_states(struct maker *maker)
{
    for (int i = 0; i < set.forks; i++)
        put_state(maker, RP_STATE_FORKED, RP_NO_COMM, NULL);
    if (set.replay < 0)
        return;
    put_state(maker, RP_STATE_REPLAY_FIGURES, WORLD, "6 hits");
    maker->now -= 1000;
    if (set.withdraw >= 0)
        put_state(maker, RP_STATE_REPLAY_RESTING, WORLD, "resting: a rank waited longer than the bound");
    put_state(maker, RP_STATE_REPLAY_PASSIVE, NORM, "\x1b[31mnothing repeats");
    maker->now += 1000;
}

static void put_names(struct maker *maker)
{
    char name[32];
    must(rp_trace_put_module(maker->writer, NORM_MODULE, "norm"), "module");
    for (int i = 0; i < 2 * set.layers; i++) {
        snprintf(name, sizeof(name), i < set.layers ? "layers.%d" : "blocks.%d", i % set.layers);
        must(rp_trace_put_module(maker->writer, LAYER_MODULE + (uint32_t)i, name), "module");
    }
    struct rp_trace_comm comm = {.number = WORLD,
                                 .nranks = set.ranks,
                                 .rank = maker->rank,
                                 .parent = RP_NO_COMM,
                                 .key = set.alone && set.only == maker->rank ? 2 : 1,
                                 .made = maker->now,
                                 .origin = RP_COMM_INIT,
                                 .name = "world"};
    must(rp_trace_put_comm(maker->writer, &comm), "comm");
    must(rp_trace_put_kernel(maker->writer, XXH64(GEMM, strlen(GEMM), 0), GEMM), "kernel");
    must(rp_trace_put_kernel(maker->writer, XXH64(ADAM, strlen(ADAM), 0), ADAM), "kernel");
    comm.number = NORM;
    comm.parent = WORLD;
    comm.origin = RP_COMM_SPLIT;
    comm.name[0] = '\0';
    must(rp_trace_put_comm(maker->writer, &comm), "comm");
}

static void put_sites(struct maker *maker)
{
    static const struct {
        struct rp_trace_site site;
        uint64_t count;
    } sites[] = {
        {{0, RP_SITE_PYTHON, 0, "Block.forward", "/home/me/model.py", "my.ini:block", "my.ini:block", ""}, 24},
        {{1, RP_SITE_PYTHON, 0, "Trainer.train_step", "/home/me/train.py", "", "", ""}, 60},
        {{2, RP_SITE_NATIVE, 0, "_ZN5torch8autograd6Engine3runEv", "/opt/lib/libtorch_cpu.so", "", "native.ini:b", ""},
         36},
        {{3, RP_SITE_NATIVE, 0, "libmine.so+0x1c40", "/opt/lib/libmine.so", "", "", ""}, 60},
        {{4, RP_SITE_NVTX, 0, "step; [1] {x}, \"a\"", "mine", "", "", ""}, 72},
        {{5, RP_SITE_NVTX, 0, "never counted", "", "my.ini:nvtx", "", ""}, 0},
        {{6, RP_SITE_KERNEL, 0, GEMM, "", "", "", ""}, 400},
        {{7, RP_SITE_KERNEL, 0, ADAM, "", "", "my.ini:adam", ""}, 6},
        {{8, RP_SITE_NVTX, 0, "batch 1", "mine", "", "", "my.ini:a whole batch"}, 12},
    };
    for (size_t i = 0; i < sizeof(sites) / sizeof(sites[0]); i++) {
        must(rp_trace_put_site(maker->writer, &sites[i].site), "site");
        if (sites[i].count > 0)
            must(rp_trace_put_site_count(maker->writer, sites[i].site.number, sites[i].count), "count");
    }
}

static void make_rank(const char *directory, int rank)
{
    struct rp_trace_identity identity = {.rank = rank,
                                         .nranks = set.ranks,
                                         .pid = 4000 + (uint64_t)rank,
                                         .start_wall_ns = 1767225600000000000u, /* 2026-01-01 */
                                         .start_ticks = 1000000,
                                         .ticks_per_second = 1000000,
                                         .host = "node-a",
                                         .program = "train.py"};
    struct maker maker = {.rank = rank, .place = -1, .now = identity.start_ticks};
    bool ends = set.end >= 0 && set.only == rank;
    int steps = ends && set.end < set.steps ? set.end : set.steps;
    must(trace_file_create(directory, &identity, &maker.writer), directory);
    put_names(&maker);
    put_allocations(&maker);
    put_early(&maker);
    if (set.replay >= 0)
        put_state(&maker, RP_STATE_REPLAY_LEARNING, WORLD, NULL);
    maker.now += set.only == rank ? (uint64_t)set.late : 0;
    for (maker.step = 0; maker.step < steps; maker.step++)
        put_step(&maker);
    put_states(&maker);
    if (set.sites)
        put_sites(&maker);
    if (set.lost > 0)
        must(rp_trace_put_loss(maker.writer, 0, (uint64_t)set.lost, 0, 0), "loss");
    if (!set.finish || ends) {
        must(rp_trace_flush(maker.writer), "flush");
        rp_trace_abandon(maker.writer);
        return;
    }
    must(
        rp_trace_put_clock(maker.writer, maker.now, identity.start_wall_ns + (maker.now - identity.start_ticks) * 1000),
        "clock");
    must(rp_trace_finish(maker.writer), "finish");
}

static bool take_setting(const char *argument)
{
    const char *equals = strchr(argument, '=');
    size_t length = equals == NULL ? 0 : (size_t)(equals - argument);
#define X(setting, value)                                                         \
    if (length == strlen(#setting) && strncmp(argument, #setting, length) == 0) { \
        set.setting = atoi(equals + 1);                                           \
        return true;                                                              \
    }
    SETTINGS(X)
#undef X
    return false;
}

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (!take_setting(argv[i])) {
            fprintf(stderr, "mktrace: %s: unknown\n", argv[i]);
            return 1;
        }
    }
    if (argc < 2 || (mkdir(argv[1], 0777) != 0 && errno != EEXIST)) {
        fprintf(stderr, "mktrace: a directory is needed\n");
        return 1;
    }
    for (int rank = 0; rank < set.ranks; rank++)
        make_rank(argv[1], rank);
    return 0;
}
