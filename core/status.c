/* Texts of results. */
#include "core/status.h"

const char *rp_status_text(enum rp_status status)
{
    switch (status) {
#define X(name, text) \
    case RP_##name:   \
        return text;
        RP_STATUSES(X)
#undef X
    }
    return "unknown status";
}
