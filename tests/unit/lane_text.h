/*
 * Lanes for tests of cycles and steps: as text, one character an item, and from the recorded calls of an FSDP2 run.
 *
 *   a-z  gather of that signature      A-Z  the same gather with new content
 *   0-9  reduction of that signature   .    small item      blank: nothing, for reading
 *   |    the item behind it begins an annotated step
 */
#ifndef RP_TEST_LANE_TEXT_H
#define RP_TEST_LANE_TEXT_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/steps/cycle.h"

/* A microbatch of FSDP2 with four equal layers, as in tests/data/fsdp2-calls.tsv: the first of a step, and another. */
#define FIRST "RAAAA raa1a1a110 "
#define AGAIN "raaaa raa1a1a110 "
#define STEP FIRST AGAIN
#define STALE_STEP AGAIN AGAIN /* the weights were gathered before: by an evaluation, or they did not change */
#define EVALUATION "RAAAA "

#define CALLS_FILE "tests/data/fsdp2-calls.tsv"
#define CALLS_MAX 128

static inline struct rp_cycle_item lane_item(char c)
{
    struct rp_cycle_item item = {.signature = (uint64_t)tolower(c)};
    item.class = c == '.'     ? RP_CYCLE_SMALL
                 : isdigit(c) ? RP_CYCLE_REDUCE
                 : isupper(c) ? RP_CYCLE_FRESH
                              : RP_CYCLE_GATHER;
    return item;
}

/* Items of a text; the caller frees. Never NULL. */
static inline struct rp_cycle_item *lane_from_text(const char *text, size_t *count_out)
{
    struct rp_cycle_item *items = calloc(strlen(text) + 1, sizeof(*items));
    size_t count = 0;
    if (items == NULL)
        abort();
    bool step = false;
    for (const char *c = text; *c != '\0'; c++) {
        step = step || *c == '|';
        if (*c == ' ' || *c == '|')
            continue;
        items[count] = lane_item(*c);
        items[count++].step = step;
        step = false;
    }
    *count_out = count;
    return items;
}

struct call {
    struct rp_op op;
    char module[32];
};

/* The calls of the file, at most CALLS_MAX; 0 if it cannot be read (tests run in the repository's root). */
static inline size_t calls_read(struct call calls[CALLS_MAX])
{
    FILE *file = fopen(CALLS_FILE, "r");
    char line[1024], name[32], type[32];
    size_t count = 0;
    unsigned long elements;

    if (file == NULL)
        return 0;
    while (count < CALLS_MAX && fgets(line, sizeof(line), file) != NULL) {
        struct call *call = &calls[count];
        if (sscanf(line, "%*u\t%31s\t%lu\t%31s\t%*s\t%*s\t%*s\t%31s", name, &elements, type, call->module) != 4)
            continue;
        call->op = (struct rp_op){
            .kind = strcmp(name, "AllGather") == 0       ? RP_OP_ALL_GATHER
                    : strcmp(name, "ReduceScatter") == 0 ? RP_OP_REDUCE_SCATTER
                                                         : RP_OP_ALL_REDUCE,
            .dtype = strcmp(type, "bfloat16") == 0 ? RP_DTYPE_BFLOAT16 : RP_DTYPE_FLOAT32,
            .redop = strcmp(name, "AllGather") == 0 ? RP_REDOP_NONE : RP_REDOP_SUM,
            .root = -1,
            .count = elements,
        };
        count++;
    }
    fclose(file);
    return count;
}

#endif
