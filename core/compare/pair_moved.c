#include "core/compare/pair_moved.h"

#include <stdlib.h>

struct alone {
    uint64_t signature, name;
    uint32_t index;
};

static int by_key(const struct alone *a, const struct alone *b)
{
    if (a->signature != b->signature)
        return a->signature < b->signature ? -1 : 1;
    return (a->name > b->name) - (a->name < b->name);
}

static int by_key_and_place(const void *left, const void *right)
{
    const struct alone *a = left, *b = right;
    int order = by_key(a, b);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static void list_alone(struct rp_pair_slice slice, const uint32_t *partner_of, struct alone *list)
{
    size_t count = 0;
    for (size_t i = 0; i < slice.count; i++) {
        if (partner_of[slice.index[i]] != RP_PAIR_NONE)
            continue;
        struct rp_pair_key key = rp_pair_key_of(slice.side, slice.index[i]);
        list[count++] = (struct alone){key.signature, key.name, slice.index[i]};
    }
    qsort(list, count, sizeof(*list), by_key_and_place);
}

enum rp_status rp_pair_moved(struct rp_pair_slice left, struct rp_pair_slice right, struct rp_pairs *pairs)
{
    size_t left_count = rp_pair_count_alone(left.index, left.count, pairs->right_of);
    size_t right_count = left_count == 0 ? 0 : rp_pair_count_alone(right.index, right.count, pairs->left_of);
    if (right_count == 0)
        return RP_OK;
    struct alone *left_alone = malloc(left_count * sizeof(*left_alone));
    struct alone *right_alone = malloc(right_count * sizeof(*right_alone));
    enum rp_status status = left_alone == NULL || right_alone == NULL ? RP_NO_MEMORY : RP_OK;
    if (status == RP_OK) {
        list_alone(left, pairs->right_of, left_alone);
        list_alone(right, pairs->left_of, right_alone);
    }
    for (size_t i = 0, j = 0; status == RP_OK && i < left_count && j < right_count;) {
        int order = by_key(&left_alone[i], &right_alone[j]);
        if (order == 0) {
            pairs->right_of[left_alone[i].index] = right_alone[j].index;
            pairs->left_of[right_alone[j].index] = left_alone[i].index;
            pairs->moved[left_alone[i].index] = true;
        }
        i += order <= 0;
        j += order >= 0;
    }
    free(left_alone);
    free(right_alone);
    return status;
}
