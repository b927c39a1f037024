/*
 * The tables that a site is asked with, for tests: the shipped rules, and those of a text over them.
 */
#ifndef RP_TEST_SITE_WORLD_H
#define RP_TEST_SITE_WORLD_H

#include "shim/site_sources.h"
#include "tests/unit/rules_world.h"

/* `text`: rules over the shipped ones, or NULL. They live as long as the process. */
static inline struct rp_site_tables site_world_tables(const char *text)
{
    struct rules_world world = rules_world_make(NULL);
    struct rp_rule_complaints complaints = {rules_world_say, &world};
    struct rp_site_tables tables = {.rules = world.rules};
    if (text != NULL)
        assert_int_equal(rp_rules_read(world.rules, "t.ini", false, text, strlen(text), &complaints), RP_OK);
    assert_string_equal(world.said, "");
    assert_int_equal(rp_modules_create(&tables.modules), RP_OK);
    assert_int_equal(rp_seen_create(&tables.seen), RP_OK);
    return tables;
}

static inline void site_world_free(struct rp_site_tables *tables)
{
    rp_modules_destroy(tables->modules);
    rp_seen_destroy(tables->seen);
    rp_rules_destroy((struct rp_rules *)(uintptr_t)tables->rules);
}

/* How many collectives were under what was seen with that text; -1: it was not seen. */
static inline long site_world_collectives(const struct rp_site_tables *tables, const char *text)
{
    for (uint32_t i = 0; i < rp_seen_total(tables->seen); i++)
        if (strcmp(rp_seen_site(tables->seen, i).text, text) == 0)
            return (long)rp_seen_collectives(tables->seen, i);
    return -1;
}

#endif
