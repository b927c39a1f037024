/*
 * Functions whose names tell module and phase, as those of a trainer whose layers are generated or written out:
 * layer3_forward, root_backward, chunk1_eval. They do nothing but call the work, so that they are on its stack:
 * exported, each compiled by itself, and with something left to do behind the call.
 */
#include "minitrain_site.h"

#include "minitrain_host.h"

#include <string.h>

#define LAYERS 32
#define CHUNKS 16

#define LAYER(X, n) X(layer##n, "layers." #n)
#define CHUNK(X, n) X(chunk##n, "chunk." #n)
#define EACH_8(X, KIND, a, b, c, d, e, f, g, h) \
    KIND(X, a) KIND(X, b) KIND(X, c) KIND(X, d) KIND(X, e) KIND(X, f) KIND(X, g) KIND(X, h)

/* X(what functions' names begin with, module); "" is work of no module. */
#define MODULES(X)                                   \
    EACH_8(X, LAYER, 0, 1, 2, 3, 4, 5, 6, 7)         \
    EACH_8(X, LAYER, 8, 9, 10, 11, 12, 13, 14, 15)   \
    EACH_8(X, LAYER, 16, 17, 18, 19, 20, 21, 22, 23) \
    EACH_8(X, LAYER, 24, 25, 26, 27, 28, 29, 30, 31) \
    EACH_8(X, CHUNK, 0, 1, 2, 3, 4, 5, 6, 7)         \
    EACH_8(X, CHUNK, 8, 9, 10, 11, 12, 13, 14, 15)   \
    X(root, "root")                                  \
    X(embed, "embed")                                \
    X(head, "head")                                  \
    X(ring, "ring")                                  \
    X(peer, "peer")                                  \
    X(loss, "loss")                                  \
    X(model, "")

/* The assembler's comment stands behind the call, and makes each body another one: equal ones are folded. */
#define FUNCTION(name)                                                             \
    __attribute__((noinline, visibility("default"))) void name(mt_work *, void *); \
    void name(mt_work *work, void *argument)                                       \
    {                                                                              \
        work(argument);                                                            \
        __asm__ volatile("/* " #name " */" ::: "memory");                          \
    }
#define FUNCTIONS(name, module) \
    FUNCTION(name##_forward)    \
    FUNCTION(name##_backward)   \
    FUNCTION(name##_recompute)  \
    FUNCTION(name##_eval)       \
    FUNCTION(name##_optimizer)  \
    FUNCTION(name##_other)
MODULES(FUNCTIONS)

static const struct named {
    const char *module;
    void (*call[MT_PHASES])(mt_work *, void *);
} named[] = {
#define ROW(name, module) \
    {module, {name##_forward, name##_backward, name##_recompute, name##_eval, name##_optimizer, name##_other}},
    MODULES(ROW)
#undef ROW
};

void mt_names_call(enum mt_phase phase, const char *module, mt_work *work, void *argument)
{
    const char *wanted = module ? module : "";
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (strcmp(named[i].module, wanted) != 0)
            continue;
        named[i].call[phase](work, argument);
        return;
    }
    mt_die("no functions are named after %s", wanted);
}

bool mt_names_are_enough(int layers, int chunks)
{
    return layers <= LAYERS && chunks <= CHUNKS;
}
