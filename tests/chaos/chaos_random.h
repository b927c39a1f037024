/*
 * Random numbers that are the same on every machine: splitmix64 (Steele, Lea, Flood 2014).
 */
#ifndef CHAOS_RANDOM_H
#define CHAOS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct chaos_random {
    uint64_t state;
};

static inline uint64_t chaos_mix(uint64_t word)
{
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}

static inline uint64_t chaos_next(struct chaos_random *random)
{
    random->state += 0x9e3779b97f4a7c15u;
    return chaos_mix(random->state);
}

/* 0 .. count - 1; `count` above 0. */
static inline int chaos_below(struct chaos_random *random, int count)
{
    return (int)(chaos_next(random) % (uint64_t)count);
}

static inline int chaos_between(struct chaos_random *random, int least, int most)
{
    return least + chaos_below(random, most - least + 1);
}

static inline bool chaos_chance(struct chaos_random *random, int percent)
{
    return chaos_below(random, 100) < percent;
}

#endif
