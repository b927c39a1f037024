/*
 * core/agree/agree.c as it stands, small, and with every access to shared memory handed to the explorer.
 *
 * Threads: one.
 */
#include "tests/explore/small.h"

#include "tests/explore/atomic.h"

#include "core/agree/agree.c" /* NOLINT(bugprone-suspicious-include) */
