/* Small calls: every rank has received what all ranks contribute, and finishes the call alone. */
#ifndef YKI_ENGINE_SMALL_H
#define YKI_ENGINE_SMALL_H

#include "comm/engine/engine.h"

/* Whether the messages of a call carry its data. */
bool yki_engine_is_small(const yki_engine_base *engine, const yk_descriptor *what);
/* The bytes that this rank's message carries; 0 for others' broadcasts, and where nothing is
 * carried. */
size_t yki_engine_contribution(const yki_engine_base *engine, const yk_descriptor *what);
/* Turns the ranks' contributions into the result. Reductions are in the order of ranks. */
void yki_engine_finish_small(const yki_engine_base *engine, yk_backend_call *call);

#endif
