#include "core/tool/export_out.h"

#include <errno.h>
#include <string.h>

static void flush(struct rp_export_out *out)
{
    errno = EIO;
    if (out->error == 0 && out->used > 0 && fwrite(out->buffer, 1, out->used, out->file) != out->used)
        out->error = errno;
    out->used = 0;
}

void rp_export_out_begin(struct rp_export_out *out, FILE *file)
{
    out->file = file;
    out->used = 0;
    out->error = 0;
}

enum rp_status rp_export_out_end(struct rp_export_out *out)
{
    flush(out);
    if (out->error == 0 && fflush(out->file) != 0)
        out->error = errno;
    return out->error == 0 ? RP_OK : RP_IO;
}

void rp_export_bytes(struct rp_export_out *out, const void *bytes, size_t count)
{
    const unsigned char *from = bytes;
    while (count > 0) {
        if (out->used == sizeof(out->buffer))
            flush(out);
        size_t room = sizeof(out->buffer) - out->used;
        size_t part = count < room ? count : room;
        memcpy(out->buffer + out->used, from, part);
        out->used += part;
        from += part;
        count -= part;
    }
}

void rp_export_text(struct rp_export_out *out, const char *text)
{
    rp_export_bytes(out, text, strlen(text));
}

void rp_export_u64(struct rp_export_out *out, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    rp_export_bytes(out, digits + at, sizeof(digits) - at);
}

void rp_export_i64(struct rp_export_out *out, int64_t number)
{
    if (number < 0)
        rp_export_text(out, "-");
    rp_export_u64(out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void rp_export_hex(struct rp_export_out *out, uint64_t number, int digits)
{
    char text[16];
    int at = (int)sizeof(text);
    while (at > 0 && (number != 0 || (int)sizeof(text) - at < digits)) {
        text[--at] = "0123456789abcdef"[number & 15];
        number >>= 4;
    }
    rp_export_bytes(out, text + at, sizeof(text) - (size_t)at);
}

void rp_export_json_text(struct rp_export_out *out, const char *text)
{
    rp_export_text(out, "\"");
    for (;;) {
        size_t plain = strcspn(text, "\"\\");
        rp_export_bytes(out, text, plain);
        text += plain;
        if (*text == '\0')
            break;
        const char escaped[2] = {'\\', *text++};
        rp_export_bytes(out, escaped, sizeof(escaped));
    }
    rp_export_text(out, "\"");
}
