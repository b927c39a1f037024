#include "core/tool/steps_option.h"

#include <errno.h>
#include <stdlib.h>

/* A step's number at *text; moves on behind it. False: there is none. */
static bool take_number(const char **text, size_t *number_out)
{
    char *end;
    if (**text < '0' || **text > '9') /* strtoul takes signs and spaces */
        return false;
    errno = 0;
    unsigned long number = strtoul(*text, &end, 10);
    if (number < 1 || number > INT32_MAX || errno != 0)
        return false;
    *text = end;
    *number_out = number;
    return true;
}

static bool parse(const char *text, struct rp_tool_steps *steps_out)
{
    size_t first = 1, last = RP_STEPS_OPEN;
    bool has_first = take_number(&text, &first), has_last = false;
    if (*text == ':') {
        text++;
        has_last = take_number(&text, &last);
    } else {
        last = first;
    }
    if (*text != '\0' || (!has_first && !has_last) || first > last)
        return false;
    *steps_out = (struct rp_tool_steps){.from = first - 1, .to = last};
    return true;
}

struct rp_tool_steps rp_tool_take_steps(struct argp_state *state, const char *text)
{
    struct rp_tool_steps steps = {0, RP_STEPS_OPEN};
    if (!parse(text, &steps))
        argp_error(state, "--steps wants K, A:B, A: or :B, counted from 1, not '%s'", text);
    return steps;
}

size_t rp_tool_steps_missing(struct rp_tool_steps steps, size_t count)
{
    if (steps.from == 0 && steps.to == RP_STEPS_OPEN)
        return 0;
    size_t last = steps.to == RP_STEPS_OPEN ? steps.from + 1 : steps.to;
    if (last <= count)
        return 0;
    return steps.from < count ? last : steps.from + 1;
}
