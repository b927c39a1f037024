#include "core/tool/json.h"

#include <inttypes.h>

#include "core/event.h"
#include "core/tool/tool.h"

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

void rp_json_string(FILE *out, const char *text)
{
    char safe[4 * RP_MODULE_NAME_MAX + 5];
    put_text(out, rp_tool_safe(text, safe, sizeof(safe)));
}

/* What stands before a value: the end of the one before, the indent, the name. */
static void put_start(struct rp_json *json, const char *key)
{
    if (json->depth > 0)
        fprintf(json->out, "%s\n%*s", json->filled ? "," : "", 2 * json->depth, "");
    json->filled = true;
    if (key != NULL) {
        put_text(json->out, key);
        fputs(": ", json->out);
    }
}

static void open_group(struct rp_json *json, const char *key, char bracket)
{
    put_start(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->filled = false;
}

static void close_group(struct rp_json *json, char bracket)
{
    json->depth--;
    if (json->filled)
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->out);
    json->filled = true;
    if (json->depth == 0)
        fputc('\n', json->out);
}

void rp_json_object(struct rp_json *json, const char *key)
{
    open_group(json, key, '{');
}

void rp_json_array(struct rp_json *json, const char *key)
{
    open_group(json, key, '[');
}

void rp_json_end_object(struct rp_json *json)
{
    close_group(json, '}');
}

void rp_json_end_array(struct rp_json *json)
{
    close_group(json, ']');
}

void rp_json_text(struct rp_json *json, const char *key, const char *text)
{
    put_start(json, key);
    rp_json_string(json->out, text);
}

void rp_json_number(struct rp_json *json, const char *key, int64_t number)
{
    put_start(json, key);
    fprintf(json->out, "%" PRId64, number);
}

void rp_json_real(struct rp_json *json, const char *key, double number)
{
    put_start(json, key);
    fprintf(json->out, "%.0f", number);
}

void rp_json_flag(struct rp_json *json, const char *key, bool flag)
{
    put_start(json, key);
    fputs(flag ? "true" : "false", json->out);
}

void rp_json_null(struct rp_json *json, const char *key)
{
    put_start(json, key);
    fputs("null", json->out);
}
