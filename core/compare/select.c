#include "core/compare/select.h"

/* Hoare, "Algorithm 65: FIND", 1961. */
double rp_select(double *values, size_t count, size_t at)
{
    ptrdiff_t wanted = (ptrdiff_t)at, from = 0, to = (ptrdiff_t)count - 1;
    while (from < to) {
        double pivot = values[at];
        ptrdiff_t low = from, high = to;
        while (low <= high) {
            while (values[low] < pivot)
                low++;
            while (values[high] > pivot)
                high--;
            if (low > high)
                break;
            double swapped = values[low];
            values[low++] = values[high];
            values[high--] = swapped;
        }
        if (high < wanted)
            from = low;
        if (wanted < low)
            to = high;
    }
    return values[at];
}
