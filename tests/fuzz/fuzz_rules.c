/*
 * The reader of annotation files, and matching by what it read.
 *
 * An input is the text of a file; behind a zero byte, up to the next each, texts that are matched against its rules:
 * the first byte of a text says of which source, and where, behind a second zero byte, is what follows.
 *
 * Threads: one.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/rules/rule_file.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "rules";

static void say(void *context, const char *text)
{
    size_t *said = context;
    *said += strlen(text);
    must(strchr(text, '\n') == NULL); /* a complaint is one line */
}

static void match(const struct rp_rules *rules, const char *text, const char *where)
{
    struct rp_rule_match found;
    char module[64];
    enum rp_rule_source source = (enum rp_rule_source)((unsigned char)text[0] % RP_RULE_SOURCE_COUNT);
    rp_rules_have_method(rules, text);
    if (text[0] == '\0' || !rp_rules_match(rules, source, text + 1, where, &found))
        return;
    if (found.module_rule != NULL && found.module_rule->module_kind != RP_RULE_SAYS_PATH)
        must(rp_rule_module_text(&found, module, sizeof(module)) < sizeof(module));
}

/* Each text of `texts`, which ends with a zero byte, and the one behind it as its place. */
static void match_all(const struct rp_rules *rules, const char *texts, const char *end)
{
    while (texts < end) {
        const char *where = texts + strlen(texts) + 1;
        match(rules, texts, where < end ? where : NULL);
        texts = where;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_rules *rules = NULL;
    size_t said = 0;
    const struct rp_rule_complaints complaints = {say, &said};
    rp_log_setup(RP_LOG_NONE, NULL);
    const uint8_t *end = memchr(data, '\0', size);
    size_t length = end != NULL ? (size_t)(end - data) : size;
    char *text = malloc(length + 1), *texts = malloc(size - length + 1);
    must(text != NULL && texts != NULL && rp_rules_create(&rules) == RP_OK);
    memcpy(text, data, length);
    memcpy(texts, data + length, size - length);
    texts[size - length] = '\0';
    must(rp_rules_read(rules, "fuzz.ini", false, text, length, &complaints) == RP_OK);
    match_all(rules, texts + 1, texts + (size - length));
    rp_rules_destroy(rules);
    free(text);
    free(texts);
    return 0;
}
