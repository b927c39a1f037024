/*
 * Annotation files through inih. It splits a line into key and value and knows comments; line numbers, the beginnings
 * of sections and lines that are no pairs it does not tell (its handler is called for pairs alone), so lines are handed
 * to it one by one and counted here. They are handed over without blanks before them: it would take an indented line
 * for more of the value before.
 */
#include "core/rules/rule_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ini.h>

#include "core/rules/rule_draft.h"

#define TEXT_OF(number) #number
#define TEXT_OF_VALUE(number) TEXT_OF(number)
#define RULES_MAX_TEXT TEXT_OF_VALUE(RP_RULES_MAX)
#define BLANKS " \t\r\f\v"
#define INIH_NO_MEMORY (-2)
#define COMPLAINTS 8 /* of one file, by themselves: what is no annotation file at all has a fault in every line */

struct reading {
    struct rp_rules *rules;
    const char *file;
    bool shipped;
    const struct rp_rule_complaints *complaints;
    const char *at, *end;
    unsigned line;
    bool in_section;
    unsigned complaints_made;
    bool unanswered; /* the line that was handed over last should be a pair, and the handler was not called so far */
    struct rp_rule_draft draft;
    enum rp_status status;
};

/* `line` 0: of the whole file. */
static void complain(const struct rp_rule_complaints *complaints, const char *file, unsigned line, const char *fault)
{
    char text[2 * RP_RULE_LINE_BYTES + 256];
    if (line != 0)
        snprintf(text, sizeof(text), "%.200s:%u: %s", file, line, fault);
    else
        snprintf(text, sizeof(text), "%.200s: %s", file, fault);
    complaints->say(complaints->context, text);
}

static void complain_of_line(struct reading *reading, unsigned line, const char *text)
{
    if (reading->complaints_made++ < COMPLAINTS)
        complain(reading->complaints, reading->file, line, text);
}

/* After the last line: how many there were that were not said. */
static void count_complaints(const struct reading *reading)
{
    char text[64];
    if (reading->complaints_made <= COMPLAINTS)
        return;
    snprintf(text, sizeof(text), "%u more faults; expected none", reading->complaints_made - COMPLAINTS);
    complain(reading->complaints, reading->file, 0, text);
}

/* Of a line: a fault of the section's rule, or of no rule. */
static void fault(struct reading *reading, const char *text)
{
    if (reading->in_section)
        rp_rule_draft_fault(&reading->draft, reading->line, "%s", text);
    else
        complain_of_line(reading, reading->line, text);
}

static void end_section(struct reading *reading)
{
    struct rp_rule rule;
    if (!reading->in_section)
        return;
    reading->in_section = false;
    if (!rp_rule_draft_finish(&reading->draft, &rule)) {
        complain_of_line(reading, reading->draft.fault_line, reading->draft.fault);
        return;
    }
    rule.file = reading->file;
    rule.shipped = reading->shipped;
    enum rp_status status = rp_rules_add(reading->rules, &rule);
    if (status == RP_FULL)
        complain_of_line(reading, rule.line, "one rule too many; expected at most " RULES_MAX_TEXT " in all files");
    else if (status != RP_OK)
        reading->status = status;
}

/* Returns the length of the name. */
static size_t open_section(struct reading *reading, const char *line)
{
    size_t length = strcspn(line + 1, "]");
    end_section(reading);
    rp_rule_draft_begin(&reading->draft, line + 1, length, reading->line);
    reading->in_section = true;
    return length;
}

static void begin_section(struct reading *reading, const char *line)
{
    size_t length = open_section(reading, line);
    if (line[1 + length] == '\0') {
        fault(reading, "a \"[\" without its \"]\"; expected [name]");
        return;
    }
    const char *behind = line + 1 + length + 1;
    behind += strspn(behind, BLANKS);
    if (*behind != '\0' && *behind != ';' && *behind != '#')
        fault(reading, "more behind the \"]\"; expected [name] alone");
}

static void end_line(struct reading *reading)
{
    if (reading->unanswered)
        fault(reading, "neither a pair nor a section; expected key = value, [name] or ; comment");
    reading->unanswered = false;
}

/* The next line of the text into `out`, of `size` bytes, without blanks before it; false if it is too long, and cut. */
static bool take_line(struct reading *reading, char *out, size_t size)
{
    const char *end = memchr(reading->at, '\n', (size_t)(reading->end - reading->at));
    const char *from = reading->at, *to = end != NULL ? end : reading->end;
    reading->at = end != NULL ? end + 1 : reading->end;
    reading->line++;
    while (from < to && strchr(BLANKS, *from) != NULL)
        from++;
    while (to > from && strchr(BLANKS, to[-1]) != NULL)
        to--;
    bool fits = (size_t)(to - from) < size;
    size_t length = fits ? (size_t)(to - from) : size - 1;
    memcpy(out, from, length);
    out[length] = '\0';
    return fits;
}

