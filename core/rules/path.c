/* The grammar of README.md: each take_* moves `*at` behind what it takes, and is false if that is not there. */
#include "core/rules/path.h"

#include <ctype.h>
#include <string.h>

#define DIGITS "0123456789"
#define NUMBER_DIGITS 9 /* of an index, at most */

static bool take_path(const char **at, unsigned nested);

static bool is_text(const char *at, const char *text)
{
    return strncmp(at, text, strlen(text)) == 0;
}

static bool take_text(const char **at, const char *text)
{
    bool there = is_text(*at, text);
    *at += there ? strlen(text) : 0;
    return there;
}

static bool take_name(const char **at)
{
    size_t length = strspn(*at, RP_PATH_NAME_CHARACTERS);
    bool good = length > 0 && length < RP_PATH_NAME_BYTES && !isdigit((unsigned char)**at);
    *at += length;
    return good;
}

static bool take_number(const char **at)
{
    size_t length = strspn(*at, DIGITS);
    *at += length;
    return length <= NUMBER_DIGITS;
}

static bool take_item(const char **at, unsigned nested)
{
    if (isdigit((unsigned char)**at))
        return take_number(at) && take_text(at, "]");
    bool good = take_path(at, nested);
    take_text(at, RP_PATH_ALL_ITEMS);
    return good && take_text(at, "]");
}

static bool take_path(const char **at, unsigned nested)
{
    bool good = nested < RP_PATH_NESTED && take_name(at);
    while (good && (**at == '.' || **at == '[') && !is_text(*at, RP_PATH_ALL_ITEMS))
        good = *(*at)++ == '.' ? take_name(at) : take_item(at, nested + 1);
    return good;
}

bool rp_path_good(const char *text)
{
    do {
        bool good = take_path(&text, 0), second = take_text(&text, " - ") || take_text(&text, " // ");
        if (!good || (second && !take_path(&text, 0)))
            return false;
    } while (take_text(&text, " | "));
    return *text == '\0';
}
