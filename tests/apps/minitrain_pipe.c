/*
 * What the stages of a pipeline send one another: activations to the next one, gradients to the one before, in a ring,
 * since the last stage hands a chunk's output to the first one where there are several.
 *
 * An exchange is on the peer stream, after the work before it and before the work behind it on the compute stream, as
 * Megatron-LM's without overlap. Two ranks send each other their messages in one order, forward before backward in
 * every exchange; receives are in the same order, so that with two stages, whose neighbours are one rank, none is
 * taken for another.
 *
 * Main thread only.
 */
#include "minitrain.h"

#include "minitrain_calls.h"
#include "minitrain_check.h"
#include "minitrain_host.h"

#include <stdlib.h>

#define MAX_MESSAGES 4

struct message {
    bool backward;
    const struct mt_chunk *chunk; /* that the words are from, or for */
    int microbatch;
    int peer;             /* stage */
    const uint32_t *send; /* or NULL */
    uint32_t *receive;    /* or NULL */
};

struct exchange {
    int count;
    struct message message[MAX_MESSAGES];
};

static void add(struct exchange *exchange, struct message message)
{
    exchange->message[exchange->count++] = message;
}

/* NULL: there is no task. */
static const struct mt_chunk *chunk_of(const struct mt_trainer *t, struct mt_task task)
{
    return task.chunk < 0 ? NULL : &t->chunks[task.chunk];
}

static uint32_t *const *activations_of(const struct mt_chunk *chunk, struct mt_task task)
{
    return chunk->flight[task.microbatch % chunk->flights].activation;
}

static struct exchange plan(const struct mt_trainer *t, const struct mt_tick *last, const struct mt_tick *next)
{
    struct exchange exchange = {0};
    int stages = t->options->stages, behind = (t->stage + 1) % stages, before = (t->stage + stages - 1) % stages;
    const struct mt_chunk *chunk = chunk_of(t, last->forward);
    if (chunk && !chunk->heads)
        add(&exchange, (struct message){false, chunk, last->forward.microbatch, behind,
                                        activations_of(chunk, last->forward)[chunk->blocks], NULL});
    chunk = chunk_of(t, next->forward);
    if (chunk && !chunk->embeds)
        add(&exchange, (struct message){false, chunk, next->forward.microbatch, before, NULL,
                                        activations_of(chunk, next->forward)[0]});
    chunk = chunk_of(t, last->backward);
    if (chunk && !chunk->embeds)
        add(&exchange, (struct message){true, chunk, last->backward.microbatch, before, t->flow[0], NULL});
    chunk = chunk_of(t, next->backward);
    if (chunk && !chunk->heads)
        add(&exchange, (struct message){true, chunk, next->backward.microbatch, behind, NULL, t->from_next});
    return exchange;
}

static enum mt_phase phase_of(const struct message *m, bool eval)
{
    if (eval)
        return MT_EVAL;
    return m->backward ? MT_BACKWARD : MT_FORWARD;
}

/* 1F1B groups what it sends one neighbour with what it receives from the same one, the interleaved schedule all. One
 * microbatch alone, as in an evaluation, must not wait in a group for what becomes of what the group sends. */
static bool is_group(const struct mt_trainer *t, bool eval, const struct exchange *exchange)
{
    if (exchange->count < 2 || eval)
        return false;
    return t->options->schedule == MT_SCHEDULE_INTERLEAVED ||
           exchange->message[0].backward != exchange->message[1].backward;
}

struct issue {
    const struct mt_trainer *t;
    const struct message *message;
    bool group;
    enum mt_phase phase;
};

static void issue(void *argument)
{
    const struct issue *this = argument;
    const struct mt_trainer *t = this->t;
    const struct message *m = this->message;
    const char *call = m->send ? "ncclSend" : "ncclRecv";
    mt_called(m->chunk->name, this->phase, m->send ? "send" : "recv");
    ncclResult_t result = m->send ? ncclSend(m->send, t->words, ncclUint32, m->peer, t->pipe_comm, t->peer)
                                  : ncclRecv(m->receive, t->words, ncclUint32, m->peer, t->pipe_comm, t->peer);
    if (this->group)
        mt_queued(result, call);
    else
        mt_settle(t->pipe_comm, result, call);
}

void mt_pipe_exchange(struct mt_trainer *t, int step, bool eval, const struct mt_tick *last, const struct mt_tick *next)
{
    struct exchange exchange = plan(t, last, next);
    bool group = is_group(t, eval, &exchange);
    if (t->options->stages == 1 || exchange.count == 0)
        return;
    mt_stream_follow(t->peer, t->compute, t->compute_done);
    if (group)
        MT_NCCL(ncclGroupStart());
    for (int i = 0; i < exchange.count; i++) {
        const struct message *m = &exchange.message[i];
        struct issue this = {t, m, group, phase_of(m, eval)};
        mt_at(this.phase, m->chunk->name, issue, &this);
    }
    if (group)
        mt_settle(t->pipe_comm, ncclGroupEnd(), "ncclGroupEnd");
    for (int i = 0; i < exchange.count; i++) {
        const struct message *m = &exchange.message[i];
        struct mt_pass pass = {.step = step, .microbatch = m->microbatch, .eval = eval};
        if (m->receive)
            mt_delivered(t, t->peer, &pass, phase_of(m, false), "recv", m->chunk->name, m->receive,
                         t->words * sizeof *m->receive);
    }
    mt_stream_follow(t->compute, t->peer, t->peer_done);
}

/* The losses of a run in a message. */
static void bring(const struct mt_trainer *t, const char *name, float *losses)
{
    size_t bytes = (size_t)t->options->steps * sizeof *losses;
    void *host = malloc(bytes);
    if (!host)
        mt_die("no memory");
    if (t->rank > 0) {
        MT_CUDA(cudaMemcpy(host, losses, bytes, cudaMemcpyDeviceToHost));
        mt_post(name, host, bytes);
    } else {
        mt_wait(name, host, bytes, MT_WAIT_SECONDS);
        MT_CUDA(cudaMemcpy(losses, host, bytes, cudaMemcpyHostToDevice));
    }
    free(host);
}

void mt_pipe_losses(struct mt_trainer *t)
{
    int from = t->world - t->replicas;
    if (t->options->stages == 1 || (t->rank != 0 && t->rank != from))
        return;
    bring(t, ".losses", t->losses);
    bring(t, ".eval_losses", t->eval_losses);
}
