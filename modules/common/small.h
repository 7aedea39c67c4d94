/* Small calls: every rank has received what all ranks contribute, and finishes the call alone. */
#ifndef ENGINE_SMALL_H
#define ENGINE_SMALL_H

#include "engine.h"

/* Whether the messages of a call carry its data. */
bool engine_is_small(const engine_base *engine, const yk_descriptor *what);
/* The bytes that this rank's message carries; 0 for others' broadcasts, and where nothing is
 * carried. */
size_t engine_contribution(const engine_base *engine, const yk_descriptor *what);
/* Turns the ranks' contributions into the result. Reductions are in the order of ranks. */
void engine_finish_small(const engine_base *engine, yk_backend_call *call);

#endif