/* Nothing of it counts, but a section ends where the next begins, and a comment may go on. */
static void pass_long_line(struct reading *reading, char *line, size_t most)
{
    char text[64];
    if (*line == '[')
        open_section(reading, line);
    if (strchr(";#", *line) == NULL) {
        snprintf(text, sizeof(text), "the line is too long; expected at most %zu bytes", most);
        fault(reading, text);
    }
    *line = '\0';
}

/* For inih: as fgets(). */
static char *next_line(char *out, int size, void *stream)
{
    struct reading *reading = stream;
    end_line(reading);
    if (reading->at == reading->end || size < 2)
        return NULL;
    size = size < RP_RULE_LINE_BYTES ? size : RP_RULE_LINE_BYTES;
    if (!take_line(reading, out, (size_t)size - 2))
        pass_long_line(reading, out, (size_t)size - 3);
    if (*out == '[')
        begin_section(reading, out);
    reading->unanswered = strchr("[;#", *out) == NULL; /* the end of an empty line is found, too */
    return strcat(out, "\n");
}

/* For inih: one pair. Its name of the section is cut at 49 bytes, and says nothing of two sections of one name. */
static int take_pair(void *user, const char *section, const char *key, const char *value)
{
    struct reading *reading = user;
    (void)section;
    reading->unanswered = false;
    if (reading->in_section)
        rp_rule_draft_set(&reading->draft, key, value, reading->line);
    else
        fault(reading, "a key before any section; expected [name] first");
    return 1;
}

enum rp_status rp_rules_read(struct rp_rules *rules, const char *file, bool shipped, const char *text, size_t length,
                             const struct rp_rule_complaints *complaints)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    struct reading *reading = calloc(1, sizeof(*reading));
    if (reading == NULL)
        return RP_NO_MEMORY;
    *reading = (struct reading){.rules = rules, .file = file, .shipped = shipped, .complaints = complaints};
    reading->at = text;
    reading->end = text + length;
    if (length >= 3 && memcmp(text, byte_order_mark, 3) == 0)
        reading->at += 3;
    if (memchr(text, '\0', length) != NULL) {
        complain(complaints, file, 0, "not a text file; expected sections of key = value");
    } else {
        /* lines that it finds wrong were found above, with their numbers */
        if (ini_parse_stream(next_line, reading, take_pair, reading) == INIH_NO_MEMORY)
            reading->status = RP_NO_MEMORY;
        end_section(reading);
        count_complaints(reading);
    }
    enum rp_status status = reading->status;
    free(reading);
    return status;
}

/* ---------------------------------------------------------------- files */

static enum rp_status cannot_read(const char *path, const char *why, const struct rp_rule_complaints *complaints)
{
    complain(complaints, path, 0, why);
    return RP_IO;
}

/* At most `size` bytes; -1 and errno. */
static ssize_t read_all(int fd, char *out, size_t size)
{
    size_t length = 0;
    while (length < size) {
        ssize_t got = read(fd, out + length, size - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        length += (size_t)got;
    }
    return (ssize_t)length;
}

static enum rp_status read_open_file(struct rp_rules *rules, const char *path, int fd,
                                     const struct rp_rule_complaints *complaints)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return cannot_read(path, strerror(errno), complaints);
    if (!S_ISREG(status.st_mode))
        return cannot_read(path, "not a regular file", complaints);
    char *text = malloc(RP_RULE_FILE_BYTES + 1);
    if (text == NULL)
        return RP_NO_MEMORY;
    ssize_t length = read_all(fd, text, RP_RULE_FILE_BYTES + 1);
    enum rp_status result;
    if (length < 0)
        result = cannot_read(path, strerror(errno), complaints);
    else if ((size_t)length > RP_RULE_FILE_BYTES)
        result = cannot_read(path, "too large; expected at most 1 MiB", complaints);
    else
        result = rp_rules_read(rules, path, false, text, (size_t)length, complaints);
    free(text);
    return result;
}

enum rp_status rp_rules_read_file(struct rp_rules *rules, const char *path, const struct rp_rule_complaints *complaints)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hold us up */
    if (fd < 0)
        return cannot_read(path, strerror(errno), complaints);
    enum rp_status status = read_open_file(rules, path, fd, complaints);
    close(fd);
    return status;
}

enum rp_status rp_rules_read_shipped(struct rp_rules *rules, const struct rp_rule_complaints *complaints)
{
    enum rp_status status = RP_OK;
    for (const struct rp_rules_text *shipped = rp_rules_shipped; shipped->file != NULL && status == RP_OK; shipped++)
        status = rp_rules_read(rules, shipped->file, true, shipped->text, strlen(shipped->text), complaints);
    return status;
}
