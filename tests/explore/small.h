/* A small agreement for the explorer: words are used again after two positions. Before any header of core/agree. */
#ifndef RP_EXPLORE_SMALL_H
#define RP_EXPLORE_SMALL_H

#define RP_AGREE_WORDS 2u
#define RP_AGREE_ARMINGS 2u

#endif
