#include "core/issue.h"

const char *rp_issue_source_name(enum rp_issue_source source)
{
    switch (source) {
#define X(name, text)     \
    case RP_ISSUE_##name: \
        return text;
        RP_ISSUE_SOURCES(X)
#undef X
    case RP_ISSUE_SOURCE_COUNT:
        break;
    }
    return "?";
}
