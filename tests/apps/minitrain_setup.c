/* What a rank of minitrain has: device, streams, memory, communicators. Main thread only. */
#include "minitrain.h"

#include "minitrain_check.h"
#include "minitrain_host.h"
#include "minitrain_times.h"

#include <stdio.h>
#include <stdlib.h>

/* Elements: a shard is whole 16-byte words also as bfloat16. */
#define SHARD_MULTIPLE 8

static void *host_array(size_t count, size_t size)
{
    void *array = calloc(count, size);
    if (!array)
        mt_die("no memory for %zu x %zu bytes", count, size);
    return array;
}

/* Zeroed device memory. */
static void *device_array(const struct mt_trainer *t, size_t count, size_t size)
{
    void *array = NULL;
    MT_CUDA(cudaMalloc(&array, count * size));
    MT_CUDA(cudaMemsetAsync(array, 0, count * size, t->compute));
    return array;
}

static cudaEvent_t event_new(unsigned flags)
{
    cudaEvent_t event;
    MT_CUDA(cudaEventCreateWithFlags(&event, flags));
    return event;
}

static cudaEvent_t plain_event(void)
{
    return event_new(cudaEventDisableTiming);
}

static cudaStream_t stream_new(void)
{
    cudaStream_t stream;
    MT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void open_device(struct mt_trainer *t)
{
    const char *local = getenv("LOCAL_RANK");
    int count = 0;
    MT_CUDA(cudaGetDeviceCount(&count));
    if (count == 0)
        mt_die("no device");
    t->device = (local ? atoi(local) : t->rank) % count;
    MT_CUDA(cudaSetDevice(t->device));
}

static void open_streams(struct mt_trainer *t)
{
    t->compute = t->options->default_stream ? NULL : stream_new();
    t->copy_in = stream_new();
    t->gather = stream_new();
    t->reduce = stream_new();
    t->peer = stream_new();
    t->compute_done = plain_event();
    t->reduce_done = plain_event();
    t->peer_done = plain_event();
}

/* Name, size and place in the model. */
static struct mt_module root_module(const struct mt_trainer *t)
{
    size_t square = (size_t)t->options->dim * (size_t)t->options->dim;
    bool embeds = t->stage == 0, heads = t->stage == t->options->stages - 1;
    struct mt_module root = {.params = square * ((embeds ? 1 : 0) + (heads ? 1 : 0)), .first = embeds ? 0 : square};
    snprintf(root.name, sizeof root.name, "%s", !heads ? "embed" : embeds ? "root" : "head");
    return root;
}

static struct mt_module block_module(const struct mt_trainer *t, uint32_t block)
{
    int chunk = (int)block / (t->options->layers / (t->options->stages * t->options->chunks));
    struct mt_module module = {.index = block + 1, .first = (uint64_t)(block + 1) << 32};
    snprintf(module.name, sizeof module.name, "layers.%u", block);
    if (chunk % t->options->stages == t->stage)
        module.params = (size_t)t->options->dim * (size_t)t->options->dim;
    return module;
}

/* This rank's shard. */
static void open_module(const struct mt_trainer *t, struct mt_module *m)
{
    size_t unit = (size_t)t->replicas * SHARD_MULTIPLE;
    m->shard = (m->params + unit - 1) / unit * SHARD_MULTIPLE;
    size_t first = (size_t)t->replica * m->shard;
    size_t left = m->params > first ? m->params - first : 0;
    m->live = left < m->shard ? left : m->shard;
    m->first += first;
    m->master = device_array(t, m->shard, sizeof *m->master);
    m->gradient = device_array(t, m->shard, sizeof *m->gradient);
    mt_init_launch(t->compute, m->master, m->shard, m->live, m->first, (uint32_t)t->options->seed);
    if (t->options->gather != MT_GATHER_PERSISTENT)
        return;
    m->sent = device_array(t, m->shard, sizeof *m->sent);
    mt_copy_in_launch(t->compute, m->sent, m->master, m->shard);
}

static struct mt_slots slots_new(const struct mt_trainer *t, const struct mt_module *like, int count)
{
    struct mt_slots slots = {.slot = host_array((size_t)count, sizeof *slots.slot), .count = count};
    size_t elements = (size_t)t->replicas * like->shard;
    bool in_place = t->options->gather == MT_GATHER_IN_PLACE;
    for (int i = 0; i < count; i++) {
        struct mt_slot *slot = &slots.slot[i];
        slot->gathered = device_array(t, elements, sizeof *slot->gathered);
        slot->full = in_place ? device_array(t, elements, sizeof *slot->full) : slot->gathered;
        slot->copied_in = plain_event();
        slot->filled = plain_event();
        slot->released = plain_event();
    }
    return slots;
}

static struct mt_gradients gradients_new(const struct mt_trainer *t, const struct mt_module *like, int count)
{
    struct mt_gradients gradients = {.gradient = host_array((size_t)count, sizeof *gradients.gradient), .count = count};
    for (int i = 0; i < count; i++) {
        struct mt_gradient *gradient = &gradients.gradient[i];
        gradient->full = device_array(t, (size_t)t->replicas * like->shard, sizeof *gradient->full);
        gradient->reduced = device_array(t, like->shard, sizeof *gradient->reduced);
        gradient->ready = plain_event();
        gradient->released = plain_event();
    }
    return gradients;
}

static void open_model(struct mt_trainer *t)
{
    uint32_t layers = (uint32_t)t->options->layers;
    const struct mt_module *block = NULL;
    t->modules = host_array(layers + 1, sizeof *t->modules);
    t->modules[0] = root_module(t);
    for (uint32_t i = 0; i < layers; i++)
        t->modules[1 + i] = block_module(t, i);
    for (uint32_t i = 0; i <= layers; i++) {
        if (t->modules[i].params == 0)
            continue;
        open_module(t, &t->modules[i]);
        block = &t->modules[i];
    }
    if (t->modules[0].params > 0) {
        t->root_slots = slots_new(t, &t->modules[0], MT_ROOT_SLOTS);
        t->root_gradients = gradients_new(t, &t->modules[0], 1);
    }
    t->block_slots = slots_new(t, block, MT_BLOCK_SLOTS);
    t->block_gradients = gradients_new(t, block, MT_GRADIENT_SLOTS);
}

static uint32_t *words_new(const struct mt_trainer *t)
{
    return device_array(t, t->words, sizeof(uint32_t));
}

static struct mt_flight flight_new(const struct mt_trainer *t, const struct mt_chunk *chunk)
{
    struct mt_flight flight = {.activation = host_array((size_t)chunk->executions + 1, sizeof(uint32_t *))};
    for (int i = 0; i <= chunk->executions; i++)
        flight.activation[i] = words_new(t);
    flight.words_in = chunk->embeds ? words_new(t) : NULL;
    flight.logits = chunk->heads ? words_new(t) : NULL;
    return flight;
}

/* With --shared-block the last block is run twice, in the last chunk. */
static void open_chunk(const struct mt_trainer *t, int number)
{
    const struct mt_options *o = t->options;
    struct mt_chunk *chunk = &t->chunks[number];
    int all = o->stages * o->chunks, index = number * o->stages + t->stage;
    snprintf(chunk->name, sizeof chunk->name, "chunk.%d", index);
    chunk->embeds = index == 0;
    chunk->heads = index == all - 1;
    chunk->executions = o->layers / all + (chunk->heads && o->shared_block ? 1 : 0);
    chunk->first = index * (o->layers / all);
    chunk->order = host_array((size_t)chunk->executions, sizeof *chunk->order);
    chunk->flights = mt_schedule_in_flight(t->training, number);
    chunk->flight = host_array((size_t)chunk->flights, sizeof *chunk->flight);
    for (int i = 0; i < chunk->flights; i++)
        chunk->flight[i] = flight_new(t, chunk);
}

static void open_schedule(struct mt_trainer *t)
{
    const struct mt_options *o = t->options;
    t->training =
        mt_schedule_train((enum mt_schedule_kind)o->schedule, o->stages, t->stage, o->chunks, o->microbatches);
    t->evaluation = mt_schedule_forward(o->chunks, o->microbatches);
    if (!t->training || !t->evaluation)
        mt_die("no memory for a schedule");
    t->chunks = host_array((size_t)o->chunks, sizeof *t->chunks);
    for (int i = 0; i < o->chunks; i++)
        open_chunk(t, i);
}

static void open_activations(struct mt_trainer *t)
{
    size_t steps = (size_t)t->options->steps;
    t->words = (size_t)t->options->tokens * (size_t)t->options->dim;
    open_schedule(t);
    t->recomputed = words_new(t);
    t->received = device_array(t, t->words * (size_t)t->replicas, sizeof(uint32_t));
    t->from_peer = words_new(t);
    t->from_next = words_new(t);
    t->flow[0] = words_new(t);
    t->flow[1] = words_new(t);
    t->losses = device_array(t, steps, sizeof(float));
    t->mean_losses = device_array(t, steps, sizeof(float));
    t->eval_losses = device_array(t, steps, sizeof(float));
    t->step_marks = host_array(steps + 1, sizeof(cudaEvent_t));
    for (size_t i = 0; i <= steps; i++)
        t->step_marks[i] = event_new(cudaEventDefault);
}

/* At most six deliveries for a block's execution, a few around those of a chunk, and those that --collect gathers. */
static size_t deliveries_of_step(const struct mt_trainer *t)
{
    size_t deliveries = 0;
    for (int i = 0; i < t->options->chunks; i++)
        deliveries += 6 * (size_t)t->chunks[i].executions + 10 + (size_t)t->replicas;
    return ((size_t)t->options->microbatches + 1) * deliveries;
}

void mt_setup(struct mt_trainer *t, const struct mt_options *options, int rank, int world)
{
    int replicas = world / options->stages / options->copies;
    *t = (struct mt_trainer){.options = options,
                             .rank = rank,
                             .world = world,
                             .stage = rank / replicas % options->stages,
                             .copy = rank / replicas / options->stages,
                             .copies = options->copies,
                             .replica = rank % replicas,
                             .replicas = replicas};
    open_device(t);
    open_streams(t);
    open_model(t);
    open_activations(t);
    MT_CUDA(cudaStreamSynchronize(t->compute));
    mt_comms_open(t);
    t->deliveries = mt_deliveries_open(t, deliveries_of_step(t));
    t->times = mt_times_open(t);
    mt_model_matrix_us(options->compute_us);
    size_t total;
    MT_CUDA(cudaMemGetInfo(&t->free_memory, &total));
}

/* The rest goes with the process. */
void mt_teardown(struct mt_trainer *t)
{
    mt_times_close(t->times);
    mt_deliveries_close(t->deliveries);
    mt_comms_close(t);
}
