#include "core/compare/align_gap.h"

bool rp_align_gap_next(const uint32_t *match, struct rp_align_range *rest, struct rp_align_range *gap_out)
{
    while (rest->i < rest->i_end) {
        struct rp_align_range gap = {rest->i, rest->i, rest->j, rest->j_end};
        while (gap.i_end < rest->i_end && match[gap.i_end] == RP_ALIGN_NONE)
            gap.i_end++;
        if (gap.i_end < rest->i_end)
            gap.j_end = match[gap.i_end];
        rest->i = gap.i_end + 1;
        rest->j = gap.j_end + 1;
        if (gap.i < gap.i_end && gap.j < gap.j_end) {
            *gap_out = gap;
            return true;
        }
    }
    return false;
}

enum rp_status rp_align_gap_fill(struct rp_align_keys left, struct rp_align_keys right, struct rp_align_range gap,
                                 uint32_t *match)
{
    enum rp_status status = rp_align(left, right, match + gap.i);
    for (size_t i = gap.i; i < gap.i_end; i++) {
        if (match[i] != RP_ALIGN_NONE)
            match[i] += (uint32_t)gap.j;
    }
    return status;
}
