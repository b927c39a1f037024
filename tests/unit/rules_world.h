/*
 * The rules of a text, or those that are shipped, for tests; complaints are kept in order.
 */
#ifndef RP_TEST_RULES_WORLD_H
#define RP_TEST_RULES_WORLD_H

#include <stdio.h>
#include <string.h>

#include "core/rules/rule_file.h"

struct rules_world {
    struct rp_rules *rules;
    char said[8192]; /* a complaint a line */
};

static inline void rules_world_say(void *context, const char *text)
{
    struct rules_world *world = context;
    size_t length = strlen(world->said);
    snprintf(world->said + length, sizeof(world->said) - length, "%s\n", text);
}

/* The shipped ones if `text` is NULL. */
static inline struct rules_world rules_world_make(const char *text)
{
    struct rules_world world = {0};
    struct rp_rule_complaints complaints = {rules_world_say, &world};
    assert_int_equal(rp_rules_create(&world.rules), RP_OK);
    if (text == NULL)
        assert_int_equal(rp_rules_read_shipped(world.rules, &complaints), RP_OK);
    else
        assert_int_equal(rp_rules_read(world.rules, "t.ini", false, text, strlen(text), &complaints), RP_OK);
    return world;
}

#endif
