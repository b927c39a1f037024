/*
 * Checksums are computed on the device in the order of the stream that delivered, so printing them changes nothing
 * of what overlaps with what; the host reads them when a step has ended.
 *
 * Called by the thread that issues; never by two at a time.
 */
#include "minitrain_check.h"

#include "minitrain_host.h"

#include <stdio.h>
#include <stdlib.h>

struct delivery {
    int step, microbatch;
    enum mt_phase phase;
    const char *op, *module;
};

struct mt_deliveries {
    size_t capacity, count;
    struct delivery *delivery;
    uint64_t *parts; /* device: capacity * MT_CHECKSUM_PARTS */
    uint64_t *read;  /* the same on the host */
    FILE *lines;
    char *text;
    size_t text_size;
};

struct mt_deliveries *mt_deliveries_open(const struct mt_trainer *t, size_t capacity)
{
    if (!t->options->checksums)
        return NULL;
    struct mt_deliveries *d = calloc(1, sizeof *d);
    size_t bytes = capacity * MT_CHECKSUM_PARTS * sizeof(uint64_t);
    if (!d || !(d->delivery = calloc(capacity, sizeof *d->delivery)) || !(d->read = malloc(bytes)) ||
        !(d->lines = open_memstream(&d->text, &d->text_size)))
        mt_die("no memory for checksums");
    d->capacity = capacity;
    MT_CUDA(cudaMalloc((void **)&d->parts, bytes));
    return d;
}

void mt_deliveries_close(struct mt_deliveries *deliveries)
{
    if (!deliveries)
        return;
    MT_CUDA(cudaFree(deliveries->parts));
    fclose(deliveries->lines);
    free(deliveries->text);
    free(deliveries->read);
    free(deliveries->delivery);
    free(deliveries);
}

void mt_delivered(const struct mt_trainer *t, cudaStream_t stream, const struct mt_pass *pass, enum mt_phase phase,
                  const char *op, const char *module, const void *from, size_t bytes)
{
    struct mt_deliveries *d = t->deliveries;
    if (!d)
        return;
    if (d->count == d->capacity)
        mt_die("more than %zu deliveries in a step", d->capacity);
    mt_checksum_launch(stream, d->parts + d->count * MT_CHECKSUM_PARTS, from, bytes / sizeof(uint32_t), 0);
    d->delivery[d->count++] = (struct delivery){pass->step, pass->microbatch, mt_phase_in(pass, phase), op, module};
}

static uint64_t sum_of(const uint64_t *parts)
{
    uint64_t sum = 0;
    for (int i = 0; i < MT_CHECKSUM_PARTS; i++)
        sum += parts[i];
    return sum;
}

void mt_deliveries_collect(const struct mt_trainer *t)
{
    struct mt_deliveries *d = t->deliveries;
    if (!d)
        return;
    MT_CUDA(cudaDeviceSynchronize());
    MT_CUDA(cudaMemcpy(d->read, d->parts, d->count * MT_CHECKSUM_PARTS * sizeof(uint64_t), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < d->count; i++) {
        const struct delivery *at = &d->delivery[i];
        fprintf(d->lines, "rank %d step %d microbatch %d phase %s op %s module %s sum %016llx\n", t->rank, at->step,
                at->microbatch, mt_phase_name(at->phase), at->op, at->module,
                (unsigned long long)sum_of(d->read + i * MT_CHECKSUM_PARTS));
    }
    d->count = 0;
}

/* Each rank waits for the one before it; rank 0 for the last one at the end. */
void mt_deliveries_print(const struct mt_trainer *t)
{
    char name[32], token = 0;
    if (!t->deliveries)
        return;
    if (t->rank > 0) {
        snprintf(name, sizeof name, ".print.%d", t->rank);
        mt_wait(name, &token, sizeof token, MT_WAIT_SECONDS);
    }
    fflush(t->deliveries->lines);
    fputs(t->deliveries->text, stdout);
    fflush(stdout);
    snprintf(name, sizeof name, ".print.%d", t->rank + 1);
    mt_post(name, &token, sizeof token);
    if (t->rank > 0)
        return;
    snprintf(name, sizeof name, ".print.%d", t->world);
    mt_wait(name, &token, sizeof token, MT_WAIT_SECONDS);
}

static uint64_t shards_checksum(const struct mt_trainer *t)
{
    uint64_t *parts, read[MT_CHECKSUM_PARTS], sum = 0;
    MT_CUDA(cudaMalloc((void **)&parts, sizeof read));
    for (int i = 0; i <= t->options->layers; i++) {
        const struct mt_module *m = &t->modules[i];
        if (m->params == 0)
            continue;
        mt_checksum_launch(t->compute, parts, m->master, m->live, m->first);
        MT_CUDA(cudaMemcpyAsync(read, parts, sizeof read, cudaMemcpyDeviceToHost, t->compute));
        MT_CUDA(cudaStreamSynchronize(t->compute));
        sum += sum_of(read);
    }
    MT_CUDA(cudaFree(parts));
    return sum;
}

uint64_t mt_weights_checksum(const struct mt_trainer *t)
{
    char name[32];
    uint64_t sum = shards_checksum(t), other;
    if (t->rank > 0) {
        snprintf(name, sizeof name, ".weights.%d", t->rank);
        mt_post(name, &sum, sizeof sum);
        return sum;
    }
    for (int rank = 1; rank < t->world / t->copies; rank++) {
        snprintf(name, sizeof name, ".weights.%d", rank);
        mt_wait(name, &other, sizeof other, MT_WAIT_SECONDS);
        sum += other;
    }
    return sum;
}
