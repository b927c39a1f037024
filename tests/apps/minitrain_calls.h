/* What this rank has called, told by itself: for whoever checks what others have seen of it. */
#ifndef MINITRAIN_CALLS_H
#define MINITRAIN_CALLS_H

#include "minitrain_site.h"

/* With --calls FILE the calls of rank R go to FILE.R; else the other functions do nothing. */
void mt_calls_open(const char *file, int rank);
/* A line "<module> <phase> <op>". Before the call it is of, by the thread that issues; never by two at a time. */
void mt_called(const char *module, enum mt_phase phase, const char *op);
void mt_calls_close(void);

#endif
